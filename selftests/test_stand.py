"""Stands on the real lab: server, client and evidence together, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from weighbridge import registry
from weighbridge.errors import StandError
from weighbridge.model import Cell
from weighbridge.networks import Carried
from weighbridge.scenario import load
from weighbridge.shell import Deadline
from weighbridge.stand import LiveStand, stand_up, unavailable
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

SCENARIOS = Path(__file__).parents[1] / "scenarios"


@pytest.fixture
def site() -> Iterator[lab.Lab]:
    """A lab of its own for every test: these leave servers behind on purpose."""
    with lab.open_site(Request("selftest", SCENARIOS)) as opened:
        yield opened


def cell(scenario: str, **axes: str) -> Cell:
    """The first smoke cell of a scenario that has these axis values."""
    found = load(SCENARIOS / f"{scenario}.toml", "smoke").cells
    return next(c for c in found if axes.items() <= dict(c.axes).items())


@pytest.mark.parametrize(
    ("scenario", "metric"),
    [
        ("network_stream", "throughput"),
        ("network_stream3", "throughput"),
        ("network_datagram", "packet_loss"),
        ("network_http", "request_rate"),
        ("network_round_trip", "round_trip_time_mean"),
        ("http_rate", "request_rate"),
        ("socket_1c2g", "latency_mean"),
    ],
)
def test_every_server_and_tool_work_together(site: lab.Lab, scenario: str, metric: str) -> None:
    """A stand serves its tool, the output parses, and the metric under budget is in it."""
    asked = cell(scenario)
    if reason := unavailable(site, asked):
        pytest.skip(reason)
    stand = stand_up(site, asked)
    tool = registry.find("tools", asked.tool)
    try:
        for number in range(2):
            reading = stand.read(asked, asked.load, number)
            assert reading.problem is None
            assert tool.select(tool.parse(reading.output), asked.load)[metric] >= 0
        assert stand.unproven() is None
    finally:
        stand.close()


def test_bypassed_network_is_unproven(site: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that claims flannel while nothing crosses flannel.1 is not believed, however much the link carried."""
    asked = cell("network_round_trip", network="flannel")
    stand = stand_up(site, asked)
    monkeypatch.setattr(registry.find("networks", "flannel"), "carried", lambda pod: Carried("flannel.1 on node2", 700))
    assert stand.read(asked, asked.load, 0).problem is None

    found = stand.unproven()

    assert found is not None
    assert re.fullmatch(r"flannel.1 on node2 carried 0 bytes while the server's interface saw \d{4,}", found)
    stand.close()


def test_port_in_use_is_named(site: lab.Lab) -> None:
    """A server that holds the port already is an error that names port and place, not a wrong measurement."""
    asked = cell("network_stream3", network="host")
    foreign = site.nodes[1].shell.start(["iperf3", "-s", "-p", "5201"])
    Deadline(5).until(lambda: bool(site.nodes[1].shell.run(["ss", "-Hltn", "sport = :5201"]).stdout), "iperf3")

    with pytest.raises(StandError, match="port 5201 is in use in node2"):
        stand_up(site, asked)
    foreign.stop()


def test_two_stands_on_one_node_take_two_ports(site: lab.Lab) -> None:
    """Members of a group that share a node's namespace do not fight for a port."""
    asked = cell("network_http", network="host")
    first, second = stand_up(site, asked), stand_up(site, asked)

    assert isinstance(first, LiveStand)
    assert isinstance(second, LiveStand)
    assert second.endpoint.port == first.endpoint.port + 1
    first.close()
    second.close()


def test_closed_stand_gives_its_port_back(site: lab.Lab) -> None:
    """Tear-down undoes the stand: the next one finds the place as the first did."""
    asked = cell("network_http", network="host")
    first = stand_up(site, asked)
    first.close()

    second = stand_up(site, asked)

    assert isinstance(first, LiveStand)
    assert isinstance(second, LiveStand)
    assert first.endpoint == second.endpoint
    second.close()


def test_server_dying_in_a_run_is_a_problem(site: lab.Lab) -> None:
    """A figure from a run during which the server died is no figure."""
    asked = cell("network_http", network="host")
    stand = stand_up(site, asked)
    assert isinstance(stand, LiveStand)
    stand.sandbox.stop()

    reading = stand.read(asked, asked.load, 0)

    assert reading.problem is not None
    assert "the server ended" in reading.problem
    stand.close()


@pytest.mark.parametrize(
    ("axis", "value", "reason"),
    [("sidecar", "both", "sidecar 'both'"), ("path", "node-port", "path 'node-port'"), ("runtime", "kata", "kata")],
)
def test_what_the_lab_lacks_is_a_skip_with_its_reason(site: lab.Lab, axis: str, value: str, reason: str) -> None:
    """A cell that cannot run here says why before anything is stood up."""
    asked = cell("network_http", network="host")

    assert reason in str(unavailable(site, replace(asked, axes={**asked.axes, axis: value})))


def test_missing_tool_is_a_skip_that_names_the_package(site: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is not installed is named with its package."""
    monkeypatch.setattr(registry.find("tools", "ab"), "PROGRAMS", ("nosuchprogram",))

    assert "apt-get install apache2-utils" in str(unavailable(site, cell("network_http", network="host")))
