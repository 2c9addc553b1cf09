"""The bare link: servers and clients in the nodes' own namespaces.

node1 ── eth0 ═══ link ═══ eth0 ── node2
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried
from weighbridge.networks import no_caveat as caveat
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
    "caveat",
    "evidence",
    "join",
    "leave",
    "unavailable",
    "wire",
]

PODS = False
OVERHEAD = 0
PACKAGES = ()
SERVICES = True


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Every lab has a link."""
    return None


def wire(nodes: Sequence[Node]) -> None:
    """Do nothing: the link is there."""


def address(node: Node, number: int) -> str:  # noqa: ARG001 - part of the protocol
    """The node's own."""
    return node.address


def join(pod: Pod, nodes: Sequence[Node]) -> None:
    """Do nothing: the pod is the node."""


def carried(pod: Pod) -> Carried:
    """The link itself."""
    return device_carried(pod.node, pod.node.device)
