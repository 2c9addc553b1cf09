"""Pods on a bridge per node, each node with a /24 of its own that the other nodes route to.

    pod eth0 ──veth── bridge (.1) ─ routed ─ device between nodes (.0)

What the device between nodes is makes the network: VXLAN, Geneve, WireGuard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.hosts import Node, Pod, ip_batch


@dataclass(frozen=True, slots=True)
class Bridged:
    """A bridge's name, the range that nodes' subnets come from, and what packets between nodes bear on top."""

    bridge: str
    first: int
    """The third octet of 198.19.0.0/16 that the subnet of a node numbered 0 would have."""
    overhead: int

    def subnet(self, node: Node) -> str:
        """The first three octets of a node's /24."""
        return f"198.19.{self.first + node.number}"

    def mtu(self, node: Node) -> str:
        """What leaves the node's link whole."""
        return str(node.mtu - self.overhead)

    def address(self, node: Node, number: int) -> str:
        """From the node's /24: .0 is its device between nodes and .1 its bridge."""
        return f"{self.subnet(node)}.{number + 1}"

    def mac(self, node: Node) -> str:
        """An Ethernet address for the node's device between nodes."""
        return f"02:57:42:00:{self.first:02x}:{node.number:02x}"

    def open_device(self, node: Node, device: str) -> None:
        """Give the node's device between nodes its address, and set it up."""
        node.ip("address", "add", f"{self.subnet(node)}.0/32", "dev", device)
        node.ip("link", "set", device, "up")

    def add_bridge(self, node: Node) -> None:
        """Make the node's bridge, and let the node forward."""
        node.sysctl(net__ipv4__ip_forward="1")
        node.ip("link", "add", self.bridge, "mtu", self.mtu(node), "type", "bridge")
        node.ip("address", "add", f"{self.subnet(node)}.1/24", "dev", self.bridge)
        node.ip("link", "set", self.bridge, "up")

    def route(self, node: Node, other: Node, device: str) -> None:
        """Route another node's subnet over an Ethernet device between nodes, whose far end is known beforehand."""
        gateway = f"{self.subnet(other)}.0"
        node.ip("neighbour", "add", gateway, "lladdr", self.mac(other), "dev", device, "nud", "permanent")
        node.ip("route", "add", f"{self.subnet(other)}.0/24", "via", gateway, "dev", device, "onlink")

    def join(self, pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG002 - the other nodes know the subnet already
        """Hang the pod on the node's bridge."""
        node, side, mtu = pod.node, f"veth{pod.number}", self.mtu(pod.node)
        # From its number, so that a neighbour that knew the address's last owner finds the next.
        mac = f"02:57:42:01:{node.number:02x}:{pod.number:02x}"
        far = ("peer", "name", "eth0", "address", mac, "netns", pod.namespace)
        ip_batch(
            node.shell,
            ("link", "add", side, "mtu", mtu, "type", "veth", *far),
            ("link", "set", side, "master", self.bridge, "up"),
        )
        ip_batch(
            pod.shell,
            ("link", "set", "eth0", "mtu", mtu, "up"),
            ("address", "add", f"{pod.address}/24", "dev", "eth0"),
            ("route", "add", "default", "via", f"{self.subnet(node)}.1"),
        )
