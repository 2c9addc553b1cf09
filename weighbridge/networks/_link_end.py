"""A second end for a node's link: a veth pair whose traffic is moved to and from the link's own device by tc.

    eth0 (shaped) ──ingress: packets and ARP for `subnet`── mirred redirect ──▶ <outer> ──veth── <inner>
    eth0 (shaped) ◀── mirred redirect ── ingress: everything ── <outer> ◀──veth── <inner>

A network that wants a link device for itself (a switch, a second kind of slave device) gets one this way, while
the node keeps its address and everything that leaves still passes the device's queueing discipline: all networks
of one lab share one shaped link, and none pays for the others being wired.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from weighbridge.hosts import Node


def attach(node: Node, outer: str, inner: str, subnet: str, namespace: str | None = None) -> None:
    """Make the pair, its inner end in `namespace` where one is named, and join it to the node's link.

    Raises CommandError when the kernel refuses a part of it.
    """
    far = ("netns", namespace) if namespace else ()
    mtu = str(node.mtu)
    node.ip("link", "add", outer, "mtu", mtu, "type", "veth", "peer", "name", inner, "mtu", mtu, *far)
    for device in (node.device, outer):
        # `replace` leaves a qdisc that is there already as it is, with the filters of other networks.
        node.shell.run(["tc", "qdisc", "replace", "dev", device, "ingress"])
    net = IPv4Network(subnet)
    target = f"0x{int(net.network_address):08x}", f"0x{int(net.netmask):08x}"
    # The target's protocol address lies 24 bytes into an ARP packet of IPv4 over Ethernet (RFC 826).
    _redirect(node, node.device, outer, "arp", "u32", *target, "at", "24")
    _redirect(node, node.device, outer, "ip", "ip", "dst", subnet)
    _redirect(node, outer, node.device, "all", "u32", "0", "0")
    node.ip("link", "set", outer, "up")


def _redirect(node: Node, source: str, target: str, protocol: str, *match: str) -> None:
    where = ["dev", source, "parent", "ffff:", "protocol", protocol]
    action = ["action", "mirred", "egress", "redirect", "dev", target]
    node.shell.run(["tc", "filter", "add", *where, "u32", "match", *match, *action])
