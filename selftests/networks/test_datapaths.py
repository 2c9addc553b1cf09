"""Every network of the lab, by sending real packets through it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from selftests.networks.traffic import ping, reaches, sent
from weighbridge import registry
from weighbridge.networks import missing_device, missing_program
from weighbridge.scenario import load
from weighbridge.targets import lab
from weighbridge.wire import MTU

ETHERNET = 14
ICMP = 28
"""IPv4 and ICMP headers."""


def test_its_own_part_carries_what_crosses_nodes(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """A network's evidence counts every packet between nodes, both ways, and counts it once."""
    key, module = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)
    assert reaches(client.shell, server.address)
    before = module.carried(server)

    assert ping(client.shell, server.address, 1000, 100)

    after, packets = module.carried(server), 2 * 100 * (1000 + ICMP)
    assert before.part == after.part
    assert packets <= after.bytes - before.bytes <= 1.2 * packets


def test_full_packets_are_full_on_the_link(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """The largest packet that passes whole is the link's MTU less the overhead, and leaves as one frame of that MTU."""
    key, module = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)
    largest = MTU - module.OVERHEAD - ICMP
    assert reaches(client.shell, server.address)
    packets, size = sent(site.nodes[0], "eth0")

    assert ping(client.shell, server.address, largest, 200)

    packets_after, size_after = sent(site.nodes[0], "eth0")
    others = packets_after - packets - 200
    # Neighbour discovery of pods just made is the only other traffic.
    assert 0 <= others < 40
    assert 0 <= size_after - size - 200 * (MTU + ETHERNET) <= others * 200
    assert not ping(client.shell, server.address, largest + 1, 1)


def test_same_node_traffic_stays_on_the_node(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """Same-node cells never touch the shaped link."""
    key, _ = network
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[0], key)
    before, _ = sent(site.nodes[0], "eth0")

    assert ping(client.shell, server.address, 56, 100)

    after, _ = sent(site.nodes[0], "eth0")
    assert after - before < 40


def test_a_client_on_a_node_reaches_pods_of_both(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """A scenario whose client runs on the node works with every network."""
    key, _ = network
    for node in site.nodes:
        assert reaches(site.nodes[0].shell, site.pod(node, key).address)


def test_every_network_declares_what_the_lab_needs(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """A new network file works without any other file knowing it."""
    key, module = network
    pod = site.pod(site.nodes[1], key)

    assert module.OVERHEAD >= 0
    assert isinstance(module.PODS, bool)
    assert isinstance(module.SERVICES, bool)
    assert pod.address.startswith(("198.18.", "198.19."))
    assert all(isinstance(text, str) for pair in module.evidence(pod).items() for text in pair)


def test_networks_wired_together_leave_each_other_alone(site: lab.Lab) -> None:
    """Groups measure networks in turn in one lab: with all of them wired, each still works."""
    usable = [key for key in registry.keys("networks") if not registry.find("networks", key).unavailable(site.shell())]
    pairs = {key: (site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)) for key in usable}

    assert [key for key, (client, server) in pairs.items() if not reaches(client.shell, server.address)] == []
    assert len({server.address for _, server in pairs.values()}) == len(usable)


def test_missing_device_names_it(site: lab.Lab) -> None:
    """A kernel without a device gives a skip that says which."""
    assert missing_device(site.shell(), "veth") is None
    assert "nosuchthing" in str(missing_device(site.shell(), "nosuchthing"))


def test_missing_program_names_its_package(site: lab.Lab) -> None:
    """A machine without a program gives a skip that says what installs it."""
    assert missing_program(site.shell(), ["ip"], ["iproute2"]) is None
    assert missing_program(site.shell(), ["ip", "nosuchthing"], ["some", "package"]) == (
        "nosuchthing is not installed; install it with: apt-get install some package"
    )


def test_stand_in_says_so(site: lab.Lab, network: tuple[str, ModuleType]) -> None:
    """Figures of a switch in user space are never judged as those of the kernel's; other networks have no caveat."""
    key, module = network
    pod = site.pod(site.nodes[1], key)

    in_user_space = "user space" in module.evidence(pod).get("datapath", "")

    assert module.caveat(pod) == ("user-space datapath" if in_user_space else None)


def test_scenario_over_every_network_names_every_network() -> None:
    """A network that is added is measured: the scenario says it holds all there are, each with its budget."""
    scenario = load(Path(__file__).parents[2] / "scenarios/network_stream3.toml", "standard")

    named = {registry.key_of(cell.axes["network"]): cell.budgets for cell in scenario.cells}

    assert set(named) == set(registry.keys("networks"))
    assert all(named.values())
