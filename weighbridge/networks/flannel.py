"""flannel's VXLAN backend: a bridge per node, kernel VXLAN between nodes, MTU 50 below the link's.

    pod eth0 ──veth── cni0 (bridge) ─ routed ─ flannel.1 (vxlan id 1, UDP 8472)
                                                   │
                            node1 eth0 ═══ link ═══ eth0 node2 ── flannel.1 ── cni0 ── pods

As flanneld does, every other node's subnet is routed over flannel.1 to that node's VTEP, whose
neighbour entry and forwarding entry are static: no learning, no multicast. The overhead is that of
VXLAN over IPv4 (RFC 7348): 20 IP + 8 UDP + 8 VXLAN + 14 inner Ethernet.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried, missing_device
from weighbridge.networks import no_evidence as evidence
from weighbridge.networks import nothing_to_leave as leave
from weighbridge.shell import Shell

__all__ = [
    "OVERHEAD",
    "PACKAGES",
    "PODS",
    "SERVICES",
    "address",
    "carried",
    "evidence",
    "join",
    "leave",
    "unavailable",
    "wire",
]

PODS = True
OVERHEAD = 50
DEVICE = "flannel.1"
PACKAGES = ()
SERVICES = True


def unavailable(shell: Shell) -> str | None:
    """It needs the kernel's vxlan and bridge devices."""
    return missing_device(shell, "vxlan", "id", "1", "dstport", "4789") or missing_device(shell, "bridge")


def wire(nodes: Sequence[Node]) -> None:
    """Make flannel.1 and cni0 on every node and tell each about the others."""
    for node in nodes:
        mtu = str(node.mtu - OVERHEAD)
        node.sysctl(net__ipv4__ip_forward="1")
        vxlan = ("id", "1", "dev", node.device, "local", node.address, "dstport", "8472", "nolearning")
        node.ip("link", "add", DEVICE, "address", _mac(node), "mtu", mtu, "type", "vxlan", *vxlan)
        node.ip("address", "add", f"{_subnet(node)}.0/32", "dev", DEVICE)
        node.ip("link", "set", DEVICE, "up")
        node.ip("link", "add", "cni0", "mtu", mtu, "type", "bridge")
        node.ip("address", "add", f"{_subnet(node)}.1/24", "dev", "cni0")
        node.ip("link", "set", "cni0", "up")
    for node in nodes:
        for other in nodes:
            if other is not node:
                gateway = f"{_subnet(other)}.0"
                node.ip("neighbour", "add", gateway, "lladdr", _mac(other), "dev", DEVICE, "nud", "permanent")
                node.shell.run(["bridge", "fdb", "add", _mac(other), "dev", DEVICE, "dst", other.address, "self"])
                node.ip("route", "add", f"{_subnet(other)}.0/24", "via", gateway, "dev", DEVICE, "onlink")


def address(node: Node, number: int) -> str:
    """The node's /24; .0 is its VTEP and .1 its bridge."""
    return f"{_subnet(node)}.{number + 1}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - the other nodes know the subnet already
    """Hang the pod on the node's bridge."""
    node, side, mtu = pod.node, f"veth{pod.number}", str(pod.node.mtu - OVERHEAD)
    node.ip("link", "add", side, "mtu", mtu, "type", "veth", "peer", "name", "eth0", "netns", pod.namespace)
    node.ip("link", "set", side, "master", "cni0", "up")
    inside = pod.shell
    inside.run(["ip", "link", "set", "eth0", "mtu", mtu, "up"])
    inside.run(["ip", "address", "add", f"{pod.address}/24", "dev", "eth0"])
    inside.run(["ip", "route", "add", "default", "via", f"{_subnet(node)}.1"])


def carried(pod: Pod) -> Carried:
    """The VXLAN device."""
    return device_carried(pod.node, DEVICE)


def _subnet(node: Node) -> str:
    return f"198.19.{node.number}"


def _mac(node: Node) -> str:
    return f"02:57:42:00:00:{node.number:02x}"
