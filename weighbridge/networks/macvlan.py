"""macvlan in bridge mode: pods with Ethernet addresses of their own right on the node's link.

    pod eth0 (macvlan) ─┐
    pod eth0 (macvlan) ─┼─ node1 eth0 ═══ link ═══ eth0 node2 ─┬─ (macvlan) eth0 pod
    node macvlan0      ─┘                                      └─ macvlan0 node

Between pods of one node the driver hands packets over itself; what goes further is queued on the node's device like
the node's own. The node's stack and its rules are bypassed, hence no service addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried
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
_CHILDREN = Children(("macvlan", "mode", "bridge"), "198.18.48.0/20")
address, unavailable = _CHILDREN.address, _CHILDREN.unavailable


def wire(nodes: Sequence[Node]) -> None:
    """Give each node a macvlan on its own device."""
    for node in nodes:
        _CHILDREN.serve_node(node, node.device)


def join(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - pods find each other by ARP
    """Make a macvlan inside the pod."""
    _CHILDREN.serve(pod, pod.node.device)


def carried(pod: Pod) -> Carried:
    """The link itself: nothing is wrapped."""
    return device_carried(pod.node, pod.node.device)
