"""The rules of a service as kube-proxy's iptables mode writes them (`pkg/proxy/iptables/proxier.go`, Kubernetes 1.36).

    PREROUTING, OUTPUT → KUBE-SERVICES ─ cluster IP ────────→ KUBE-SVC-… ─ one endpoint ─→ KUBE-SEP-… → DNAT
                             └ local address → KUBE-NODEPORTS → KUBE-EXT-… → mark ──↑
    POSTROUTING → KUBE-POSTROUTING: what is marked 0x4000 leaves under the node's own address

Names, order, comments and probabilities are kube-proxy's, set up with a cluster CIDR, with
`--iptables-localhost-nodeports=false`, and without nfacct counters. Pure text: nothing is run here.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

MARK = "0x4000"
_PORTALS = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
_NEW = "-m conntrack --ctstate NEW -m comment --comment"
_EXTERNAL = f'{_NEW} "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES'
_FILTERED = f'{_NEW} "kubernetes service portals" -j KUBE-SERVICES'
_FIREWALL = f'{_NEW} "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL'

_JUMPS = {
    "filter": (
        f"INPUT {_EXTERNAL}",
        f"FORWARD {_EXTERNAL}",
        'INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS',
        f"FORWARD {_FILTERED}",
        f"OUTPUT {_FILTERED}",
        'FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
        f"INPUT {_FIREWALL}",
        f"OUTPUT {_FIREWALL}",
        f"FORWARD {_FIREWALL}",
    ),
    "nat": (
        f"OUTPUT {_PORTALS}",
        f"PREROUTING {_PORTALS}",
        'POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    ),
}
"""How the kernel's own chains lead into kube-proxy's, in the order in which kube-proxy puts each before all others."""

_CHAINS = {
    "filter": ("KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-SERVICES", "KUBE-FORWARD", "KUBE-PROXY-FIREWALL"),
    "nat": ("KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"),
}

_RULES = {
    "filter": (
        "KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
        f'KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark {MARK}/{MARK} -j ACCEPT',
        'KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule"'
        " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    ),
    "nat": (
        f"KUBE-POSTROUTING -m mark ! --mark {MARK}/{MARK} -j RETURN",
        f"KUBE-POSTROUTING -j MARK --xor-mark {MARK}",
        'KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT"'
        " -j MASQUERADE --random-fully",
        f"KUBE-MARK-MASQ -j MARK --or-mark {MARK}",
        'KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this'
        ' chain" -m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j KUBE-NODEPORTS',
    ),
}


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of a service over one protocol, and where it leads."""

    name: str
    """As kube-proxy writes it: `namespace/service:port name`."""
    protocol: str
    """`tcp` or `udp`."""
    cluster_ip: str
    port: int
    endpoints: tuple[str, ...]
    """`address:port` of every server behind it."""
    cluster_cidr: str | None = None
    """Where pods have their addresses: who comes from elsewhere is masqueraded. None: nobody is."""
    node_port: int | None = None

    @property
    def service_chain(self) -> str:
        """Where an endpoint is chosen."""
        return _chain("KUBE-SVC-", self.name, self.protocol)

    @property
    def external_chain(self) -> str:
        """Where those who come by the node port are marked."""
        return _chain("KUBE-EXT-", self.name, self.protocol)

    def endpoint_chain(self, endpoint: str) -> str:
        """Where a connection is sent to one endpoint."""
        return _chain("KUBE-SEP-", self.name, self.protocol, endpoint)

    @property
    def chains(self) -> tuple[str, ...]:
        """Every chain of its own."""
        external = (self.external_chain,) if self.node_port is not None else ()
        return (*external, self.service_chain, *(self.endpoint_chain(endpoint) for endpoint in self.endpoints))

    @property
    def entries(self) -> tuple[str, ...]:
        """Its rules in kube-proxy's common chains."""
        match = f"-m {self.protocol} -p {self.protocol}"
        to_cluster = f"KUBE-SERVICES {self._portal} -j {self.service_chain}"
        if self.node_port is None:
            return (to_cluster,)
        to_node = f"-m comment --comment {self.name} {match} --dport {self.node_port} -j {self.external_chain}"
        return (to_cluster, f"KUBE-NODEPORTS {to_node}")

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules in its own chains: of n endpoints left, one is taken with the probability 1 ÷ n."""
        found = []
        if self.cluster_cidr is not None:
            found.append(f"{self.service_chain} {self._portal} ! -s {self.cluster_cidr} -j KUBE-MARK-MASQ")
        if self.node_port is not None:
            comment = f'-m comment --comment "masquerade traffic for {self.name} external destinations"'
            found += [f"{self.external_chain} {comment} -j KUBE-MARK-MASQ"]
            found += [f"{self.external_chain} -j {self.service_chain}"]
        for left, endpoint in zip(range(len(self.endpoints), 0, -1), self.endpoints, strict=True):
            chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
            comment = f'-m comment --comment "{self.name} -> {endpoint}"'
            found.append(f"{self.service_chain} {comment}{chance} -j {self.endpoint_chain(endpoint)}")
        for endpoint in self.endpoints:
            chain, comment = self.endpoint_chain(endpoint), f"-m comment --comment {self.name}"
            found.append(f"{chain} {comment} -s {endpoint.partition(':')[0]} -j KUBE-MARK-MASQ")
            translate = f"-m {self.protocol} -p {self.protocol} -j DNAT --to-destination {endpoint}"
            found.append(f"{chain} {comment} {translate}")
        return tuple(found)

    @property
    def _portal(self) -> str:
        match = f"-m {self.protocol} -p {self.protocol} -d {self.cluster_ip} --dport {self.port}"
        return f'-m comment --comment "{self.name} cluster IP" {match}'


def _chain(prefix: str, *parts: str) -> str:
    """kube-proxy's name of a chain: the first 16 characters of SHA-256 in base 32 over its parts in a row."""
    return prefix + base64.b32encode(hashlib.sha256("".join(parts).encode()).digest()).decode()[:16]


def written(ports: tuple[ServicePort, ...], *, base: bool) -> str:
    """What `iptables-restore --noflush` has to read to add services; with `base` also kube-proxy's common chains.

    The services come first in KUBE-SERVICES: its rule for node ports has to stay the last.
    """
    lines = []
    for table in ("filter", "nat") if base else ("nat",):
        own = [port for port in ports if table == "nat"]
        lines.append(f"*{table}")
        lines += [f":{chain} - [0:0]" for chain in _CHAINS[table] if base]
        lines += [f":{chain} - [0:0]" for port in own for chain in port.chains]
        lines += [f"-I {jump}" for jump in _JUMPS[table] if base]
        lines += [f"-A {rule}" for rule in _RULES[table] if base]
        lines += [f"-A {rule}" for port in own for rule in port.rules]
        lines += [f"-I {entry}" for port in reversed(own) for entry in port.entries]
        lines.append("COMMIT")
    return "\n".join([*lines, ""])


def unwritten(ports: tuple[ServicePort, ...], *, base: bool) -> str:
    """What it has to read to take the same away again."""
    lines = []
    for table in ("filter", "nat") if base else ("nat",):
        own = [port for port in ports if table == "nat"]
        chains = [chain for port in own for chain in port.chains] + list(_CHAINS[table] if base else ())
        lines.append(f"*{table}")
        # Naming a chain empties it, so that nothing refers to another one any more.
        lines += [f":{chain} - [0:0]" for chain in chains]
        if base:
            lines += [f"-D {jump}" for jump in _JUMPS[table]]
        else:
            lines += [f"-D {entry}" for port in own for entry in port.entries]
        lines += [f"-X {chain}" for chain in chains]
        lines.append("COMMIT")
    return "\n".join([*lines, ""])
