"""A security group as Neutron's `iptables_hybrid` firewall writes it, for ports on Linux bridges.

    FORWARD → neutron-openvswi-FORWARD → neutron-openvswi-sg-chain ┬ to the port   → neutron-openvswi-i<port>
                 (packets bridged to or from the port's tap)       └ from the port → neutron-openvswi-o<port>

The chains see bridged packets because br_netfilter shows them to iptables. `i` admits replies and what the group's
rules list, `o` admits replies and everything that bears the port's own addresses (`s`, against spoofing); the rest
falls through to sg-fallback and is dropped. Connections are tracked in a zone of the network's own (table raw).

The group is a usual one: any ICMP, and TCP and UDP to unprivileged ports, from its own subnet; everything out.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        hooks = ("INPUT", "FORWARD", "OUTPUT")
        chains = ("neutron-filter-top", f"{_OURS}-local", *(f"{_OURS}-{hook}" for hook in hooks))
        self._restore(
            raw=[f"-N {_OURS}-PREROUTING", f"-A PREROUTING -j {_OURS}-PREROUTING"],
            filter=[
                *(f"-N {chain}" for chain in (*chains, f"{_OURS}-sg-chain", f"{_OURS}-sg-fallback")),
                *(f"-A {hook} -j neutron-filter-top" for hook in ("FORWARD", "OUTPUT")),
                *(f"-A {hook} -j {_OURS}-{hook}" for hook in hooks),
                f"-A neutron-filter-top -j {_OURS}-local",
                f"-A {_OURS}-sg-chain -j ACCEPT",
                f"-A {_OURS}-sg-fallback -j DROP",
            ],
        )

    def add_port(self, port: str, address: str, mac: str) -> None:
        """Guard the port with that id: `tap<port>` is its device, on the bridge whose other end is `qvb<port>`.

        Raises CommandError.
        """
        into, out, spoof = _chains(port)
        self._restore(
            raw=[f"-A {rule}" for rule in _tracking(port)],
            filter=[
                *(f"-N {chain}" for chain in (into, out, spoof)),
                f"-A {spoof} -s {address}/32 -m mac --mac-source {mac} -j RETURN",
                f"-A {spoof} -j DROP",
                f"-A {into} {_state('RELATED,ESTABLISHED')} -j RETURN",
                f"-A {into} -s {self.subnet} -p icmp -j RETURN",
                *(
                    f"-A {into} -s {self.subnet} -p {protocol} -m {protocol} -m multiport --dports {_PORTS} -j RETURN"
                    for protocol in ("tcp", "udp")
                ),
                f"-A {out} -j {spoof}",
                f"-A {out} {_state('RELATED,ESTABLISHED')} -j RETURN",
                f"-A {out} -j RETURN",
                *(
                    f"-A {chain} {rest}"
                    for chain in (into, out)
                    for rest in (f"{_state('INVALID')} -j DROP", f"-j {_OURS}-sg-fallback")
                ),
                *(f"-A {rule}" for rule in _leading_there(port)),
                # Before the rule that admits all the rest.
                *(f"-I {chain} 1 {rest}" for chain, rest in (rule.split(" ", 1) for rule in _in_the_group(port))),
            ],
        )

    def remove_port(self, port: str) -> None:
        """Take back all that guards a port.

        Raises CommandError.
        """
        self._restore(
            raw=[f"-D {rule}" for rule in _tracking(port)],
            filter=[
                *(f"-D {rule}" for rule in (*_leading_there(port), *_in_the_group(port))),
                *(f"-{step} {chain}" for step in "FX" for chain in reversed(_chains(port))),
            ],
        )

    def counted(self, port: str) -> int:
        """Bytes (IP packets) that met the port's own chains, both ways.

        Raises CommandError.
        """
        listing = self.switch.run("iptables", "-w", "-nvxL", f"{_OURS}-sg-chain").stdout
        rows = (line.split() for line in listing.splitlines())
        return sum(int(words[1]) for words in rows if len(words) > 2 and words[2] in _chains(port))

    def _restore(self, *, raw: Sequence[str], filter: Sequence[str]) -> None:  # noqa: A002 - the table's name
        """Write rules in one go, all or none of each table."""
        tables = [line for name, rules in (("raw", raw), ("filter", filter)) for line in (f"*{name}", *rules, "COMMIT")]
        self.switch.run("iptables-restore", "-w", "--noflush", given="\n".join([*tables, ""]))


def _chains(port: str) -> tuple[str, str, str]:
    """The port's own: into it, out of it, and against spoofing."""
    return f"{_OURS}-i{port}", f"{_OURS}-o{port}", f"{_OURS}-s{port}"


def _tracking(port: str) -> list[str]:
    """Rules of table raw that track the port's connections in the network's zone."""
    devices = (f"tap{port}", f"qvb{port}")
    return [f"{_OURS}-PREROUTING -m physdev --physdev-in {device} -j CT --zone {ZONE}" for device in devices]


def _leading_there(port: str) -> list[str]:
    """Rules of shared chains that lead a port's packets into the group."""
    _, out, _ = _chains(port)
    return [
        f"{_OURS}-INPUT {_bridged('in', port)} -j {out}",
        *(f"{_OURS}-FORWARD {_bridged(way, port)} -j {_OURS}-sg-chain" for way in ("out", "in")),
    ]


def _in_the_group(port: str) -> list[str]:
    """Rules of the group's chain that hand a port's packets to its own chains."""
    into, out, _ = _chains(port)
    return [f"{_OURS}-sg-chain {_bridged(way, port)} -j {chain}" for way, chain in (("out", into), ("in", out))]


def _state(states: str) -> str:
    return f"-m state --state {states}"


def _bridged(way: str, port: str) -> str:
    return f"-m physdev --physdev-{way} tap{port} --physdev-is-bridged"
