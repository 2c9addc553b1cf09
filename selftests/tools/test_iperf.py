"""iperf 2's recorded outputs become the figures they print, or the reason why they are none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftests.tools.corpus import cases, check, read
from selftests.tools.damage import cut, mutated, same_or_refused
from weighbridge.errors import ParseError
from weighbridge.tools import Endpoint, iperf

SERVER = Endpoint("10.0.0.2", 5001)
RECORDED = cases("iperf")
DATA = [path for case in RECORDED for path in case.values if isinstance(path, Path)]


@pytest.mark.parametrize("path", cases("iperf"))
def test_recorded_output(path: Path) -> None:
    """A recorded output yields exactly the figures it prints, in SI units, or is refused for the right reason."""
    check(iperf, path)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DATA).flatmap(cut))
def test_a_cut_output_never_lies(damaged: tuple[Path, str]) -> None:
    """An output cut at any byte is refused or yields the figures of the whole one."""
    same_or_refused(iperf, *damaged)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(DATA).flatmap(mutated))
def test_a_damaged_output_raises_only_parse_errors(text: str) -> None:
    """Random damage ends in figures or in a ParseError, never in another exception."""
    with contextlib.suppress(ParseError):
        iperf.parse(text)


@pytest.mark.parametrize(
    "junk", ["x" * 2**20, "[" * 2**20, "[  3] 0.0-10.0 sec " * 50000, f"[  3] 0.0-{'9' * 5000} sec", "", "\0\n"]
)
def test_junk_ends_quickly(junk: str) -> None:
    """A megabyte of junk is refused, not pondered."""
    with pytest.raises(ParseError):
        iperf.parse(junk)


def test_command_line() -> None:
    """The options reach the command in the units iperf wants: bits, bytes and seconds as plain numbers."""
    load = iperf.Load.model_validate(
        {"duration": "1.5s", "udp": True, "bandwidth": "10 Mbit/s", "streams": "2", "length": "64B", "window": "4KiB"}
    )
    expected = "iperf -c 10.0.0.2 -p 5001 -t 1.5 -f b -u -b 10000000 -P 2 -l 64 -w 4096"
    assert iperf.argv("iperf", load, SERVER) == expected.split()
    assert iperf.planned(load) == 1.5


@pytest.mark.parametrize(
    "load",
    [{"duration": "0s"}, {"streams": "-1"}, {"bandwidth": "-1bit/s"}, {"reverse": True, "bidir": True}, {"mss": "-M"}],
)
def test_impossible_loads(load: dict[str, object]) -> None:
    """A load that iperf would take for something else is refused before it runs."""
    with pytest.raises(ValueError, match="validation error"):
        iperf.Load.model_validate(load)


def recorded(name: str) -> str:
    return read(next(path for path in DATA if path.stem == name))


def test_the_cell_of_a_tcp_run() -> None:
    """TCP has the client's view only, and that is the cell's figure; of parallel streams it is their SUM."""
    one = iperf.select(iperf.parse(recorded("tcp-bytes")), iperf.Load())
    assert one["throughput"] == 21636608704
    many = iperf.select(iperf.parse(recorded("version-2.0.9-windows-parallel")), iperf.Load(streams=2))
    assert many["throughput"] == 7.95e9


def test_the_cell_of_both_ways() -> None:
    """Of a dual test the cell takes what leaves the client."""
    assert iperf.select(iperf.parse(recorded("version-2.0.5-dual")), iperf.Load(bidir=True))["throughput"] == 928e6


def test_the_cell_of_a_udp_run() -> None:
    """UDP is judged by what the server received, with the client's count of what was sent."""
    figures = iperf.select(iperf.parse(recorded("study-003-calico-udp")), iperf.Load(udp=True))
    assert figures["throughput"] == 811e6
    assert figures["packets_sent"] == 690167
    assert figures["packets_lost"] == 762


def test_the_cell_of_parallel_udp_streams() -> None:
    """Server reports have no printed total, so they are added up."""
    figures = iperf.select(iperf.parse(recorded("udp-parallel")), iperf.Load(udp=True, streams=2))
    assert figures["throughput"] == 20.0e6
    assert figures["packet_loss"] == 1 / 1708
    assert figures["packets_sent"] == 1710
    assert "jitter" not in figures


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("study-003-neutron", iperf.Load(udp=True)),
        ("study-003-neutron", iperf.Load()),
        ("study-003-physical", iperf.Load()),
        ("tcp-bytes", iperf.Load(streams=2)),
        ("tcp-bytes", iperf.Load(reverse=True)),
    ],
)
def test_no_cell_without_its_figures(name: str, load: iperf.Load) -> None:
    """A UDP run without server report, another protocol, several runs or a missing SUM are no figure of the cell."""
    with pytest.raises(ParseError):
        iperf.select(iperf.parse(recorded(name)), load)
