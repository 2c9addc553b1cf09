"""WireGuard between nodes, every packet encrypted: a bridge per node, routed over wg0.

    pod eth0 ──veth── wgbr0 (bridge) ─ routed ─ wg0 (UDP 51820)
                                                 │
                          node1 eth0 ═══ link ═══ eth0 node2 ── wg0 ── wgbr0 ── pods

The overhead is that of a data message over IPv4: 20 IP + 8 UDP + 16 header (type, receiver, counter) + 16
authentication tag. WireGuard pads what it encrypts to a multiple of 16 bytes, though never beyond the device's MTU;
a packet of 1440 bytes is such a multiple, so full packets fill the link exactly, and smaller ones bear up to 15 more.
"""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.hosts import Node, Pod
from weighbridge.networks import Carried, device_carried, missing_device, missing_program
from weighbridge.networks import no_caveat as caveat
from weighbridge.networks import no_evidence as evidence
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
OVERHEAD = 60
PACKAGES = ("wireguard-tools",)
SERVICES = True
_DEVICE = "wg0"
_PORT = "51820"
_PODS = Bridged("wgbr0", 32, OVERHEAD)
address, join = _PODS.address, _PODS.join


def unavailable(shell: Shell) -> str | None:
    """It needs the kernel's wireguard and bridge devices, and `wg`."""
    devices = missing_device(shell, "wireguard") or missing_device(shell, "bridge")
    return devices or missing_program(shell, ("wg",), PACKAGES)


def wire(nodes: Sequence[Node]) -> None:
    """Make wg0 and a bridge on every node and introduce the nodes to each other."""
    keys = {node.name: _open(node) for node in nodes}
    for node in nodes:
        for other in nodes:
            if other is not node:
                subnet = f"{_PODS.subnet(other)}.0/24"
                peer = ("endpoint", f"{other.address}:{_PORT}", "allowed-ips", subnet)
                node.shell.run(["wg", "set", _DEVICE, "peer", keys[other.name], *peer])
                node.ip("route", "add", subnet, "dev", _DEVICE)
    for node in nodes:
        for other in nodes:
            if other is not node:
                # The handshake beforehand: it would count as the first server's start-up time.
                node.shell.run(["ping", "-c", "1", "-W", "3", f"{_PODS.subnet(other)}.0"])


def _open(node: Node) -> str:
    """Make the node's wg0 with a fresh key, and its bridge; returns the public key."""
    folder = f"/run/weighbridge/{node.name}-wireguard"
    node.ip("link", "add", _DEVICE, "mtu", _PODS.mtu(node), "type", "wireguard")
    node.shell.run(["mkdir", "-p", folder])
    private = node.shell.run(["wg", "genkey"]).stdout.strip()
    # `wg` takes a private key from a file alone.
    names = ("-v", f"key={private}", "-v", f"file={folder}/key")
    node.shell.run(["awk", *names, "BEGIN { print key > file }"])
    node.shell.run(["wg", "set", _DEVICE, "listen-port", _PORT, "private-key", f"{folder}/key"])
    _PODS.open_device(node, _DEVICE)
    _PODS.add_bridge(node)
    return node.shell.run(["wg", "show", _DEVICE, "public-key"]).stdout.strip()


def carried(pod: Pod) -> Carried:
    """The WireGuard device."""
    return device_carried(pod.node, _DEVICE)
