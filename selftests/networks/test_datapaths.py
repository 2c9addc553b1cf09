"""Every network of the lab, by sending real packets through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from weighbridge import registry
from weighbridge.hosts import Node, Pod
from weighbridge.networks import missing_device
from weighbridge.targets import Request, lab
from weighbridge.wire import MTU

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab in which every network is wired."""
    with lab.open_site(Request("selftest", Path())) as opened:
        yield opened


@pytest.fixture(params=registry.keys("networks"))
def network(request: pytest.FixtureRequest, site: lab.Lab) -> tuple[str, ModuleType]:
    """Every network module that this machine can wire."""
    module = registry.find("networks", request.param)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return request.param, module


def packets(node: Node, device: str) -> int:
    stats = json.loads(node.shell.run(["ip", "-j", "-s", "link", "show", device]).stdout)[0]["stats64"]
    return int(stats["tx"]["packets"])


def ping(client: Pod, server: Pod, size: int, count: int = 5) -> bool:
    command = ["ping", "-c", str(count), "-i", "0.01", "-W", "1", "-M", "do", "-s", str(size), server.address]
    return client.shell.run(command, check=False, timeout=15).ok


def test_packets_cross_the_device_that_makes_it_what_it_is(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """A network's evidence counts: its own device carries every packet between nodes."""
    key, module = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)
    before = packets(site.nodes[0], module.DEVICE)

    assert ping(client, server, 56)

    assert packets(site.nodes[0], module.DEVICE) >= before + 5


def test_the_link_sees_the_overhead(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """The largest packet that passes unfragmented is the link's MTU less the network's overhead."""
    key, module = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)
    largest = MTU - module.OVERHEAD - 28

    assert ping(client, server, largest, 1)
    assert not ping(client, server, largest + 1, 1)


def test_same_node_traffic_stays_on_the_node(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """Same-node cells never touch the shaped link."""
    key, _ = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[0], key)
    before = packets(site.nodes[0], "eth0")

    assert ping(client, server, 56)

    assert packets(site.nodes[0], "eth0") <= before + 1


def test_every_network_declares_what_the_lab_needs(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """A new network file works without any other file knowing it."""
    key, module = network
    pod = site.pod(site.nodes[1], key)

    assert module.OVERHEAD >= 0
    assert isinstance(module.PODS, bool)
    assert pod.address.startswith(("198.18.", "198.19."))


def test_flannel_wraps_packets_in_vxlan(site: lab.Lab) -> None:
    """What crosses the link between flannel pods is VXLAN to UDP port 8472, and nothing of the pods' own."""
    client, server = site.pod(site.nodes[0], "flannel"), site.pod(site.nodes[1], "flannel")
    count = ["iptables", "-w", "-I", "INPUT", "-i", "eth0", "-p", "udp", "--dport", "8472"]
    bare = ["iptables", "-w", "-I", "INPUT", "-i", "eth0", "-s", "198.19.0.0/16"]
    for rule in (count, bare):
        site.nodes[1].shell.run(rule)

    assert ping(client, server, 56)

    listing = site.nodes[1].shell.run(["iptables", "-w", "-nvxL", "INPUT"]).stdout.splitlines()
    counted = {line.split()[-1] if "dpt" in line else "bare": int(line.split()[0]) for line in listing[2:]}
    assert counted["dpt:8472"] >= 5
    assert counted["bare"] == 0


def test_missing_device_names_it(site: lab.Lab) -> None:
    """A kernel without a device gives a skip that says which."""
    assert missing_device(site.shell(), "vxlan") is None
    assert "nosuchthing" in str(missing_device(site.shell(), "nosuchthing"))
