"""Calico without encapsulation: pure layer-3 routing, a /32 per pod, proxy ARP, the link's own MTU.

    pod eth0 ──veth── cali<n>  node1  eth0 ═══ link ═══ eth0  node2  cali<n> ──veth── eth0 pod
    (default via 169.254.1.1)  /32 route to every pod: own pods by device, others by their node

As in Calico the pod's gateway is the link-local address 169.254.1.1 that no interface has: the node
answers the ARP request because proxy_arp is on.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried
from weighbridge.networks import no_evidence as evidence
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
OVERHEAD = 0
PACKAGES = ()
SERVICES = True
_GATEWAY = "169.254.1.1"


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """It needs nothing but routing."""
    return None


def wire(nodes: Sequence[Node]) -> None:
    """Let the nodes forward.

    proxy_arp answers only for addresses that the node has a route to; a real node has a default
    route, a node of the lab has not, so the gateway gets one.
    """
    for node in nodes:
        node.sysctl(net__ipv4__ip_forward="1")
        node.ip("route", "add", f"{_GATEWAY}/32", "dev", node.device)


def address(node: Node, number: int) -> str:
    """A /32 from the node's block in the range kept for benchmarks (RFC 2544)."""
    return f"198.18.{100 + node.number}.{number}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:
    """Add the veth pair, the pod's default route and the /32 on every node."""
    node, side = pod.node, f"cali{pod.number}"
    node.ip("link", "add", side, "mtu", str(node.mtu), "type", "veth", "peer", "name", "eth0", "netns", pod.namespace)
    # Without proxy_delay = 0 the first answer waits up to 0.8 s.
    node.sysctl(**{f"net__ipv4__conf__{side}__proxy_arp": "1", f"net__ipv4__neigh__{side}__proxy_delay": "0"})
    node.ip("link", "set", side, "up")
    inside = pod.shell
    inside.run(["ip", "link", "set", "eth0", "mtu", str(node.mtu), "up"])
    inside.run(["ip", "address", "add", f"{pod.address}/32", "dev", "eth0"])
    inside.run(["ip", "route", "add", _GATEWAY, "dev", "eth0", "scope", "link"])
    inside.run(["ip", "route", "add", "default", "via", _GATEWAY, "dev", "eth0"])
    for other in nodes:
        if other is node:
            other.ip("route", "add", f"{pod.address}/32", "dev", side, "scope", "link")
        else:
            other.ip("route", "add", f"{pod.address}/32", "via", node.address, "dev", other.device)


def leave(pod: Pod, nodes: Sequence[Node]) -> None:
    """Take back the routes of the other nodes; that of the pod's own goes with its device."""
    for other in nodes:
        if other is not pod.node:
            other.ip("route", "delete", f"{pod.address}/32")


def carried(pod: Pod) -> Carried:
    """The link itself: nothing is wrapped."""
    return device_carried(pod.node, pod.node.device)
