"""Calico without encapsulation: pure layer-3 routing, a /32 per pod, proxy ARP, the link's own MTU.

    pod eth0 ──veth── cali<n>  node1  eth0 ═══ link ═══ eth0  node2  cali<n> ──veth── eth0 pod
    (default via 169.254.1.1)  /32 route to every pod: own pods by device, others by their node

A pod's gateway is Calico's own, which no interface has. Felix's policy chains are not written: these are the figures
of Calico's routing alone, as for workloads without a policy and without connection tracking.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, _routed, device_carried
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
OVERHEAD = 0
PACKAGES = ()
SERVICES = True


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """It needs nothing but routing."""
    return None


def wire(nodes: Sequence[Node]) -> None:
    """Let the nodes forward."""
    for node in nodes:
        _routed.prepare(node)


def address(node: Node, number: int) -> str:
    """A /32 from the node's block in the range kept for benchmarks (RFC 2544)."""
    return f"198.18.{100 + node.number}.{number}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:
    """Join the pod to its node, and tell every other node which one that is."""
    _routed.join(pod, pod.node.mtu)
    for other in nodes:
        if other is not pod.node:
            other.ip("route", "add", f"{pod.address}/32", "via", pod.node.address, "dev", other.device)


def carried(pod: Pod) -> Carried:
    """The link itself: nothing is wrapped."""
    return device_carried(pod.node, pod.node.device)
