"""Pods whose interface is a child of a device on the link (macvlan, ipvlan): packets bypass the node's own stack.

A node cannot speak to the children of its own device either, so it too gets a child, for clients that run on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

from weighbridge.hosts import Node, Pod
from weighbridge.networks import missing_device
from weighbridge.shell import Shell


@dataclass(frozen=True, slots=True)
class Children:
    """A kind of child device with its options, and the subnet of all pods and nodes."""

    kind: tuple[str, ...]
    subnet: str

    def unavailable(self, shell: Shell) -> str | None:
        """Why the kernel where `shell` runs cannot make one; None when it can."""
        parent = "wbprobeparent"
        if reason := missing_device(shell, "veth"):
            return reason
        shell.run(["ip", "link", "add", parent, "type", "veth", "peer", "name", "wbprobepeer"])
        try:
            return missing_device(shell, *self.kind, parent=parent)
        finally:
            shell.run(["ip", "link", "del", parent], check=False)

    def address(self, node: Node, number: int) -> str:  # noqa: ARG002 - one subnet for all nodes
        """From the one subnet that all nodes share: pods count from its bottom, nodes from its top."""
        return str(IPv4Network(self.subnet)[number])

    def serve_node(self, node: Node, parent: str) -> None:
        """Give the node a child, with an address from the top of the subnet."""
        name = f"{self.kind[0]}0"
        node.ip("link", "add", "link", parent, "name", name, "mtu", str(node.mtu), "type", *self.kind)
        node.ip("address", "add", f"{IPv4Network(self.subnet)[-1 - node.number]}/{self._bits}", "dev", name)
        node.ip("link", "set", name, "up")

    def serve(self, pod: Pod, parent: str) -> None:
        """Give a pod a child as its eth0."""
        name = f"{self.kind[0]}{pod.number}"
        # Under a name of its own first: older kernels refuse a second child called eth0, and one of a parent eth0.
        pod.node.ip("link", "add", "link", parent, "name", name, "mtu", str(pod.node.mtu), "type", *self.kind)
        pod.node.ip("link", "set", name, "netns", pod.namespace, "name", "eth0")
        pod.shell.run(["ip", "address", "add", f"{pod.address}/{self._bits}", "dev", "eth0"])
        pod.shell.run(["ip", "link", "set", "eth0", "up"])

    @property
    def _bits(self) -> str:
        return self.subnet.partition("/")[2]
