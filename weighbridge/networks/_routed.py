"""Calico's pods: a /32 each, a veth pair to the node, and a gateway that no interface has.

The pod's gateway is the link-local address 169.254.1.1: the node answers the ARP request because proxy_arp is on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weighbridge.hosts import Node, Pod, ip_batch

_GATEWAY = "169.254.1.1"


def prepare(node: Node) -> None:
    """Let the node forward.

    proxy_arp answers only for addresses that the node has a route to; a real node has a default
    route, a node of the lab has not, so the gateway gets one.
    """
    node.sysctl(net__ipv4__ip_forward="1")
    node.ip("route", "replace", f"{_GATEWAY}/32", "dev", node.device)


def join(pod: Pod, mtu: int) -> None:
    """Add the veth pair, the pod's default route and the /32 on its own node."""
    node, side = pod.node, f"cali{pod.number}"
    ip_batch(
        node.shell,
        ("link", "add", side, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "netns", pod.namespace),
        ("link", "set", side, "up"),
        ("route", "add", f"{pod.address}/32", "dev", side, "scope", "link"),
    )
    # Without proxy_delay = 0 the first answer waits up to 0.8 s.
    node.sysctl(**{f"net__ipv4__conf__{side}__proxy_arp": "1", f"net__ipv4__neigh__{side}__proxy_delay": "0"})
    ip_batch(
        pod.shell,
        ("link", "set", "eth0", "mtu", str(mtu), "up"),
        ("address", "add", f"{pod.address}/32", "dev", "eth0"),
        ("route", "add", _GATEWAY, "dev", "eth0", "scope", "link"),
        ("route", "add", "default", "via", _GATEWAY, "dev", "eth0"),
    )


def evidence(pod: Pod) -> Mapping[str, str]:  # noqa: ARG001 - the same for all pods
    """What of Calico is not there: its routes are, its policy chains are not, nor the connection tracking they need."""
    return {"policy": "none (routing without Felix's chains)"}


def leave(pod: Pod, nodes: Sequence[Node]) -> None:
    """Take back the routes of the other nodes; that of the pod's own goes with its device."""
    for other in nodes:
        if other is not pod.node:
            other.ip("route", "delete", f"{pod.address}/32")
