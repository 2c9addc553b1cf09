"""What networks that wrap packets put on the link."""

from __future__ import annotations

import pytest

from selftests.networks.traffic import ping, sent, watched
from weighbridge import registry
from weighbridge.targets import lab

IPV4 = b"\x08\x00"
ARP = b"\x08\x06"
UDP = 17


def outer(frame: bytes) -> tuple[str, str]:
    """Source and destination of the IPv4 packet in a frame."""
    return ".".join(map(str, frame[26:30])), ".".join(map(str, frame[30:34]))


@pytest.mark.parametrize(("key", "port", "number"), [("flannel", 8472, 1), ("ovs", 4789, 1), ("neutron", 4789, 0x3E9)])
def test_pods_speak_vxlan_over_the_link(site: lab.Lab, key: str, port: int, number: int) -> None:
    """What crosses the link between pods is VXLAN with the network's own number, and nothing of the pods' bare."""
    if reason := registry.find("networks", key).unavailable(site.shell()):
        pytest.skip(reason)
    client, server = site.pod(site.nodes[0], key), site.pod(site.nodes[1], key)
    pods = {client.address, server.address}

    with watched(site.nodes[1], "eth0") as frames:
        assert ping(client.shell, server.address, 700)

    packets = [frame for frame in frames if frame[12:14] == IPV4]
    assert not [frame for frame in packets if pods & set(outer(frame))]
    asking = bytes(map(int, client.address.split(".")))
    assert not [frame for frame in frames if frame[12:14] == ARP and asking in frame]
    wrapped = [frame for frame in packets if frame[23] == UDP and int.from_bytes(frame[36:38]) == port]
    between = [frame for frame in wrapped if set(outer(frame[50:])) == pods]
    assert len(between) == 10
    assert {int.from_bytes(frame[46:49]) for frame in between} == {number}


@pytest.mark.parametrize("key", ["ovs", "neutron"])
def test_a_second_end_of_the_link_takes_nothing_from_the_node(site: lab.Lab, key: str) -> None:
    """A switch gets what is sent to its own tunnel end; the node's packets neither pass it nor wait for it."""
    if reason := registry.find("networks", key).unavailable(site.shell()):
        pytest.skip(reason)
    site.pod(site.nodes[1], key)
    before, _ = sent(site.nodes[1], f"{key}-link")

    assert ping(site.nodes[0].shell, site.nodes[1].address, 700, 100)

    after, _ = sent(site.nodes[1], f"{key}-link")
    assert after - before < 40
