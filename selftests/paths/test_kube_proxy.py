"""The text of a service's rules, against what Kubernetes' own kube-proxy writes for the same service."""

from __future__ import annotations

import re
from math import prod

import pytest

from weighbridge.paths._kube_proxy import ServicePort, unwritten, written

# The names, addresses and chains are those of kube-proxy 1.36's own tests (TestOverallIPTablesRules).
ONE = ServicePort("ns1/svc1:p80", "tcp", "172.30.0.41", 80, ("10.180.0.1:80",), "10.0.0.0/8")
NODE_PORT = ServicePort("ns3/svc3:p80", "tcp", "172.30.0.43", 80, ("10.180.0.3:80",), "10.0.0.0/8", 3003)
TWO = ServicePort("ns4/svc4:p80", "tcp", "172.30.0.44", 80, ("10.180.0.4:80", "10.180.0.5:80"), "10.0.0.0/8")


def test_chains_bear_kube_proxys_names() -> None:
    """Whoever knows a cluster's rules finds the same chains here: the hash is kube-proxy's."""
    assert ONE.chains == ("KUBE-SVC-XPGD46QRK7WJZT7O", "KUBE-SEP-SXIVWICOYRO3J4NJ")
    assert NODE_PORT.chains == (
        "KUBE-EXT-X27LE4BHSL4DOUIK",
        "KUBE-SVC-X27LE4BHSL4DOUIK",
        "KUBE-SEP-OYPFS5VJICHGATKP",
    )
    assert TWO.chains[1:] == ("KUBE-SEP-UKSFD7AGPMPPLUHC", "KUBE-SEP-C6EBXVWJJZMIWKLZ")


def test_cluster_ip_has_kube_proxys_rules() -> None:
    """Match, order and targets are kube-proxy's: mark who is no pod, choose the endpoint, mark a hairpin, translate."""
    comment = '-m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80'
    assert ONE.entries == (f"KUBE-SERVICES {comment} -j KUBE-SVC-XPGD46QRK7WJZT7O",)
    assert ONE.rules == (
        f"KUBE-SVC-XPGD46QRK7WJZT7O {comment} ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ",
        'KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 -> 10.180.0.1:80" -j KUBE-SEP-SXIVWICOYRO3J4NJ',
        "KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80 -s 10.180.0.1 -j KUBE-MARK-MASQ",
        "KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80"
        " -m tcp -p tcp -j DNAT --to-destination 10.180.0.1:80",
    )


def test_node_port_is_marked_before_it_meets_the_service() -> None:
    """Node ports are masqueraded as with externalTrafficPolicy=Cluster, then take the service's own chain."""
    assert NODE_PORT.entries[1] == (
        "KUBE-NODEPORTS -m comment --comment ns3/svc3:p80 -m tcp -p tcp --dport 3003 -j KUBE-EXT-X27LE4BHSL4DOUIK"
    )
    assert [rule for rule in NODE_PORT.rules if rule.startswith("KUBE-EXT")] == [
        'KUBE-EXT-X27LE4BHSL4DOUIK -m comment --comment "masquerade traffic for ns3/svc3:p80 external destinations"'
        " -j KUBE-MARK-MASQ",
        "KUBE-EXT-X27LE4BHSL4DOUIK -j KUBE-SVC-X27LE4BHSL4DOUIK",
    ]


def test_two_endpoints_share_as_kube_proxy_has_it() -> None:
    """The first of two is taken with probability one half, the last always."""
    chosen = [rule for rule in TWO.rules if "->" in rule]

    assert "-m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-UKSFD7AGPMPPLUHC" in chosen[0]
    assert "statistic" not in chosen[1]
    assert chosen[1].endswith("-j KUBE-SEP-C6EBXVWJJZMIWKLZ")


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_every_endpoint_gets_the_same_share(number: int) -> None:
    """One after the other, with what the ones before left over, n endpoints get a share of 1 ÷ n each."""
    servers = tuple(f"10.0.0.{n}:80" for n in range(1, number + 1))
    rules = [rule for rule in ServicePort("a/b:c", "udp", "10.1.0.1", 80, servers).rules if "->" in rule]
    taken = [float(found[1]) if (found := re.search(r"--probability (\S+)", rule)) else 1.0 for rule in rules]

    shares = [chance * prod(1 - before for before in taken[:place]) for place, chance in enumerate(taken)]

    assert shares == pytest.approx([1 / number] * number)


def test_the_rule_for_node_ports_stays_the_last() -> None:
    """A service put in later still comes before the rule that sends every local address to the node ports."""
    base = written((), base=True).splitlines()
    added = written((NODE_PORT,), base=False).splitlines()

    last = [line for line in base if line.startswith("-A KUBE-SERVICES")]
    assert len(last) == 1
    assert "-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j KUBE-NODEPORTS" in last[0]
    assert not [line for line in added if line.startswith("-A KUBE-SERVICES")]
    assert [line for line in added if line.startswith("-I KUBE-SERVICES")]


def test_common_chains_are_kube_proxys() -> None:
    """Mark, masquerade and the rules that every forwarded packet meets are those of a cluster's node."""
    base = written((), base=True)

    for rule in (
        "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000",
        "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
        "-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000",
        '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT"'
        " -j MASQUERADE --random-fully",
        "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
        '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
    ):
        assert f"{rule}\n" in base


@pytest.mark.parametrize("base", [True, False])
def test_what_is_written_can_be_taken_away(base: bool) -> None:
    """Every chain that is made is removed, and every rule put into a chain of others deleted."""
    put, taken = written((NODE_PORT, TWO), base=base), unwritten((NODE_PORT, TWO), base=base)

    made = re.findall(r"^:(\S+) ", put, re.MULTILINE)
    entered = [line[3:] for line in put.splitlines() if line.startswith("-I ") and line.split()[1] not in made]
    assert sorted(re.findall(r"^-X (\S+)$", taken, re.MULTILINE)) == sorted(made)
    assert sorted(line[3:] for line in taken.splitlines() if line.startswith("-D ")) == sorted(entered)
