"""Stands on the real lab: server, client and evidence together, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weighbridge import registry
from weighbridge.errors import StandError
from weighbridge.measure import Slot, samples_of
from weighbridge.model import Cell, Limits
from weighbridge.networks import Carried
from weighbridge.scenario import load
from weighbridge.shell import Deadline
from weighbridge.stand import LiveStand, stand_up, unavailable
from weighbridge.stand.placed import Placement
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

SCENARIOS = Path(__file__).parents[2] / "scenarios"


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
    [("sidecar", "both", "sidecar 'both'"), ("runtime", "kata", "kata")],
)
def test_what_the_lab_lacks_is_a_skip_with_its_reason(site: lab.Lab, axis: str, value: str, reason: str) -> None:
    """A cell that cannot run here says why before anything is stood up."""
    asked = cell("network_http", network="host")

    assert reason in str(unavailable(site, replace(asked, axes={**asked.axes, axis: value})))


def test_missing_tool_is_a_skip_that_names_the_package(site: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is not installed is named with its package."""
    monkeypatch.setattr(registry.find("tools", "ab"), "PROGRAMS", ("nosuchprogram",))

    assert "apt-get install apache2-utils" in str(unavailable(site, cell("network_http", network="host")))


@pytest.mark.parametrize("runtime", ["host", "runc"])
@pytest.mark.parametrize("cpus", ["shared", "split"])
def test_server_and_client_keep_to_their_processors(site: lab.Lab, cpus: Any, runtime: str) -> None:
    """The placement that the report tells is in force: the kernel says so of the server, the command of the client."""
    asked = replace(cell("http_rate", runtime=runtime), cpus=cpus)
    if reason := unavailable(site, asked):
        pytest.skip(reason)
    stand = stand_up(site, asked)
    assert isinstance(stand, LiveStand)

    reading = stand.read(asked, asked.load, 0)

    assert stand.evidence()["processors"] == stand.placement.server
    assert reading.argv[:3] == ("taskset", "--cpu-list", stand.placement.client)
    assert stand.evidence()["cpus"] == f"{cpus}: {stand.placement.text}"
    assert stand.unproven() is None
    stand.placement = Placement("0", "99")
    assert "the server runs on processors" in str(stand.unproven())
    stand.close()


def test_every_reading_tells_stolen_time(site: lab.Lab) -> None:
    """What the hypervisor took is known of every slot; start-up is no figure of a server that has served before."""
    asked = cell("http_rate", runtime="host")
    stand = stand_up(site, asked)

    for number in range(2):
        figures = stand.read(asked, asked.load, number).figures
        assert set(figures) == {"cpu_steal"}
        assert 0 <= figures["cpu_steal"] <= 1
    stand.close()


def test_fresh_server_is_started_for_every_round(site: lab.Lab) -> None:
    """A scenario about start-up gets one start per round, each with its own figure and its own process."""
    asked = replace(cell("http_rate", runtime="host"), fresh_server=True)
    stand = stand_up(site, asked)
    assert isinstance(stand, LiveStand)

    first = stand.read(asked, asked.load, 0)
    process = stand.sandbox.process
    second = stand.read(asked, asked.load, 1)

    assert first.problem is None
    assert second.problem is None
    assert not process.running()
    assert second.figures["start_up_time"] != first.figures["start_up_time"]
    assert 0 < first.figures["start_up_time"] < 10
    assert 2**18 < first.figures["memory_footprint"] < 2**30
    stand.close()


def test_closed_stand_takes_its_pods_along(site: lab.Lab) -> None:
    """A long run does not fill the lab: namespaces, interfaces and routes are as before, and addresses come again."""
    asked = cell("http_rate", runtime="host")
    stand_up(site, asked).close()

    def state() -> tuple[str, ...]:
        listings = [["ip", "-brief", "link"], ["ip", "route"]]
        nodes = tuple(node.shell.run(words).stdout for node in site.nodes for words in listings)
        return (site.shell().run(["ip", "netns", "list"]).stdout, *nodes)

    before = state()

    for _ in range(3):
        stand_up(site, asked).close()

    assert state() == before


@pytest.mark.parametrize(("rate", "shown"), [(100e6, "100Mbit"), (1e9, "984395Kbit"), (None, "")])
def test_link_has_the_rate_that_the_cell_asks_for(site: lab.Lab, rate: float | None, shown: str) -> None:
    """Cells of different link rates share a lab; each is measured at its own, and its limit is of that rate."""
    asked = replace(cell("network_http", network="host"), link_rate=rate)
    stand = stand_up(site, asked)
    stand.read(asked, asked.load, 0)

    listing = site.nodes[0].shell.run(["tc", "qdisc", "show", "dev", "eth0"]).stdout

    assert ("tbf" in listing) == bool(shown)
    assert shown in listing
    # Up to 400 Mbit/s frames are charged one by one, with what the kernel does not see of them.
    assert ("overhead 24" in listing) == (rate == 100e6)
    assert (stand.limit is None) == (rate is None)
    stand.close()


def test_limits_beyond_the_machine_are_scaled_and_said(site: lab.Lab) -> None:
    """A limit of 60 CPUs is in force as what the machine has, and the evidence tells what was asked."""
    asked = replace(cell("http_rate", runtime="runc"), limits=Limits(cpu=60.0, memory=2.0**30))
    if reason := unavailable(site, asked):
        pytest.skip(reason)
    stand = stand_up(site, asked)

    assert stand.evidence()["limits"] == f"cpu {len(site.capacity.processors)} memory {2**30}"
    assert stand.evidence()["limits asked"] == f"cpu 60 memory {2**30}"
    assert stand.unproven() is None
    stand.close()


@pytest.mark.parametrize(("runtime", "limit", "kept"), [("host", 1.0, None), ("host", 60.0, None), ("runc", 0.5, 0.5)])
def test_rate_per_core_counts_the_cores_in_force(site: lab.Lab, runtime: str, limit: float, kept: float | None) -> None:
    """Sixty asked for and two given make two, and where no limit is kept, what there is: never what is not in force."""
    asked = replace(cell("http_rate", runtime=runtime), limits=Limits(cpu=limit), per_core=limit)
    if reason := unavailable(site, asked):
        pytest.skip(reason)
    stand = stand_up(site, asked)

    samples = {s.metric: s.value for s in samples_of(Slot((asked,)), stand.read(asked, asked.load, 0), 0)[asked.id]}

    assert samples["request_rate"] is not None
    assert samples["request_rate_per_core"] == samples["request_rate"] / (kept or len(site.capacity.processors))
    stand.close()
