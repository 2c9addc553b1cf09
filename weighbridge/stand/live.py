"""A stand of today: a server in its sandbox, and the client beside it or across the link."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

from weighbridge import registry
from weighbridge.cgroups import limits_text
from weighbridge.hosts import Pod
from weighbridge.model import Cell, Limits, PhysicalLimit
from weighbridge.networks import Carried
from weighbridge.paths import Way
from weighbridge.procfs import cpu_times
from weighbridge.runtimes import Sandbox
from weighbridge.shell import find_program, last_line, pinned
from weighbridge.stand.answer import Started
from weighbridge.stand.placed import Placement
from weighbridge.stand.reading import Reading
from weighbridge.targets import Hosts
from weighbridge.tools import Endpoint

CARRIED = 0.5
"""The share of a pod's bytes that has to be seen on the network's own part. Less than one because a counter
behind an offload counts the headers of many segments once, and another one those of every segment."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Bytes over the network's own part and over the pod's interface, and connections translated, at one moment."""

    carried: Carried
    pod: int
    connections: int | None


@dataclass
class LiveStand:
    """A server in its sandbox, and the client beside or across the link."""

    site: Hosts
    cell: Cell
    limits: Limits
    """The cell's, scaled to the machine."""
    start: Callable[[], Started]
    server_now: Started
    client: Pod
    server: Pod
    endpoint: Endpoint
    way: Way
    placement: Placement
    limit: PhysicalLimit | None
    undo: ExitStack = field(default_factory=ExitStack)
    rounds: Sequence[int] | None = None
    _crossed: tuple[_Counted, _Counted] | None = None
    _bypassed: str | None = None
    """What the first run that did not cross the network's own part, or its path's rules, showed."""
    _runs: int = 0

    @cached_property
    def _network(self) -> ModuleType:
        return registry.find("networks", self.cell.axis("network", "host"))

    @cached_property
    def _runtime(self) -> ModuleType:
        return registry.find("runtimes", self.cell.axis("runtime", "host"))

    @property
    def sandbox(self) -> Sandbox:
        """What the server runs in now."""
        return self.server_now.sandbox

    @property
    def caveat(self) -> str | None:
        """What its runtime and its network say against its figures."""
        if self.cell.allow_substitutes:
            return None
        said = (self._runtime.caveat(self.sandbox.evidence()), self._network.caveat(self.server))
        return " and ".join(filter(None, said)) or None

    def read(self, cell: Cell, load: Any, number: int) -> Reading:  # noqa: ARG002 - live rounds are alike
        """Run the tool once from the client's namespace, and count what crossed the network's own part."""
        tool = registry.find("tools", cell.tool)
        again = cell.fresh_server or registry.find("servers", str(cell.server)).single_use(load)
        if self._runs and again:
            self.sandbox.stop()
            self.server_now = self.start()
        self._runs += 1
        self.site.shape(cell.link_rate)
        argv = tool.argv(find_program(self.client.shell, tool.PROGRAMS, tool.PACKAGE), load, self.endpoint)
        self.way.forget()
        before, stolen = self._count(), cpu_times()
        command = [*pinned(self.placement.client), *argv]
        done = self.client.shell.run(command, timeout=_deadline(tool.planned(load), load), check=False)
        figures = {"cpu_steal": cpu_times().stolen_since(stolen)}
        if cell.fresh_server:
            # Memory after the load: a server that was only just started has not taken yet what it serves with.
            figures["start_up_time"] = self.server_now.start_up_time
            figures["memory_footprint"] = float(self.sandbox.memory())
        self._crossed = (before, self._count())
        self._bypassed = self._bypassed or self._missed(*self._crossed)
        output = done.stdout + (f"\n{done.stderr}" if done.stderr.strip() else "")
        problem = None if done.ok else done.explain()
        if not self.sandbox.process.running():
            problem = f"the server ended during the run: {last_line(self.sandbox.process.said())}"
        cores = self._cores() if cell.per_core is not None and cell.per_core == cell.limits.cpu else None
        carries = self._carries(tool.planned(load))
        return Reading(tuple(command), output, done.elapsed, problem, figures=figures, carries=carries, cores=cores)

    def _cores(self) -> float:
        """The CPUs that the server may use: its limit where its runtime keeps one, else all there are."""
        held = re.search(r"\bcpu (\S+)", self.sandbox.evidence().get("limits", ""))
        return float(held[1]) if held else float(len(self.site.capacity.processors))

    def _carries(self, seconds: float) -> float:
        """What the wire can carry, and what its shaper lets pass at once besides, bit/s."""
        if self.limit is None:
            return math.inf
        return self.limit.throughput + (self.site.burst * 8 / seconds if seconds else math.inf)

    def stop_server(self) -> None:
        """Stop whichever sandbox the server is in now."""
        self.sandbox.stop()

    def evidence(self) -> Mapping[str, str]:
        """Kernel, sandbox, limits in force and MTU inside; what crossed the network's own part in the last run."""
        found = {
            **self.sandbox.evidence(),
            "server": f"{self.endpoint.host}:{self.endpoint.port}",
            "cpus": f"{self.cell.cpus}: {self.placement.text}" if self.placement.client else "free",
            "mtu": _mtu(self.server),
            **self._network.evidence(self.server),
            **self.way.evidence,
        }
        if self.limits != self.cell.limits:
            found["limits asked"] = limits_text(self.cell.limits.cpu, self.cell.limits.memory)
        if self._crossed:
            before, after = self._crossed
            if self._crosses:
                found[f"bytes on {after.carried.part}"] = f"{before.carried.bytes} -> {after.carried.bytes}"
            if after.connections is not None:
                found["connections translated"] = f"{before.connections} -> {after.connections}"
        return found

    def unproven(self) -> str | None:
        """Ask the runtime, and look whether the network's own part and the path's own rules carried every run."""
        evidence = self.sandbox.evidence()
        if reason := self._runtime.unproven(evidence, self.limits):
            return str(reason)
        if self.placement.server and _listed(evidence.get("processors", "")) != _listed(self.placement.server):
            return f"the server runs on processors {evidence.get('processors') or '?'}, not {self.placement.server}"
        return self._bypassed

    def _missed(self, before: _Counted, after: _Counted) -> str | None:
        """What of one run's traffic did not go where the cell claims; None when all did."""
        carried, own = after.carried.bytes - before.carried.bytes, after.pod - before.pod
        if self._crosses and (carried <= 0 or carried < CARRIED * own):
            return f"{after.carried.part} carried {carried} bytes while the server's interface saw {own}"
        if after.connections is not None and after.connections <= (before.connections or 0):
            return f"no connection was translated on the way to {self.endpoint.host}"
        return None

    def close(self) -> None:
        """Undo the stand, last made first."""
        self.undo.close()

    @property
    def _crosses(self) -> bool:
        return self.cell.placement == "cross-node"

    def _count(self) -> _Counted:
        if not self._crosses:
            return _Counted(Carried("", 0), 0, self.way.connections())
        return _Counted(self._network.carried(self.server), interface_bytes(self.server), self.way.connections())


def _deadline(planned: float, load: Any) -> float:
    """When a tool run hangs, in seconds: soon after its end, or long after where a count sets the end."""
    return planned * 1.2 + 10.0 if getattr(load, "duration", None) else planned * 10.0 + 10.0


def interface_bytes(pod: Pod) -> int:
    """What a pod's own interface has received and sent."""
    listing = pod.shell.run(["cat", "/proc/net/dev"]).stdout
    words = next(line.partition(":")[2].split() for line in listing.splitlines() if line.strip().startswith("eth0:"))
    return int(words[0]) + int(words[8])


def _mtu(pod: Pod) -> str:
    found = re.search(r"\bmtu (\d+)", pod.shell.run(["ip", "link", "show", "eth0"], check=False).stdout)
    return found[1] if found else ""


def _listed(cpus: str) -> set[int]:
    """The processors in a list as taskset and the kernel write it: `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
