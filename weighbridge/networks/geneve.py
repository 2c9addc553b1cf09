"""Geneve between nodes, laid out like flannel's VXLAN: a bridge per node, routed over a tunnel device per other node.

    pod eth0 ──veth── gnv0 (bridge) ─ routed ─ geneve<n> (id 1, UDP 6081)
                                                   │
                            node1 eth0 ═══ link ═══ eth0 node2 ── geneve<n> ── gnv0 ── pods

The overhead is that of Geneve without options over IPv4 (RFC 8926): 20 IP + 8 UDP + 8 Geneve + 14 inner Ethernet.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_bytes, missing_device
from weighbridge.networks import no_caveat as caveat
from weighbridge.networks import no_evidence as evidence
from weighbridge.networks import nothing_to_leave as leave
from weighbridge.networks._bridged import Bridged
from weighbridge.shell import Shell

__all__ = [
    "OVERHEAD",
    "PACKAGES",
    "PODS",
    "SERVICES",
    "address",
    "carried",
    "caveat",
    "evidence",
    "join",
    "leave",
    "unavailable",
    "wire",
]

PODS = True
OVERHEAD = 50
PACKAGES = ()
SERVICES = True
_PODS = Bridged("gnv0", 16, OVERHEAD)
address, join = _PODS.address, _PODS.join


def unavailable(shell: Shell) -> str | None:
    """It needs the kernel's geneve and bridge devices."""
    return missing_device(shell, "geneve", "id", "1", "remote", "198.18.0.1") or missing_device(shell, "bridge")


def wire(nodes: Sequence[Node]) -> None:
    """Make a bridge on every node and a tunnel device to every other."""
    for node in nodes:
        _PODS.add_bridge(node)
        for other in nodes:
            if other is not node:
                device, far = f"geneve{other.number}", ("id", "1", "remote", other.address, "dstport", "6081")
                made = ("address", _PODS.mac(node), "mtu", _PODS.mtu(node), "type", "geneve", *far)
                node.ip("link", "add", device, *made)
                _PODS.open_device(node, device)
                _PODS.route(node, other, device)


def carried(pod: Pod) -> Carried:
    """The node's tunnel devices, one per other node."""
    listing = pod.node.ip("-json", "-statistics", "link", "show", "type", "geneve").stdout
    return Carried(f"geneve devices on {pod.node.name}", device_bytes(listing))
