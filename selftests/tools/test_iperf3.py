"""iperf3's recorded outputs become the figures they print, or the reason why they are none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftests.tools.corpus import cases, check, read
from selftests.tools.damage import cut, mutated, same_or_refused
from weighbridge.errors import ParseError
from weighbridge.tools import Endpoint, iperf3

SERVER = Endpoint("10.0.0.2", 5201)
RECORDED = cases("iperf3")
DATA = [path for case in RECORDED for path in case.values if isinstance(path, Path)]


@pytest.mark.parametrize("path", cases("iperf3"))
def test_recorded_output(path: Path) -> None:
    """A recorded output yields exactly the figures it prints, in SI units, or is refused for the right reason."""
    check(iperf3, path)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DATA).flatmap(cut))
def test_a_cut_output_never_lies(damaged: tuple[Path, str]) -> None:
    """An output cut at any byte is refused or yields the figures of the whole one."""
    same_or_refused(iperf3, *damaged)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DATA).flatmap(mutated))
def test_a_damaged_output_raises_only_parse_errors(text: str) -> None:
    """Random damage ends in figures or in a ParseError, never in another exception."""
    with contextlib.suppress(ParseError):
        iperf3.parse(text)


@pytest.mark.parametrize(
    "junk",
    [
        "x" * 2**20,
        "[" * 2**20,
        "{" * 2**20,
        '{"a":' * 2**18,
        f'{{"end": {"9" * 5000}}}',
        "{\n" * 2**19,
        "",
        "\0\n",
        "{}",
        "[]",
    ],
)
def test_junk_ends_quickly(junk: str) -> None:
    """A megabyte of junk is refused, not pondered."""
    with pytest.raises(ParseError):
        iperf3.parse(junk)


def test_command_line() -> None:
    """The options reach the command in the units iperf3 wants: bits, bytes and whole seconds as plain numbers."""
    load = iperf3.Load.model_validate(
        {
            "duration": "3s",
            "udp": True,
            "bandwidth": "10 Mbit/s",
            "streams": "2",
            "length": "64B",
            "omit": "1s",
            "mss": 1400,
        }
    )
    expected = "iperf3 -J --connect-timeout 5000 -c 10.0.0.2 -p 5201 -t 3 -u -b 10000000 -P 2 -O 1 -l 64 -M 1400"
    assert iperf3.argv("iperf3", load, SERVER) == expected.split()
    assert iperf3.planned(load) == 4
    assert "--bidir" in iperf3.argv("iperf3", iperf3.Load(bidir=True), SERVER)
    assert "-R" in iperf3.argv("iperf3", iperf3.Load(reverse=True), SERVER)


@pytest.mark.parametrize(
    "load", [{"duration": "1.5s"}, {"streams": 0}, {"reverse": True, "bidir": True}, {"omit": "-1s"}, {"mss": "-M"}]
)
def test_impossible_loads(load: dict[str, object]) -> None:
    """A load that iperf3 would round or take for something else is refused before it runs."""
    with pytest.raises(ValueError, match="validation error"):
        iperf3.Load.model_validate(load)


def recorded(name: str) -> str:
    return read(next(path for path in DATA if path.stem == name))


def test_the_cell_of_a_tcp_run() -> None:
    """The cell's figure is what the receiver got, with the sender's retransmits and the connection's state."""
    figures = iperf3.select(iperf3.parse(recorded("version-3.17-json-prompt")), iperf3.Load())
    assert figures["bytes_received"] == 1.25e9
    assert figures["retransmits"] == 3
    assert figures["round_trip_time_mean"] == 4e-4
    assert "bytes_sent" not in figures


def test_the_cell_of_parallel_streams() -> None:
    """Of several streams the receiver's SUM counts, in text as in JSON."""
    results = iperf3.parse(recorded("tcp-parallel"))
    figures = iperf3.select(results, iperf3.Load(streams=2))
    assert figures["throughput"] == 19.1e9
    assert figures["retransmits"] == 9


def test_the_cell_of_a_bidirectional_run() -> None:
    """Of both ways the cell takes what leaves the client."""
    figures = iperf3.select(iperf3.parse(recorded("tcp-bidir-parallel")), iperf3.Load(bidir=True, streams=2))
    assert figures["throughput"] == 18.4e9


def test_the_cell_of_a_udp_run() -> None:
    """UDP is judged by what the receiver got, with the sender's count of what was sent."""
    figures = iperf3.select(iperf3.parse(recorded("version-3.6-udp-title")), iperf3.Load(udp=True))
    assert figures["throughput"] == 3.48e9
    assert figures["packets_sent"] == 28310420


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("version-3.0.11-udp", iperf3.Load(udp=True)),
        ("version-3.5-json-receiver-unknown", iperf3.Load()),
        ("tcp", iperf3.Load(udp=True)),
        ("tcp", iperf3.Load(streams=2)),
        ("server-log-complete", iperf3.Load()),
    ],
)
def test_no_cell_without_its_figures(name: str, load: iperf3.Load) -> None:
    """A run that does not say what the receiver got, another protocol, or several runs are no figure of the cell."""
    with pytest.raises(ParseError):
        iperf3.select(iperf3.parse(recorded(name)), load)
