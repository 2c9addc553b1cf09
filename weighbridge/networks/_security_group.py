"""A security group as Neutron's `iptables_hybrid` firewall writes it, for ports on Linux bridges.

    FORWARD → neutron-openvswi-FORWARD → neutron-openvswi-sg-chain ┬ to the port   → neutron-openvswi-i<port>
                 (packets bridged to or from the port's tap)       └ from the port → neutron-openvswi-o<port>

The chains see bridged packets because br_netfilter shows them to iptables. `i` admits replies and what the group's
rules list, `o` admits replies and everything that bears the port's own addresses (`s`, against spoofing); the rest
falls through to sg-fallback and is dropped. Connections are tracked in a zone of the network's own (table raw).

The group is a usual one: any ICMP, and TCP and UDP to unprivileged ports, from its own subnet; everything out.
"""

from __future__ import annotations

from dataclasses import dataclass

from weighbridge.networks._openvswitch import Switch

PACKAGES = ("iptables",)
PROGRAM = "iptables"
ZONE = "4097"
"""Neutron numbers zones from 4096 on, by the network's local VLAN."""
_OURS = "neutron-openvswi"
_PORTS = "1024:65535"


@dataclass(frozen=True, slots=True)
class Filter:
    """The packet filter of one node."""

    switch: Switch
    subnet: str

    def install(self) -> None:
        """Write the chains that all ports share.

        Raises CommandError.
        """
        for chain in ("neutron-filter-top", *(f"{_OURS}-{end}" for end in ("local", "INPUT", "FORWARD", "OUTPUT"))):
            self._rule("-N", chain)
        self._rule("-N", f"{_OURS}-sg-chain")
        self._rule("-N", f"{_OURS}-sg-fallback")
        for hook in ("FORWARD", "OUTPUT"):
            self._rule("-A", hook, "-j", "neutron-filter-top")
        for hook in ("INPUT", "FORWARD", "OUTPUT"):
            self._rule("-A", hook, "-j", f"{_OURS}-{hook}")
        self._rule("-A", "neutron-filter-top", "-j", f"{_OURS}-local")
        self._rule("-A", f"{_OURS}-sg-chain", "-j", "ACCEPT")
        self._rule("-A", f"{_OURS}-sg-fallback", "-j", "DROP")
        self._rule("-t", "raw", "-N", f"{_OURS}-PREROUTING")
        self._rule("-t", "raw", "-A", "PREROUTING", "-j", f"{_OURS}-PREROUTING")

    def add_port(self, port: str, address: str, mac: str) -> None:
        """Guard the port with that id: `tap<port>` is its device, on the bridge whose other end is `qvb<port>`.

        Raises CommandError.
        """
        tap, into, out, spoof = f"tap{port}", f"{_OURS}-i{port}", f"{_OURS}-o{port}", f"{_OURS}-s{port}"
        for device in (tap, f"qvb{port}"):
            zone = ("-m", "physdev", "--physdev-in", device, "-j", "CT", "--zone", ZONE)
            self._rule("-t", "raw", "-A", f"{_OURS}-PREROUTING", *zone)
        for chain in (into, out, spoof):
            self._rule("-N", chain)
        self._rule("-A", spoof, "-s", f"{address}/32", "-m", "mac", "--mac-source", mac, "-j", "RETURN")
        self._rule("-A", spoof, "-j", "DROP")
        self._rule("-A", into, *_state("RELATED,ESTABLISHED"), "-j", "RETURN")
        self._rule("-A", into, "-s", self.subnet, "-p", "icmp", "-j", "RETURN")
        for protocol in ("tcp", "udp"):
            ports = ("-p", protocol, "-m", protocol, "-m", "multiport", "--dports", _PORTS)
            self._rule("-A", into, "-s", self.subnet, *ports, "-j", "RETURN")
        self._rule("-A", out, "-j", spoof)
        self._rule("-A", out, *_state("RELATED,ESTABLISHED"), "-j", "RETURN")
        self._rule("-A", out, "-j", "RETURN")
        for chain in (into, out):
            self._rule("-A", chain, *_state("INVALID"), "-j", "DROP")
            self._rule("-A", chain, "-j", f"{_OURS}-sg-fallback")
        self._rule("-A", f"{_OURS}-INPUT", *_bridged("in", tap), "-j", out)
        for way, chain in (("out", into), ("in", out)):
            self._rule("-A", f"{_OURS}-FORWARD", *_bridged(way, tap), "-j", f"{_OURS}-sg-chain")
            self._rule("-I", f"{_OURS}-sg-chain", "1", *_bridged(way, tap), "-j", chain)

    def counted(self, port: str) -> int:
        """Bytes (IP packets) that met the port's own chains, both ways.

        Raises CommandError.
        """
        listing = self.switch.run("iptables", "-w", "-nvxL", f"{_OURS}-sg-chain").stdout
        chains = (f"{_OURS}-i{port}", f"{_OURS}-o{port}")
        rows = (line.split() for line in listing.splitlines())
        return sum(int(words[1]) for words in rows if len(words) > 2 and words[2] in chains)

    def _rule(self, *arguments: str) -> None:
        self.switch.run("iptables", "-w", *arguments)


def _state(states: str) -> tuple[str, ...]:
    return ("-m", "state", "--state", states)


def _bridged(way: str, tap: str) -> tuple[str, ...]:
    return ("-m", "physdev", f"--physdev-{way}", tap, "--physdev-is-bridged")
