"""Neutron's security group, by sending what it has to refuse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from selftests.networks.traffic import connects, ping, reaches
from weighbridge import registry
from weighbridge.hosts import Pod
from weighbridge.networks import neutron
from weighbridge.shell import Deadline
from weighbridge.targets import lab


@pytest.fixture
def pods(site: lab.Lab) -> tuple[Pod, Pod]:
    """A client and a server on different nodes."""
    if reason := registry.find("networks", "neutron").unavailable(site.shell()):
        pytest.skip(reason)
    return site.pod(site.nodes[0], "neutron"), site.pod(site.nodes[1], "neutron")


@contextmanager
def listening(pod: Pod, port: int) -> Iterator[None]:
    """A server of many connections on a port."""
    server = pod.shell.start([sys.executable, "-m", "http.server", str(port)])
    try:
        listing = ["ss", "-Hltn", f"sport = :{port}"]
        Deadline(10).until(lambda: bool(pod.shell.run(listing).stdout), "a server to listen")
        yield
    finally:
        server.stop()


def test_a_spoofed_source_is_dropped(pods: tuple[Pod, Pod]) -> None:
    """A pod that sends from an address that Neutron did not give it gets no answer, with its own it does."""
    client, server = pods
    stolen = "198.18.40.40"
    client.shell.run(["ip", "address", "add", f"{stolen}/32", "dev", "eth0"])
    # The server would answer: it finds the stolen address on the same link.
    server.shell.run(["ip", "neighbour", "add", stolen, "lladdr", "fa:16:3e:00:ff:ff", "dev", "eth0"])

    assert reaches(client.shell, server.address)
    dropped = _dropped(client)
    assert not ping(client.shell, server.address, 56, 3, "-I", stolen)
    assert _dropped(client) == dropped + 3


def test_a_stolen_hardware_address_is_dropped(pods: tuple[Pod, Pod]) -> None:
    """Anti-spoofing looks at the Ethernet source too."""
    client, server = pods
    assert reaches(client.shell, server.address)

    client.shell.run(["ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"])

    assert not ping(client.shell, server.address, 56, 2)


def test_an_unlisted_port_is_closed(pods: tuple[Pod, Pod]) -> None:
    """A server on a port that the group does not list cannot be reached, one on a listed port can."""
    client, server = pods
    with listening(server, 1023), listening(server, 1024):
        assert connects(client, server, 1024)
        assert not connects(client, server, 1023)
        # The server is there: the pod itself reaches it.
        assert connects(server, server, 1023)


def test_an_unlisted_protocol_is_dropped(pods: tuple[Pod, Pod]) -> None:
    """What is neither ICMP, TCP nor UDP ends in the fallback chain."""
    client, server = pods
    assert reaches(client.shell, server.address)
    program = (
        "import socket; raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253); "
        f"[raw.sendto(b'experiment', ('{server.address}', 0)) for _ in range(5)]"
    )
    before = _rule(server, "neutron-openvswi-sg-fallback")

    client.shell.run([sys.executable, "-I", "-S", "-c", program])

    Deadline(5).until(lambda: _rule(server, "neutron-openvswi-sg-fallback") == before + 5, "five packets to be dropped")


def test_a_pod_is_counted_by_its_own_chains(site: lab.Lab, pods: tuple[Pod, Pod]) -> None:
    """The evidence of one pod does not grow by its neighbour's traffic."""
    client, server = pods
    neighbour = site.pod(site.nodes[1], "neutron")
    assert reaches(client.shell, server.address)
    before, own = neutron.carried(neighbour), neutron.carried(server)

    assert ping(client.shell, server.address, 1000, 50)

    assert neutron.carried(neighbour).bytes - before.bytes < 5000
    assert neutron.carried(server).bytes - own.bytes >= 2 * 50 * 1000


def _dropped(pod: Pod) -> int:
    """Packets that the pod's anti-spoofing chain has dropped."""
    return _rule(pod, f"neutron-openvswi-s{pod.number:08x}")


def _rule(pod: Pod, chain: str) -> int:
    """Packets that met the DROP of a chain on the pod's node."""
    enter = ["nsenter", f"--net=/run/netns/{pod.node.name}-neutron"]
    listing = pod.node.shell.run([*enter, "iptables", "-w", "-nvxL", chain]).stdout
    return sum(int(words[0]) for words in map(str.split, listing.splitlines()[2:]) if words[2] == "DROP")
