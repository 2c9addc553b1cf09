"""flannel's VXLAN backend: a bridge per node, kernel VXLAN between nodes, MTU 50 below the link's.

    pod eth0 ──veth── cni0 (bridge) ─ routed ─ flannel.1 (vxlan id 1, UDP 8472)
                                                   │
                            node1 eth0 ═══ link ═══ eth0 node2 ── flannel.1 ── cni0 ── pods

As flanneld does, every other node's subnet is routed over flannel.1 to that node's VTEP, whose
neighbour entry and forwarding entry are static: no learning, no multicast. The overhead is that of
VXLAN over IPv4 (RFC 7348): 20 IP + 8 UDP + 8 VXLAN + 14 inner Ethernet. flanneld's chains (masquerading what leaves the
cluster, which starts connection tracking) are not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried, missing_device
from weighbridge.networks import no_caveat as caveat
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
DEVICE = "flannel.1"
PACKAGES = ()
SERVICES = True
_PODS = Bridged("cni0", 0, OVERHEAD)
address, join = _PODS.address, _PODS.join


def unavailable(shell: Shell) -> str | None:
    """It needs the kernel's vxlan and bridge devices."""
    return missing_device(shell, "vxlan", "id", "1", "dstport", "4789") or missing_device(shell, "bridge")


def wire(nodes: Sequence[Node]) -> None:
    """Make flannel.1 and cni0 on every node and tell each about the others."""
    for node in nodes:
        vxlan = ("id", "1", "dev", node.device, "local", node.address, "dstport", "8472", "nolearning")
        node.ip("link", "add", DEVICE, "address", _PODS.mac(node), "mtu", _PODS.mtu(node), "type", "vxlan", *vxlan)
        _PODS.open_device(node, DEVICE)
        _PODS.add_bridge(node)
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.shell.run(["bridge", "fdb", "add", _PODS.mac(other), "dev", DEVICE, "dst", other.address, "self"])
                _PODS.route(node, other, DEVICE)


def evidence(pod: Pod) -> Mapping[str, str]:  # noqa: ARG001 - the same for all pods
    """What of flannel is not there: its datapath is, its masquerading chains are not."""
    return {"masquerading": "none (forwarding without flanneld's chains)"}


def carried(pod: Pod) -> Carried:
    """The VXLAN device."""
    return device_carried(pod.node, DEVICE)
