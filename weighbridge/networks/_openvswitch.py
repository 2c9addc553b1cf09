"""One Open vSwitch per node: its daemons, its database and its end of the tunnels.

    node namespace                      namespace <node>-<network>
    eth0 ◀─tc─▶ <network>-link ──veth── uplink ── br-phy (address of the tunnel end) ◀┄ VXLAN ┄ bridges of the network

The switch lives in a network namespace of its own, so that its daemons, its bridges and whatever rules go with it
leave the packets of the node's other networks alone. Where the kernel has the openvswitch module the tunnel end's
address is on `uplink` itself and the kernel wraps the packets. Elsewhere the datapath is the daemon's own (`netdev`),
which wraps what leaves over a bridge of its own kind: br-phy then holds both the address and `uplink`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weighbridge.hosts import Node, Pod, batch, ip_batch
from weighbridge.networks import Carried, _link_end, device_bytes, missing_program
from weighbridge.shell import Finished, Shell

OVERHEAD = 50
"""VXLAN over IPv4 (RFC 7348): 20 IP + 8 UDP + 8 VXLAN + 14 inner Ethernet."""
PACKAGES = ("openvswitch-switch", "ethtool")
_PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ethtool")
_DATAPATHS = {"system": "system (kernel)", "": "system (kernel)", "netdev": "netdev (user space)"}
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


@dataclass(frozen=True, slots=True)
class Switch:
    """The Open vSwitch of one node for one network, and the address of its tunnel end."""

    node: Node
    network: str
    address: str

    @property
    def namespace(self) -> str:
        """Its network namespace."""
        return f"{self.node.name}-{self.network}"

    @property
    def in_kernel(self) -> bool:
        """Whether the kernel's datapath carries the packets."""
        return kernel_datapath(self.node.shell)

    @property
    def datapath(self) -> str:
        """The kind of datapath that its bridges were made with, as the switch tells it: `system` or `netdev`."""
        bridges = self.vsctl("list-br").split()
        return self.vsctl("get", "bridge", bridges[0], "datapath_type").strip('"') if bridges else ""

    def run(self, *argv: str, given: str = "") -> Finished:
        """Run a command in its namespace, with its own sockets, database and logs.

        Raises CommandError.
        """
        folders = [f"OVS_{kind}={self._folder}" for kind in ("RUNDIR", "DBDIR", "LOGDIR")]
        return self.node.shell.run(
            ["nsenter", f"--net=/run/netns/{self.namespace}", "env", *folders, *argv], given=given
        )

    def ip(self, *commands: Sequence[str]) -> None:
        """Run several `ip` commands in its namespace in one go.

        Raises CommandError.
        """
        self.run("ip", "-batch", "-", given=batch(*commands))

    def vsctl(self, *argv: str) -> str:
        """Change or ask the configuration; returns when the switch has taken it over.

        Raises CommandError.
        """
        return self.run("ovs-vsctl", "--timeout=5", *argv).stdout.strip()

    def add_bridge(self, name: str, *settings: str) -> None:
        """Make a bridge of the datapath in use."""
        kind = "system" if self.in_kernel else "netdev"
        self.vsctl("add-br", name, "--", "set", "bridge", name, f"datapath_type={kind}", *settings)

    def add_flows(self, bridge: str, *flows: str) -> None:
        """Add OpenFlow rules."""
        for flow in flows:
            self.run("ovs-ofctl", "add-flow", bridge, flow)

    def add_tunnel(self, bridge: str, name: str, other: Switch, *options: str) -> None:
        """Add a VXLAN port to the switch of another node."""
        ends = (f"options:local_ip={self.address}", f"options:remote_ip={other.address}")
        self.vsctl("add-port", bridge, name, "--", "set", "interface", name, "type=vxlan", *ends, *options)

    def carried(self) -> Carried:
        """What the switch's end of the link has received and sent: tunnelled packets and nothing else.

        The tunnel ports' own counters will not do: the user space datapath counts there twice what it sends.
        """
        listing = self.run("ip", "-json", "-statistics", "link", "show", "uplink").stdout
        return Carried(f"the tunnel end of {self.network} on {self.node.name}", device_bytes(listing))

    def caveat(self) -> str | None:
        """In user space it operates "at a cost in performance" (Open vSwitch's install/userspace): nobody's network."""
        return "user-space datapath" if self.datapath == "netdev" else None

    def evidence(self) -> dict[str, str]:
        """Version and datapath."""
        version = self.run("ovs-vswitchd", "--version").stdout.splitlines()[0].split()[-1]
        return {"open vswitch": version, "datapath": _DATAPATHS[self.datapath]}

    def start(self) -> None:
        """Make the namespace and start the daemons; process 1 of the lab adopts them, and they end with it."""
        folder = self._folder
        self.node.ip("netns", "add", self.namespace)
        self.node.shell.run(["mkdir", "-p", folder])
        self.run("ip", "link", "set", "lo", "up")
        self.run("ovsdb-tool", "create", f"{folder}/conf.db", _SCHEMA)
        quiet = ("--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off", "-vsyslog:off")
        self.run("ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock", *quiet)
        self.vsctl("--no-wait", "init")
        self.run("ovs-vswitchd", f"unix:{folder}/db.sock", *quiet)

    def open_tunnel_end(self) -> None:
        """Join the switch to the node's link and give its tunnel end an address there."""
        _link_end.attach(self.node, f"{self.network}-link", "uplink", f"{self.address}/32", self.namespace)
        holder = "uplink"
        if not self.in_kernel:
            holder = "br-phy"
            self.add_bridge(holder)
            self.vsctl("add-port", holder, "uplink")
        self.run("ip", "link", "set", "uplink", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", holder)
        self.run("ip", "link", "set", holder, "up")

    def meet(self, other: Switch) -> None:
        """Resolve another tunnel end's address beforehand: the first packet to an unknown one would be dropped."""
        self.run("ping", "-c", "1", "-W", "3", other.address)

    def checksum(self, shell: Shell, device: str) -> None:
        """Let a sender finish its packets itself where the datapath is in user space.

        Such a datapath forwards what it reads; nobody would split a segment or fill in a checksum afterwards.
        """
        if not self.in_kernel:
            shell.run(["ethtool", "-K", device, "tx", "off"])

    def give_node_a_port(self, bridge: str, device: str, address: str, *settings: str) -> None:
        """Give the node's own stack a port of a bridge, so that a client on the node reaches pods."""
        mtu = str(self.node.mtu - OVERHEAD)
        far = ("peer", "name", "node", "mtu", mtu, "netns", self.namespace)
        self.node.ip("link", "add", device, "mtu", mtu, "type", "veth", *far)
        self.node.ip("address", "add", address, "dev", device)
        self.node.ip("link", "set", device, "up")
        self.run("ip", "link", "set", "node", "up")
        self.checksum(self.node.shell, device)
        self.vsctl("add-port", bridge, "node", *settings)

    def plug(self, pod: Pod, side: str, subnet_bits: int, mac: str) -> None:
        """Join a pod to the switch's namespace by a veth pair whose near end is `side`."""
        mtu = str(self.node.mtu - OVERHEAD)
        far = ("peer", "name", "eth0", "mtu", mtu, "address", mac, "netns", pod.namespace)
        self.ip(("link", "add", side, "mtu", mtu, "type", "veth", *far), ("link", "set", side, "up"))
        self.checksum(pod.shell, "eth0")
        ip_batch(
            pod.shell,
            ("address", "add", f"{pod.address}/{subnet_bits}", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        )

    @property
    def _folder(self) -> str:
        return f"/run/weighbridge/{self.namespace}"


def kernel_datapath(shell: Shell) -> bool:
    """Whether the kernel has Open vSwitch's module; asking loads it where it can be loaded."""
    return shell.run(["genl", "ctrl", "get", "name", "ovs_datapath"], check=False).ok


def unavailable(shell: Shell) -> str | None:
    """What an Open vSwitch lacks where `shell` runs; None when it lacks nothing."""
    if reason := missing_program(shell, _PROGRAMS, PACKAGES):
        return reason
    if kernel_datapath(shell):
        return None
    # The bridges of the user space datapath are tap devices.
    made = shell.run(["ip", "tuntap", "add", "dev", "wbprobetap", "mode", "tap"], check=False)
    if not made.ok:
        said = (made.stderr.strip() or str(made.code)).splitlines()[-1]
        remedy = "load it with: modprobe openvswitch"
        return f"this kernel has no openvswitch module ({remedy}), and /dev/net/tun cannot be used instead ({said})"
    shell.run(["ip", "link", "del", "wbprobetap"], check=False)
    return None


def stand_up(switches: Sequence[Switch], furnish: Callable[[Switch, Sequence[Switch]], None]) -> None:
    """Start all switches, join them to the link, and let `furnish` give each its bridges, knowing the others.

    All nodes at once: most of it is waiting for daemons. Raises what the first of them raised.
    """

    def stand(switch: Switch) -> None:
        switch.start()
        switch.open_tunnel_end()
        furnish(switch, others[switch.namespace])

    others = {switch.namespace: [other for other in switches if other is not switch] for switch in switches}
    with ThreadPoolExecutor(len(switches)) as pool:
        list(pool.map(stand, switches))
    for switch in switches:
        for other in others[switch.namespace]:
            switch.meet(other)
