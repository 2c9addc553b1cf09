from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from selftests.tools.corpus import DATA, cases, check
from weighbridge.errors import ContradictionError, ParseError, UsageError
from weighbridge.tools import Endpoint, Result, qperf
from weighbridge.tools._qperf_command import asked
from weighbridge.tools._qperf_text import TEST
from weighbridge.tools.qperf import Load

SERVER = Endpoint("10.0.0.7", 19765)
GOOD = [
    path.read_bytes().decode()
    for path in sorted((DATA / "qperf").glob("*.txt"))
    if '"results"' in path.with_suffix(".json").read_text(encoding="utf-8")
]


def recorded(name: str) -> str:
    return (DATA / "qperf" / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", cases("qperf"))
def test_recorded_outputs(path: Path) -> None:
    """Every recorded output gives exactly the figures, or the refusal, written beside it by hand."""
    check(qperf, path)


def figures(results: tuple[Result, ...]) -> dict[tuple[Any, ...], float]:
    return {
        (*sorted(result.labels.items()), name): value for result in results for name, value in result.metrics.items()
    }


@given(st.sampled_from(GOOD), st.data())
@settings(max_examples=400, deadline=None)
def test_a_cut_output_gives_no_other_figure(text: str, data: st.DataObject) -> None:
    """Truncation at any byte ends in an error or in the figures of the whole output, never in others."""
    whole = figures(qperf.parse(text))
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        part = figures(qperf.parse(cut))
    except ParseError:
        return
    assert {key: value for key, value in part.items() if key in whole and whole[key] != value} == {}


@given(st.sampled_from(GOOD), st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_bytes_raise_nothing_but_parse_error(text: str, data: st.DataObject) -> None:
    """A flipped byte anywhere may be refused, but never crashes the parser."""
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ParseError):
        qperf.parse(raw.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "junk",
    [
        "x" * 1_000_000,
        "qperf " * 200_000,
        ("qperf tcp_lat " * 70 + "x:\n") * 1000,
        "tcp_lat:\n    latency  =  " + "9" * 5000 + " us\n",
        "tcp_lat:\n    latency  =  1" + ",000" * 100 + " us\n",
        "tcp_lat:\n" * 100_000,
        " " * 1_000_000,
        "\x00\xff" * 500_000,
    ],
    ids=["one-line", "commands", "glued", "long-number", "commas", "headers", "blanks", "binary"],
)
def test_junk_ends_quickly(junk: str) -> None:
    """A megabyte of junk or an endless number ends in a ParseError, not in a stall."""
    with pytest.raises(ParseError):
        qperf.parse(junk)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1.13 MB/sec", 9.04e6),
        ("3.48 GB/sec", 27.84e9),
        ("944 bytes/sec", 7552.0),
        ("1.2 KB/sec", 9600.0),
        ("1,024 TB/sec", 8.192e15),
        ("9.4 Gb/sec", 9.4e9),
        ("940 Mb/sec", 940e6),
        ("12 bits/sec", 12.0),
        ("1432780800 bytes/sec", 11462246400.0),
        ("1,000 MB/sec", 8e9),
    ],
)
def test_bandwidth_units(printed: str, expected: float) -> None:
    """B is a byte, b a bit, and every prefix a power of ten."""
    (result,) = qperf.parse(f"tcp_bw:\n    bw  =  {printed}\n")
    assert result.metrics == {"throughput": pytest.approx(expected)}


@pytest.mark.parametrize(
    ("printed", "expected"), [("850 ns", 850e-9), ("12.9 us", 12.9e-6), ("7.39 ms", 7.39e-3), ("1,130 sec", 1130.0)]
)
def test_latency_units(printed: str, expected: float) -> None:
    """Latency is decimal, in the four units qperf has."""
    (result,) = qperf.parse(f"tcp_lat:\n    latency  =  {printed}\n")
    assert result.metrics == {"latency_mean": pytest.approx(expected)}


@pytest.mark.parametrize(
    "printed", ["1,13 MB/sec", "1,130 MB/sec", "1130 MB/sec", "1.13 MiB/sec", "1.13", "inf MB/sec"]
)
def test_figures_qperf_never_prints_are_refused(printed: str) -> None:
    """A decimal comma, an unscaled number or a foreign unit would give a wrong figure."""
    with pytest.raises(ParseError):
        qperf.parse(f"tcp_bw:\n    bw  =  {printed}\n")


def test_rounding_is_no_contradiction() -> None:
    """`77` may be 77.04 and the two ends end at different times: neither counts as a contradiction."""
    text = "tcp_bw:\n    bw  =  {} MB/sec\n    msg_rate  =  1.18 K/sec\n    msg_size  =  64 KiB (65,536)\n"
    assert qperf.parse(text.format("77.1"))
    assert qperf.parse(text.format("79.9"))
    with pytest.raises(ContradictionError, match="msg_rate x msg_size"):
        qperf.parse(text.format("97.9"))


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("10.0.0.7 tcp_bw tcp_lat", 2),
        ("10.0.0.7 -oo msg_size:1:256K:*64 -vu tcp_bw tcp_lat", 8),
        ("10.0.0.7 -oo 'msg_size:1:64K:*2' tcp_lat", 17),
        ("10.0.0.7 --loop msg_size:1k:2k:500 udp_bw conf", 6),
        ("10.0.0.7 tcp_bw tcp_lat | head", 0),
        ("", 0),
        ("10.0.0.7 -oo nonsense tcp_bw", 0),
        ("10.0.0.7 -oo msg_size:0:9:*2 tcp_bw", 0),
    ],
)
def test_how_much_a_command_asks_for(arguments: str, count: int) -> None:
    """The command line beside an output tells whether its end is missing."""
    assert asked(arguments, TEST).blocks == count


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("10.0.0.7 tcp_bw", ()),
        ("10.0.0.7 -v tcp_bw", ("cpus_used", "msg_rate")),
        ("10.0.0.7 -oo msg_size:1:64:*64 -vu tcp_bw", ("msg_size",)),
        ("10.0.0.7 -m 64 tcp_bw", ()),
        ("-vvs 10.0.0.7 tcp_lat", ("msg_rate", "recv_bytes")),
        ("-v 10.0.0.7 tcp_lat > log", ()),
    ],
)
def test_which_lines_a_command_asks_for(arguments: str, names: tuple[str, ...]) -> None:
    """Verbosity in the command line tells which lines a cut listing has lost."""
    assert asked(arguments, TEST).names == names


def test_command_line() -> None:
    """Options stand before the server and its tests, sizes become qperf's own loop."""
    load = Load.model_validate(
        {
            "tests": ["tcp_lat", "tcp_bw"],
            "duration": "2s",
            "message_size": ["1B", "64B", "4KiB", "256KiB"],
            "ip_port": "4001",
        }
    )
    assert qperf.argv("qperf", load, Endpoint("10.0.0.7", 4000)) == [
        *("qperf", "-lp", "4000", "-ip", "4001", "-t", "2", "-oo", "msg_size:1:262144:*64"),
        *("-vv", "-uu", "-e", "6", "10.0.0.7", "tcp_lat", "tcp_bw"),
    ]
    assert qperf.planned(load) == pytest.approx(16.0)
    one = Load.model_validate({"message_size": "64B", "listen_port": 5000})
    assert qperf.argv("qperf", one, SERVER)[:7] == ["qperf", "-lp", "5000", "-t", "2", "-m", "64"]
    assert qperf.planned(one) == pytest.approx(4.0)
    steps = Load.model_validate({"message_size": ["1KiB", "2KiB", "3KiB"]})
    assert "msg_size:1024:3072:1024" in qperf.argv("qperf", steps, SERVER)
    assert "-m" not in qperf.argv("qperf", Load(), SERVER)


def test_a_host_is_no_option() -> None:
    """A host that starts with a dash would be read as an option."""
    with pytest.raises(UsageError):
        qperf.argv("qperf", Load(), Endpoint("--debug", 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tests": []},
        {"tests": ["quit"]},
        {"tests": ["-vv"]},
        {"tests": ["tcp_lat\n"]},
        {"duration": "1.5s"},
        {"duration": "0s"},
        {"message_size": "0B"},
        {"message_size": "1.5B"},
        {"message_size": ["1B", "3B", "4B"]},
        {"message_size": ["4B", "1B"]},
        {"message_size": ["4B", "4B"]},
        {"message_size": []},
        {"message_size": 64},
        {"ip_port": 70000},
        {"listen_port": "-1"},
        {"messages": 5},
    ],
)
def test_impossible_loads_are_refused(wrong: dict[str, Any]) -> None:
    """What qperf could not do, or only as another option, is refused before anything runs."""
    with pytest.raises(ValidationError):
        Load.model_validate(wrong)


def test_a_cell_has_its_own_size_and_both_tests() -> None:
    """A cell at 64 B takes latency from tcp_lat and everything else from tcp_bw, at 64 B."""
    results = qperf.parse(recorded("exact-sweep"))
    figure = qperf.select(results, Load.model_validate({"message_size": "64B"}))
    assert figure["latency_mean"] == pytest.approx(36597.9e-9)
    assert figure["throughput"] == pytest.approx(203641280 * 8)
    assert figure["message_rate"] == pytest.approx(3181895)
    only = qperf.select(results, Load.model_validate({"message_size": "64B", "tests": ["tcp_lat"]}))
    assert only["message_rate"] == pytest.approx(27324)


def test_a_cell_without_its_figures_is_refused() -> None:
    """A size or test that was not measured, or two that cannot be told apart, is an error and no other figure."""
    results = qperf.parse(recorded("exact-sweep"))
    with pytest.raises(ParseError, match="tcp_bw at 256 B is wanted, the output holds 0"):
        qperf.select(results, Load.model_validate({"message_size": "256B"}))
    with pytest.raises(ParseError, match="the output holds 3"):
        qperf.select(results, Load())
    with pytest.raises(ParseError, match="the load names 2"):
        qperf.select(results, Load.model_validate({"message_size": ["1B", "64B"]}))
    with pytest.raises(ParseError, match="give throughput"):
        qperf.select(qperf.parse(recorded("verbose")), Load.model_validate({"tests": ["tcp_bw", "udp_bw"]}))


def test_a_udp_cell_is_what_arrived() -> None:
    """Of udp_bw the receiver counts: what was sent says nothing about the network."""
    figure = qperf.select(qperf.parse(recorded("verbose")), Load.model_validate({"tests": ["udp_bw"]}))
    assert figure["throughput"] == pytest.approx(4.09e9 * 8)
