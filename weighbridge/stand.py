"""One stood-up server and client for a cell: target, network, runtime and server put together.

What a stand makes is undone in reverse order, also when standing up fails half-way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from weighbridge import registry
from weighbridge.errors import MissingToolError, StandError
from weighbridge.hosts import Node, Pod
from weighbridge.model import Cell, PhysicalLimit
from weighbridge.runtimes import Command, Sandbox
from weighbridge.shell import Deadline, find_program
from weighbridge.targets import Hosts, Recording, Recordings, Site
from weighbridge.tools import Endpoint, Result
from weighbridge.wire import tcp_limit

READY_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one tool run gave: the command, its raw output, or why there is none (`problem`)."""

    argv: tuple[str, ...]
    output: str
    elapsed: float
    problem: str | None = None
    results: tuple[Result, ...] | None = None
    live: bool = True
    """False for a recording, whose command line is not the scenario's."""
    refuted: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose figure contradicts its neighbours, with the arithmetic."""


class Stand(Protocol):
    """A server that can be loaded."""

    @property
    def limit(self) -> PhysicalLimit | None:
        """What the wire between client and server can carry, where that is known."""

    @property
    def rounds(self) -> Sequence[int] | None:
        """The rounds that were recorded; None when it can be measured again and again."""

    def read(self, cell: Cell, load: Any, number: int) -> Reading:
        """Run the tool once, or give the recording of round `number`."""

    def evidence(self) -> Mapping[str, str]:
        """What proves the claimed runtime and network."""

    def unproven(self) -> str | None:
        """What in the evidence contradicts the claim; None when it is proven."""

    def close(self) -> None:
        """Undo the stand."""


def unavailable(site: Site, cell: Cell) -> str | None:
    """Why a cell cannot be measured on a site; None when it can.

    Probes once per kind of thing; nothing is stood up.
    """
    if isinstance(site, Recordings):
        return None if site.recordings(cell) else "no recording of this cell"
    return _beyond_the_lab(cell) or _missing_here(site, cell)


def _beyond_the_lab(cell: Cell) -> str | None:
    """What the scenario asks that bare hosts do not offer."""
    for axis, plain in (("sidecar", "none"), ("path", "pod-ip")):
        if cell.axis(axis, plain) != plain:
            return f"the lab has no {axis} {cell.axis(axis)!r}"
    if cell.conditions:
        return f"the lab cannot set {', '.join(cell.conditions)}"
    return None if cell.server else "the scenario names no server to stand up"


def _missing_here(site: Hosts, cell: Cell) -> str | None:
    """What this machine lacks: a kernel device, a runtime, a program."""
    shell = site.shell()
    for kind, axis in (("networks", "network"), ("runtimes", "runtime")):
        reason = registry.find(kind, cell.axis(axis, "host")).unavailable(shell)
        if reason:
            return str(reason)
    try:
        for needed in (registry.find("tools", cell.tool), registry.find("servers", str(cell.server))):
            find_program(shell, needed.PROGRAMS, needed.PACKAGE)
    except MissingToolError as error:
        return str(error)
    return None


def stand_key(site: Site, cell: Cell) -> tuple[object, ...]:
    """Cells with the same key share a stand: one server live, one set of recordings in replay."""
    return cell.slot_key if isinstance(site, Recordings) else cell.stand_key


def stand_up(site: Site, cell: Cell) -> Stand:
    """Stand up the server and client of a cell.

    Raises StandError, CommandError or MissingToolError; nothing is left behind then.
    """
    if isinstance(site, Recordings):
        found = {recording.round: recording for recording in site.recordings(cell)}
        network = registry.find("networks", cell.axis("network", "host"))
        return RecordedStand(found, _limit(site.stated_link_rate(cell), network.OVERHEAD, cell))
    with ExitStack() as undo:
        stand = _stand_up_on_hosts(site, cell, undo)
        stand.undo = undo.pop_all()
        return stand


@dataclass(frozen=True)
class RecordedStand:
    """The recordings of one slot, by round."""

    found: Mapping[int, Recording]
    limit: PhysicalLimit | None

    @property
    def rounds(self) -> Sequence[int] | None:
        """The rounds that were recorded."""
        return tuple(self.found)

    def read(self, cell: Cell, load: Any, number: int) -> Reading:  # noqa: ARG002 - recorded with what load it was
        """The recording of round `number`."""
        recording = self.found[number]
        return Reading(
            (recording.source,), recording.text, 0.0, None, recording.results, live=False, refuted=recording.refuted
        )

    def evidence(self) -> Mapping[str, str]:
        """Where the figures come from and what was said of them."""
        notes = dict.fromkeys(recording.note for recording in self.found.values() if recording.note)
        sources = ", ".join(recording.source for recording in self.found.values())
        return {"recorded": sources, **({"note": "; ".join(notes)} if notes else {})}

    def unproven(self) -> str | None:
        """A recording cannot be proven or disproven."""
        return None

    def close(self) -> None:
        """Nothing stands."""


@dataclass
class LiveStand:
    """A server in its sandbox, and the client beside or across the link."""

    cell: Cell
    start: Callable[[], Sandbox]
    sandbox: Sandbox
    client: Pod
    server: Pod
    endpoint: Endpoint
    limit: PhysicalLimit | None
    undo: ExitStack = field(default_factory=ExitStack)
    rounds: Sequence[int] | None = None
    counted: tuple[int, int] = (0, 0)
    used: bool = False

    def read(self, cell: Cell, load: Any, number: int) -> Reading:  # noqa: ARG002 - live rounds are alike
        """Run the tool once from the client's namespace, and count what crossed the network's device."""
        tool = registry.find("tools", cell.tool)
        if self.used and registry.find("servers", str(cell.server)).single_use(load):
            self.sandbox.stop()
            self.sandbox = self.start()
        self.used = True
        shell = self.client.shell
        argv = tool.argv(find_program(shell, tool.PROGRAMS, tool.PACKAGE), load, self.endpoint)
        before = self._packets()
        done = shell.run(argv, timeout=_deadline(tool.planned(load), load), check=False)
        self.counted = (before, self._packets())
        output = done.stdout + (f"\n{done.stderr}" if done.stderr.strip() else "")
        problem = None if done.ok else done.explain()
        if not self.sandbox.process.running():
            problem = f"the server ended during the run: {_last_words(self.sandbox)}"
        return Reading(tuple(argv), output, done.elapsed, problem)

    def stop_server(self) -> None:
        """Stop whichever sandbox the server is in now."""
        self.sandbox.stop()

    def evidence(self) -> Mapping[str, str]:
        """Kernel, sandbox, limits in force and MTU inside; packets over the network's device in the last run."""
        network = registry.find("networks", self.cell.axis("network", "host"))
        device = network.DEVICE if self._crosses else None
        return {
            **self.sandbox.evidence(),
            "server": f"{self.endpoint.host}:{self.endpoint.port}",
            "mtu": _mtu(self.server),
            **({f"packets on {device}": f"{self.counted[0]} -> {self.counted[1]}"} if device else {}),
        }

    def unproven(self) -> str | None:
        """Ask the runtime, and look whether the network's own device carried the traffic."""
        runtime = registry.find("runtimes", self.cell.axis("runtime", "host"))
        if reason := runtime.unproven(self.sandbox.evidence(), self.cell.limits):
            return str(reason)
        if self._crosses and self.counted[1] <= self.counted[0]:
            return f"no packet crossed {registry.find('networks', self.cell.axis('network', 'host')).DEVICE}"
        return None

    def close(self) -> None:
        """Undo the stand, last made first."""
        self.undo.close()

    @property
    def _crosses(self) -> bool:
        return self.cell.placement == "cross-node"

    def _packets(self) -> int:
        device = registry.find("networks", self.cell.axis("network", "host")).DEVICE
        return _packets(self.server.node, device) if device and self._crosses else 0


def _stand_up_on_hosts(site: Hosts, cell: Cell, undo: ExitStack) -> LiveStand:
    network_key, runtime_key = cell.axis("network", "host"), cell.axis("runtime", "host")
    network, runtime = registry.find("networks", network_key), registry.find("runtimes", runtime_key)
    server = registry.find("servers", str(cell.server))
    near, far = site.nodes[0], site.nodes[-1] if cell.placement == "cross-node" else site.nodes[0]
    server_pod = site.pod(far, network_key)
    client_pod = site.pod(near, "host" if cell.client == "node" else network_key)
    port = site.reserve(server_pod, server.PORT)
    undo.callback(site.release, server_pod, port)
    workdir = f"/run/weighbridge/{site.run_id}/{server_pod.name}-{runtime_key}-{cell.server}-{port}"
    for path, content in server.files(port, workdir).items():
        site.files.write(path, content)
    program = find_program(server_pod.shell, server.PROGRAMS, server.PACKAGE)
    transport = server.transport(cell.load)
    if _listening(server_pod, transport, port):
        raise StandError(f"port {port} is in use in {server_pod.name}; end the server that holds it")
    command = Command(tuple(server.argv(program, port, workdir, cell.load)), workdir)

    def start() -> Sandbox:
        sandbox: Sandbox = runtime.start(server_pod, command, cell.limits, site.files, site.run_id)
        try:
            _await_server(server_pod, transport, port, sandbox, cell)
        except BaseException:
            sandbox.stop()
            raise
        return sandbox

    limit = _limit(site.link_rate, network.OVERHEAD, cell)
    stand = LiveStand(cell, start, start(), client_pod, server_pod, Endpoint(server_pod.address, port), limit)
    undo.callback(stand.stop_server)
    return stand


def _deadline(planned: float, load: Any) -> float:
    """When a tool run hangs, in seconds: soon after its end, or long after where a count sets the end."""
    return planned * 1.2 + 10.0 if getattr(load, "duration", None) else planned * 10.0 + 10.0


def _limit(link_rate: float | None, overhead: int, cell: Cell) -> PhysicalLimit | None:
    """The wire's limit; traffic on one node never meets the wire, and datagrams have no TCP headers."""
    if not link_rate or cell.placement != "cross-node" or getattr(cell.load, "udp", False):
        return None
    return PhysicalLimit(*tcp_limit(link_rate, overhead))


def _listening(pod: Pod, transport: str, port: int) -> bool:
    listing = pod.shell.run(["ss", "--no-header", "--numeric", "--listening", f"--{transport}", f"sport = :{port}"])
    return bool(listing.stdout.strip())


def _await_server(pod: Pod, transport: str, port: int, sandbox: Sandbox, cell: Cell) -> None:
    def ready() -> bool:
        if not sandbox.process.running():
            raise StandError(f"{cell.server} ended at once: {_last_words(sandbox)}")
        return _listening(pod, transport, port)

    Deadline(READY_TIMEOUT).until(ready, f"{cell.server} to listen on port {port} in {pod.name}")


def _last_words(sandbox: Sandbox) -> str:
    """The last line that a server wrote: a reason has to fit a line of a report."""
    return (sandbox.process.said().strip() or "it said nothing").splitlines()[-1]


def _mtu(pod: Pod) -> str:
    found = re.search(r"\bmtu (\d+)", pod.shell.run(["ip", "link", "show", "eth0"], check=False).stdout)
    return found[1] if found else ""


def _packets(node: Node, device: str) -> int:
    stats = json.loads(node.shell.run(["ip", "-json", "-statistics", "link", "show", device]).stdout)[0]["stats64"]
    return int(stats["rx"]["packets"]) + int(stats["tx"]["packets"])
