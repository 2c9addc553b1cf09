"""Open vSwitch with VXLAN tunnels between the nodes: one flat Ethernet for all pods.

    pod eth0 ──veth── br0 ── vxlan<n> (id 1, UDP 4789)                  vxlan<n> ── br0 ──veth── eth0 pod
                                 │                                         │
                         end of the tunnel                         end of the tunnel
                                 └──── node1 eth0 ═══ link ═══ eth0 node2 ─┘

br0 learns addresses as any switch does (action NORMAL); tunnel ports are protected from each other, so that a
broadcast is not sent round a ring of nodes. How the tunnel's ends meet the link is `_openvswitch`'s matter.
Packets between pods never meet a node's IP stack, hence no service addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried
from weighbridge.networks._openvswitch import OVERHEAD, PACKAGES, Switch, stand_up, unavailable

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
SERVICES = False
_BRIDGE = "br0"
_SUBNET_BITS = 20
"""198.18.16.0/20: pods from the bottom, nodes from 198.18.31.0."""


def wire(nodes: Sequence[Node]) -> None:
    """Start a switch per node and a tunnel between every two."""
    stand_up([_switch(node) for node in nodes], _furnish)


def _furnish(switch: Switch, others: Sequence[Switch]) -> None:
    switch.add_bridge(_BRIDGE)
    for other in others:
        name = f"vxlan{other.node.number}"
        protected = ("--", "set", "port", name, "other_config:protected=true")
        switch.add_tunnel(_BRIDGE, name, other, "options:key=1", *protected)
    switch.give_node_a_port(_BRIDGE, "ovs0", f"198.18.31.{switch.node.number}/{_SUBNET_BITS}")


def address(node: Node, number: int) -> str:  # noqa: ARG001 - one subnet for all nodes
    """From the one subnet that all nodes share."""
    return f"198.18.{16 + number // 256}.{number % 256}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - the switches learn where a pod is
    """Give the pod a port of its node's switch."""
    switch, side = _switch(pod.node), f"veth{pod.number}"
    # From node and number, so that a neighbour that knew the address's last owner finds the next.
    mac = f"02:57:43:{pod.node.number:02x}:{pod.number // 256:02x}:{pod.number % 256:02x}"
    switch.plug(pod, side, _SUBNET_BITS, mac)
    switch.vsctl("add-port", _BRIDGE, side)


def leave(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - the switches forget where a pod was
    """Take the port away; the device goes with the pod's."""
    _switch(pod.node).vsctl("del-port", _BRIDGE, f"veth{pod.number}")


def carried(pod: Pod) -> Carried:
    """The end of the tunnels."""
    return _switch(pod.node).carried()


def caveat(pod: Pod) -> str | None:
    """What the switch says against its datapath."""
    return _switch(pod.node).caveat()


def evidence(pod: Pod) -> Mapping[str, str]:
    """Version and datapath of the switch."""
    return _switch(pod.node).evidence()


def _switch(node: Node) -> Switch:
    return Switch(node, "ovs", f"198.18.80.{node.number}")
