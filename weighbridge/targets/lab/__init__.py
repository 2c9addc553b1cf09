"""The embedded target: two nodes and their pods as network namespaces on this machine.

    node1 (198.18.0.1) eth0 ═══ veth pair, tbf at both ends ═══ eth0 (198.18.0.2) node2

Every address is from 198.18.0.0/15, kept for benchmarks by RFC 2544, and exists only inside.
"""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from weighbridge import cleanup, registry
from weighbridge.errors import InfrastructureError, StandError
from weighbridge.hosts import Node, Pod
from weighbridge.runtimes import Files
from weighbridge.shell import Shell
from weighbridge.targets import Capacity, Request
from weighbridge.targets.lab import link
from weighbridge.targets.lab.namespace import Namespace, new_namespace, unavailable
from weighbridge.wire import MTU

__all__ = ["LIVE", "PACKAGES", "PROGRAMS", "Lab", "open_site", "unavailable"]

LIVE = True
PACKAGES = ("util-linux", "iproute2", "procps")
"""The Debian packages that bring what the lab itself types."""
PROGRAMS = ("unshare", "nsenter", "setpriv", "taskset", "ip", "tc", "ss", "sysctl")


@dataclass
class Lab:
    """A standing lab; networks are wired when their first pod is asked for."""

    namespace: Namespace
    run_id: str
    nodes: Sequence[Node]
    _shaped: float | None = None
    _wired: dict[str, str | None] = field(default_factory=dict)
    """Networks by name, each with why it could not be wired, if so."""
    _pods: set[int] = field(default_factory=set)
    _reserved: set[tuple[str, int]] = field(default_factory=set)

    @property
    def files(self) -> Files:
        """The lab's own file system."""
        return self.namespace

    def shell(self) -> Shell:
        """Inside the lab, outside every node."""
        return self.namespace.shell()

    def pod(self, node: Node, network: str) -> Pod:
        """A new pod of that network; the node itself where the network has no pods."""
        wiring = registry.find("networks", network)
        self._wire(network, wiring)
        if not wiring.PODS:
            return Pod(node.name, 0, node, node.name, node.shell, node.address)
        # The lowest free number: addresses derive from it, and a network has room for some 250 at a time.
        number = next(number for number in itertools.count(1) if number not in self._pods)
        self._pods.add(number)
        name = f"pod{number}"
        self.shell().run(["ip", "netns", "add", name])
        shell = self.namespace.shell(name)
        shell.run(["ip", "link", "set", "lo", "up"])
        pod = Pod(name, number, node, name, shell, wiring.address(node, number))
        try:
            wiring.join(pod, self.nodes)
        except InfrastructureError:
            # Its number stays taken: what was made of it outside may still bear it.
            self.shell().run(["ip", "netns", "delete", name], check=False)
            raise
        return pod

    def _wire(self, network: str, wiring: ModuleType) -> None:
        """Wire a network once; one that could not be wired says so again instead of stumbling over its own remains."""
        if network not in self._wired:
            self._wired[network] = "it was interrupted"
            try:
                wiring.wire(self.nodes)
            except InfrastructureError as error:
                self._wired[network] = str(error)
                raise
            self._wired[network] = None
        if reason := self._wired[network]:
            raise StandError(f"network {network} could not be wired: {reason}")

    def remove(self, pod: Pod, network: str) -> None:
        """Take a pod's namespace away, and what its network made for it outside."""
        wiring = registry.find("networks", network)
        if wiring.PODS:
            wiring.leave(pod, self.nodes)
            # The kernel takes a namespace down in its own time, and until then its devices keep their names.
            pod.shell.run(["ip", "link", "delete", "eth0"])
            self.shell().run(["ip", "netns", "delete", pod.namespace])
            self._pods.discard(pod.number)

    def reserve(self, scope: str, port: int) -> int:
        """The first port from `port` on that no other stand has in that scope."""
        while (scope, port) in self._reserved:
            port += 1
        self._reserved.add((scope, port))
        return port

    def release(self, scope: str, port: int) -> None:
        """Give a reserved port back."""
        self._reserved.discard((scope, port))

    @property
    def capacity(self) -> Capacity:
        """The machine's: every node is on it."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Capacity(tuple(sorted(os.sched_getaffinity(0))), memory)

    @property
    def burst(self) -> int:
        """That of the token bucket at the rate that is set now."""
        return link.burst(self._shaped) if self._shaped else 0

    def shape(self, link_rate: float | None) -> None:
        """Shape both ends of the link, unless they are shaped so already."""
        if link_rate != self._shaped:
            # Until both ends have the new rate, neither the old nor the new one is that of the link.
            self._shaped = -1.0
            for node in self.nodes:
                link.shape(node.shell, node.device, link_rate)
            self._shaped = link_rate

    def describe(self) -> dict[str, str]:
        """Kernel, processor, memory and nodes."""
        return {
            "kernel": platform.release(),
            "processor": _processor(),
            "processors": str(len(self.capacity.processors)),
            "memory": f"{self.capacity.memory / 2**30:.1f} GiB",
            "nodes": str(len(self.nodes)),
        }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@contextmanager
def open_site(request: Request) -> Iterator[Lab]:
    """A lab for the length of the context; what killed runs left on the machine goes first.

    Raises StandError or CommandError when it cannot be made.
    """
    cleanup.remove_all()
    with new_namespace(request.run_id) as namespace:
        outer = namespace.shell()
        nodes = []
        for number in (1, 2):
            name = f"node{number}"
            outer.run(["ip", "netns", "add", name])
            nodes.append(Node(name, number, namespace.shell(name), f"198.18.0.{number}", "eth0", MTU))
        near, far = nodes
        near.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", far.name)
        for node in nodes:
            node.ip("link", "set", "lo", "up")
            node.ip("address", "add", f"{node.address}/24", "dev", "eth0")
            node.ip("link", "set", "eth0", "up")
        yield Lab(namespace, request.run_id, nodes)
