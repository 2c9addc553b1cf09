"""Neutron with ML2/OVS and hybrid plug: every packet of a pod passes a Linux bridge where its security group filters.

    pod eth0 ──veth── tap<port> ─ qbr<port> (Linux bridge, iptables) ─ qvb<port> ──veth── qvo<port>
                                                                                             │ VLAN 1
       node1 eth0 ═══ link ═══ eth0 node2    end of the tunnel ── vxlan-<ip> ── br-tun ─patch─ br-int

br-int is a learning switch that separates networks by a VLAN that only the node knows, and drops ARP and frames that
bear another's address. br-tun turns that VLAN into the network's tunnel key and back (tables 22 and 4), and learns from
what arrives which tunnel leads to an address (table 10 writes table 20); what it has not learnt is flooded. The flows
are those of Neutron's Open vSwitch agent without l2population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, _openvswitch, _security_group
from weighbridge.networks import missing_program as _missing_program
from weighbridge.networks._openvswitch import OVERHEAD, Switch, stand_up
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
SERVICES = False
PACKAGES = (*_openvswitch.PACKAGES, *_security_group.PACKAGES)
_SUBNET = "198.18.32.0/20"
"""Pods from the bottom, nodes from 198.18.47.0."""
_SUBNET_BITS = 20
_VLAN = 1
_KEY = "0x3e9"
_LEARN = (
    "learn(table=20,hard_timeout=300,priority=1,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],"
    "load:0->NXM_OF_VLAN_TCI[],load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],output:OXM_OF_IN_PORT[])"
)


def unavailable(shell: Shell) -> str | None:
    """It needs Open vSwitch, iptables, and bridges whose packets iptables sees."""
    if reason := _openvswitch.unavailable(shell):
        return reason
    if reason := _missing_program(shell, (_security_group.PROGRAM,), _security_group.PACKAGES):
        return reason
    if not shell.run(["sysctl", "-n", "net.bridge.bridge-nf-call-iptables"], check=False).ok:
        return "iptables does not see bridged packets here; load br_netfilter with: modprobe br_netfilter"
    return None


def wire(nodes: Sequence[Node]) -> None:
    """Start a switch per node with br-int, br-tun and the chains that all ports share."""
    stand_up([_switch(node) for node in nodes], _furnish)


def _furnish(switch: Switch, others: Sequence[Switch]) -> None:
    _integration_bridge(switch)
    _tunnel_bridge(switch, others)
    switch.give_node_a_port("br-int", "neutron0", f"198.18.47.{switch.node.number}/{_SUBNET_BITS}", f"tag={_VLAN}")
    _filter(switch).install()


def _integration_bridge(switch: Switch) -> None:
    switch.add_bridge("br-int", "fail_mode=secure")
    _patch(switch, "br-int", "patch-tun", "patch-int")
    switch.add_flows(
        "br-int",
        "table=0,priority=0,actions=resubmit(,60)",
        "table=24,priority=0,actions=drop",
        "table=60,priority=3,actions=normal",
    )


def _tunnel_bridge(switch: Switch, others: Sequence[Switch]) -> None:
    switch.add_bridge("br-tun", "fail_mode=secure")
    _patch(switch, "br-tun", "patch-int", "patch-tun")
    tunnels = [f"vxlan-{''.join(f'{int(part):02x}' for part in other.address.split('.'))}" for other in others]
    for name, other in zip(tunnels, others, strict=True):
        switch.add_tunnel("br-tun", name, other, "options:key=flow")
    flood = ",".join(f"output:{name}" for name in tunnels)
    switch.add_flows(
        "br-tun",
        "table=0,priority=1,in_port=patch-int,actions=resubmit(,2)",
        *(f"table=0,priority=1,in_port={name},actions=resubmit(,4)" for name in tunnels),
        "table=0,priority=0,actions=drop",
        "table=2,priority=0,dl_dst=00:00:00:00:00:00/01:00:00:00:00:00,actions=resubmit(,20)",
        "table=2,priority=0,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=resubmit(,22)",
        f"table=4,priority=1,tun_id={_KEY},actions=mod_vlan_vid:{_VLAN},resubmit(,10)",
        "table=4,priority=0,actions=drop",
        f"table=10,priority=1,actions={_LEARN},output:patch-int",
        "table=20,priority=0,actions=resubmit(,22)",
        f"table=22,priority=1,dl_vlan={_VLAN},actions=strip_vlan,load:{_KEY}->NXM_NX_TUN_ID[],{flood}",
        "table=22,priority=0,actions=drop",
    )


def _patch(switch: Switch, bridge: str, name: str, peer: str) -> None:
    switch.vsctl("add-port", bridge, name, "--", "set", "interface", name, "type=patch", f"options:peer={peer}")


def address(node: Node, number: int) -> str:  # noqa: ARG001 - one subnet for all nodes
    """From the one subnet that all nodes share."""
    return f"198.18.{32 + number // 256}.{number % 256}"


def join(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - the switches learn where a pod is
    """Plug the pod into a bridge of its own, guard it there, and join that bridge to br-int."""
    switch, port, mtu = _switch(pod.node), _port(pod), str(pod.node.mtu - OVERHEAD)
    bridge, near, far = f"qbr{port}", f"qvb{port}", f"qvo{port}"
    mac = _mac(pod)
    # Said for this bridge, so that it holds whatever the namespace's default is.
    filtered = ("forward_delay", "0", "mcast_snooping", "0", "nf_call_iptables", "1")
    switch.plug(pod, f"tap{port}", _SUBNET_BITS, mac)
    _filter(switch).add_port(port, pod.address, mac)
    switch.ip(
        ("link", "add", bridge, "mtu", mtu, "type", "bridge", *filtered),
        ("link", "add", near, "mtu", mtu, "type", "veth", "peer", "name", far, "mtu", mtu),
        *(("link", "set", device, "master", bridge) for device in (f"tap{port}", near)),
        *(("link", "set", device, "up") for device in (bridge, near, far)),
    )
    switch.vsctl("add-port", "br-int", far, f"tag={_VLAN}")
    switch.add_flows(
        "br-int",
        f"table=0,priority=10,arp,in_port={far},actions=resubmit(,24)",
        f"table=0,priority=9,in_port={far},actions=resubmit(,25)",
        f"table=24,priority=2,arp,in_port={far},arp_spa={pod.address},actions=resubmit(,25)",
        f"table=25,priority=2,in_port={far},dl_src={mac},actions=resubmit(,60)",
    )


def leave(pod: Pod, nodes: Sequence[Node]) -> None:  # noqa: ARG001 - the switches forget where a pod was
    """Take away the port with its flows, its chains and its bridge; the tap goes with the pod's device."""
    switch, port = _switch(pod.node), _port(pod)
    far = f"qvo{port}"
    switch.run("ovs-ofctl", "del-flows", "br-int", f"in_port={far}")
    switch.vsctl("del-port", "br-int", far)
    _filter(switch).remove_port(port)
    switch.ip(("link", "delete", far), ("link", "delete", f"qbr{port}"))


def _mac(pod: Pod) -> str:
    return f"fa:16:3e:{pod.node.number:02x}:{pod.number // 256:02x}:{pod.number % 256:02x}"


def carried(pod: Pod) -> Carried:
    """The chains of the pod's own security group."""
    port = _port(pod)
    return Carried(f"the security group of tap{port} on {pod.node.name}", _filter(_switch(pod.node)).counted(port))


def caveat(pod: Pod) -> str | None:
    """What the switch says against its datapath."""
    return _switch(pod.node).caveat()


def evidence(pod: Pod) -> Mapping[str, str]:
    """Version and datapath of the switch, where the group is enforced, and what the tunnels carried so far."""
    switch = _switch(pod.node)
    tunnels = switch.carried()
    return {
        **switch.evidence(),
        "security group": f"iptables on qbr{_port(pod)} (br_netfilter)",
        tunnels.part: f"{tunnels.bytes} bytes so far",
    }


def _port(pod: Pod) -> str:
    return f"{pod.number:08x}"


def _switch(node: Node) -> Switch:
    return Switch(node, "neutron", f"198.18.81.{node.number}")


def _filter(switch: Switch) -> _security_group.Filter:
    return _security_group.Filter(switch, _SUBNET)
