"""Calico with IP-in-IP between nodes: routed as without, but what goes to another node's pods is wrapped.

    pod eth0 ──veth── cali<n>  node1  cali-ipip ┄ eth0 ═══ link ═══ eth0 ┄ cali-ipip  node2  cali<n> ──veth── eth0 pod

One device without a fixed far end serves all nodes, as Calico's tunl0 does: a route's gateway says where to. Its
address is from the pods' range, so that what a node itself sends to a pod, and the answer, are wrapped too. The
overhead is one more IPv4 header (RFC 2003).
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, _routed, device_carried, missing_device
from weighbridge.networks import no_caveat as caveat
from weighbridge.networks._routed import evidence, leave
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
OVERHEAD = 20
PACKAGES = ()
SERVICES = True
_DEVICE = "cali-ipip"


def unavailable(shell: Shell) -> str | None:
    """It needs the kernel's ipip device."""
    return missing_device(shell, "ipip", "local", "198.18.0.1")


def wire(nodes: Sequence[Node]) -> None:
    """Let the nodes forward, and make the device between them."""
    for node in nodes:
        _routed.prepare(node)
        mtu = str(node.mtu - OVERHEAD)
        node.ip("link", "add", _DEVICE, "mtu", mtu, "type", "ipip", "local", node.address, "ttl", "64")
        node.ip("address", "add", f"{address(node, 0)}/32", "dev", _DEVICE)
        node.ip("link", "set", _DEVICE, "up")
    for node in nodes:
        for other in nodes:
            if other is not node:
                _route(node, address(other, 0), other)


def address(node: Node, number: int) -> str:
    """A /32 from the node's block; .0 is its device between nodes."""
    return f"198.18.{110 + node.number}.{number}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:
    """Join the pod to its node, and tell every other node which one that is."""
    _routed.join(pod, pod.node.mtu - OVERHEAD)
    for other in nodes:
        if other is not pod.node:
            _route(other, pod.address, pod.node)


def _route(node: Node, target: str, owner: Node) -> None:
    node.ip("route", "add", f"{target}/32", "via", owner.address, "dev", _DEVICE, "onlink")


def carried(pod: Pod) -> Carried:
    """The IP-in-IP device."""
    return device_carried(pod.node, _DEVICE)
