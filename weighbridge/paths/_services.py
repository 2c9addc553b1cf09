"""Services on the nodes: kube-proxy's rules written into every node, counted and taken away again.

What is there is read from the kernel each time, so that services of one site share the common chains
without knowing of each other: the first brings them, the last takes them away.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from weighbridge.errors import StandError
from weighbridge.hosts import Node, Pod
from weighbridge.paths import Service
from weighbridge.paths._kube_proxy import ServicePort, unwritten, written
from weighbridge.shell import Shell

PACKAGES = ("iptables",)
CLUSTER_IPS = ipaddress.IPv4Network("198.18.255.0/24")
"""The range of service addresses, from the one kept for benchmarks (RFC 2544), where no node and no pod is."""
PROTOCOLS = ("tcp", "udp")
"""Every port is translated for both: qperf and iperf3 agree over TCP on what they then measure over UDP."""

MOST_LEFT = 1000
"""Sockets in TIME_WAIT that a run may begin with: of the 64 512 ports that are drawn from these are 1.6 %."""

_VARIANTS = ("iptables", "iptables-nft", "iptables-legacy")
_BRIDGED = "net.bridge.bridge-nf-call-iptables"
_PROBE = """\
*filter
:WEIGHBRIDGE - [0:0]
-A WEIGHBRIDGE -m conntrack --ctstate NEW -m comment --comment "a probe" -j RETURN
COMMIT
*nat
:WEIGHBRIDGE - [0:0]
-A WEIGHBRIDGE -m addrtype --dst-type LOCAL -m statistic --mode random --probability 0.5 -j RETURN
-A WEIGHBRIDGE -m mark ! --mark 0x4000/0x4000 -j MARK --or-mark 0x4000
:WEIGHBRIDGE-OUT - [0:0]
-A WEIGHBRIDGE-OUT -j MASQUERADE --random-fully
:WEIGHBRIDGE-TO - [0:0]
-A WEIGHBRIDGE-TO -m udp -p udp --dport 9 -j DNAT --to-destination 192.0.2.1:9
COMMIT
"""


@dataclass(frozen=True, slots=True)
class Iptables:
    """The variant of iptables that works: `program` is `iptables`, `iptables-nft` or `iptables-legacy`."""

    program: str
    version: str

    def restore(self, shell: Shell, text: str) -> None:
        """Apply rules, each table at once, beside those that are there."""
        shell.run([f"{self.program}-restore", "--noflush", "--wait", "5"], given=text)

    def saved(self, shell: Shell) -> str:
        """The rules for address translation with their counters, in the form of iptables-save."""
        return shell.run([f"{self.program}-save", "--counters", "--table", "nat"]).stdout


def find_iptables(shell: Shell) -> Iptables | str:
    """The first variant that takes everything a service needs, or the reason why none does.

    Rules are written and removed again: a match may be missing from the kernel though iptables knows it.
    """
    reason = f"iptables is not installed; install it with: apt-get install {PACKAGES[0]}"
    for number, program in enumerate(name for name in _VARIANTS if shell.which(f"{name}-restore")):
        restore = [f"{program}-restore", "--noflush", "--wait", "5"]
        made = shell.run(restore, given=_PROBE, check=False)
        chains = {"filter": ("WEIGHBRIDGE",), "nat": ("WEIGHBRIDGE", "WEIGHBRIDGE-OUT", "WEIGHBRIDGE-TO")}
        removal = ""
        for table, names in chains.items():
            removal += f"*{table}\n" + "".join(f":{name} - [0:0]\n-X {name}\n" for name in names) + "COMMIT\n"
        shell.run(restore, given=removal, check=False)
        if made.ok:
            return Iptables(program, shell.run([program, "--version"]).stdout.strip())
        if number == 0:
            reason = f"iptables cannot write a service's rules here ({_said(made.stderr) or made.code})"
    return reason


def _said(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def unavailable(shell: Shell, services: bool) -> str | None:
    """Why a service cannot be made where `shell` runs; None when it can."""
    if not services:
        return "this network carries pods past their node's IP stack, where a service's rules are"
    found = find_iptables(shell)
    return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Services:
    """The ports of one service, written on every node."""

    iptables: Iptables
    nodes: Sequence[Node]
    server: Pod
    ports: tuple[ServicePort, ...]
    undo: ExitStack

    @property
    def cluster_ip(self) -> str:
        """Its address within the cluster."""
        return self.ports[0].cluster_ip

    def connections(self) -> int:
        """Connections translated on all nodes: the kernel shows a NAT rule the first packet of each."""
        own = {port.endpoint_chain(endpoint) for port in self.ports for endpoint in port.endpoints}
        return sum(translated(self.iptables.saved(node.shell), own) for node in self.nodes)

    def forget(self) -> None:
        """End what earlier connections left of themselves in the server's kernel.

        Masquerading takes random ports, so a new connection may meet a socket in TIME_WAIT that was another's.
        The kernel refuses it by that one's time stamps (PAWS), and the client tries again a second later: without
        this a load with a connection per request gets slower from run to run. Raises StandError when many stay.
        """
        found = ("state", "time-wait", "or".join(f" sport = :{port} " for port in self._numbers))
        self.server.shell.run(["ss", "--kill", "--tcp", "--numeric", "--no-header", *found], check=False, timeout=60.0)
        left = self.server.shell.run(["ss", "--tcp", "--numeric", "--no-header", *found]).stdout.count("\n")
        if left > MOST_LEFT:
            raise StandError(
                f"{left} connections of earlier runs are in TIME_WAIT in {self.server.name}, and this kernel cannot "
                "end them (CONFIG_INET_DIAG_DESTROY); wait a minute between runs"
            )

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(port.port for port in self.ports))

    def evidence(self) -> Mapping[str, str]:
        """How many rules stand for it, and what wrote them."""
        rules = sum(len(port.rules) + len(port.entries) for port in self.ports)
        return {"service rules": f"{rules} on each of {len(self.nodes)} nodes", "iptables": self.iptables.version}

    def close(self) -> None:
        """Take everything away again; does nothing the second time."""
        self.undo.close()


def translated(saved: str, chains: set[str]) -> int:
    """The packets that the DNAT rules of `chains` have seen, from what `iptables-save --counters` printed."""
    rules = re.finditer(r"^\[(\d+):\d+\] -A (\S+) .*-j DNAT\b", saved, re.MULTILINE)
    return sum(int(rule[1]) for rule in rules if rule[2] in chains)


def open_services(service: Service, *, node_ports: bool) -> Services:
    """Write the rules of a service on every node; with `node_ports` each port is open on the nodes, too.

    Raises CommandError when the kernel refuses one, StandError when no address is free or replies would
    pass the rules by; nothing is left behind then.
    """
    iptables = find_iptables(service.client.node.shell)
    if isinstance(iptables, str):
        raise StandError(iptables)
    address = free_address(iptables.saved(service.nodes[0].shell))
    cidr = cluster_cidr([pod for pod in (service.server, service.client) if not on_node(pod)], service.server)
    ports = tuple(
        ServicePort(
            f"{service.name}:{protocol}-{port}",
            protocol,
            address,
            port,
            (f"{service.server.address}:{port}",),
            cidr,
            port if node_ports else None,
        )
        for protocol in PROTOCOLS
        for port in service.ports
    )
    with ExitStack() as undo:
        for node in service.nodes:
            _write(iptables, node, ports, undo)
        if not node_ports:
            _check_replies(service)
        return Services(iptables, service.nodes, service.server, ports, undo.pop_all())


def _write(iptables: Iptables, node: Node, ports: tuple[ServicePort, ...], undo: ExitStack) -> None:
    base = ":KUBE-POSTROUTING " not in iptables.saved(node.shell)
    if base:
        node.sysctl(net__ipv4__ip_forward="1")
        # Where the bridge hands packets to iptables at all, kube-proxy needs it to.
        node.shell.run(["sysctl", "-q", "-w", f"{_BRIDGED}=1"], check=False)
    iptables.restore(node.shell, written(ports, base=base))

    def remove() -> None:
        iptables.restore(node.shell, unwritten(ports, base=False))
        if ":KUBE-SVC-" not in iptables.saved(node.shell):
            iptables.restore(node.shell, unwritten((), base=True))

    undo.callback(remove)


def _check_replies(service: Service) -> None:
    """A reply that a bridge carries straight to the client has to be translated there."""
    client, server = service.client, service.server
    if on_node(server):
        return
    route = json.loads(server.shell.run(["ip", "-json", "route", "get", client.address]).stdout)[0]
    bridged = server.node.shell.run(["sysctl", "-n", _BRIDGED], check=False)
    if "gateway" not in route and bridged.stdout.strip() != "1":
        raise StandError(
            f"a bridge carries replies from {server.name} to {client.name} past the service's rules: "
            "this kernel has no br_netfilter; load it with: modprobe br_netfilter"
        )


def on_node(pod: Pod) -> bool:
    """Whether a pod is its node itself, as on the host network."""
    return pod.address == pod.node.address


def free_address(saved: str) -> str:
    """The first address of the range that no service has.

    Raises StandError when all are taken.
    """
    taken = set(re.findall(r"^(?:\[\d+:\d+\] )?-A KUBE-SERVICES -d ([\d.]+)", saved, re.MULTILINE))
    for address in CLUSTER_IPS.hosts():
        if str(address) not in taken:
            return str(address)
    raise StandError(f"no service address is free in {CLUSTER_IPS}; close a service first")


def cluster_cidr(pods: Sequence[Pod], server: Pod) -> str | None:
    """The smallest network that holds the addresses of a service's pods; None where its server is a node.

    kube-proxy gets the cluster's CIDR as a setting, to know a client that is no pod by its address.
    """
    if on_node(server):
        return None
    numbers = [int(ipaddress.IPv4Address(pod.address)) for pod in pods]
    differing = max(numbers) ^ min(numbers)
    return str(ipaddress.IPv4Network((min(numbers), 32 - differing.bit_length()), strict=False))
