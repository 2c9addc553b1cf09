"""ipvlan in L2 mode: pods with addresses of their own on the link, which share one Ethernet address per node.

    pod eth0 (ipvlan) ─┐
    pod eth0 (ipvlan) ─┼─ ipvlan-dev ──veth── ipvlan-link ◀─tc─▶ node1 eth0 ═══ link ═══ eth0 node2 (the same)
    node ipvlan0      ─┘

A device hands what it receives to one kind of child alone, and the node's own may serve macvlan already; so ipvlan
gets a second end of the link as its parent. Between pods of one node the driver hands packets over itself. The node's
stack and its rules are bypassed, hence no service addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, _link_end, device_carried
from weighbridge.networks import no_caveat as caveat
from weighbridge.networks import no_evidence as evidence
from weighbridge.networks import nothing_to_leave as leave
from weighbridge.networks._child_device import Children

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
SERVICES = False
_CHILDREN = Children(("ipvlan", "mode", "l2"), "198.18.64.0/20")
address, unavailable = _CHILDREN.address, _CHILDREN.unavailable
_PARENT = "ipvlan-dev"


def wire(nodes: Sequence[Node]) -> None:
    """Make a second end of each node's link and give the node an ipvlan on it."""
    for node in nodes:
        _link_end.attach(node, "ipvlan-link", _PARENT, _CHILDREN.subnet)
        node.ip("link", "set", _PARENT, "up")
        _CHILDREN.serve_node(node, _PARENT)


def join(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - pods find each other by ARP
    """Make an ipvlan inside the pod."""
    _CHILDREN.serve(pod, _PARENT)


def carried(pod: Pod) -> Carried:
    """The parent of the node's ipvlan devices."""
    return device_carried(pod.node, _PARENT)
