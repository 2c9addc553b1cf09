from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from selftests.tools.corpus import DATA, cases, check
from weighbridge.errors import ParseError, UsageError
from weighbridge.tools import Endpoint, Result, ping
from weighbridge.tools.ping import Load

SERVER = Endpoint("10.0.0.7", 0)
GOOD = [
    path.read_bytes().decode()
    for path in sorted((DATA / "ping").glob("*.txt"))
    if '"results"' in path.with_suffix(".json").read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", cases("ping"))
def test_recorded_outputs(path: Path) -> None:
    """Every recorded output gives exactly the figures, or the refusal, written beside it by hand."""
    check(ping, path)


def figures(results: tuple[Result, ...]) -> dict[tuple[Any, ...], float]:
    return {
        (*sorted(result.labels.items()), name): value for result in results for name, value in result.metrics.items()
    }


@given(st.sampled_from(GOOD), st.data())
@settings(max_examples=400, deadline=None)
def test_a_cut_output_gives_no_other_figure(text: str, data: st.DataObject) -> None:
    """Truncation at any byte ends in an error or in the figures of the whole output, never in others."""
    whole = figures(ping.parse(text))
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        part = figures(ping.parse(cut))
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
        ping.parse(raw.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "junk",
    [
        "x" * 1_000_000,
        "PING " * 200_000,
        "64 bytes from a: icmp_seq=1 time=" + "9" * 5000 + " ms\n" + "rtt min/avg/max = 1/1/1 ms\n" * 30_000,
        "--- a ping statistics ---\n" + "9" * 5000 + " packets transmitted, 1 received, 0% packet loss\n",
        "--- a ping statistics ---\n" * 40_000,
        "\x00\xff" * 500_000,
    ],
    ids=["one-line", "headers", "long-number", "long-count", "titles", "binary"],
)
def test_junk_ends_quickly(junk: str) -> None:
    """A megabyte of junk or an endless number ends in a ParseError, not in a stall."""
    with pytest.raises(ParseError):
        ping.parse(junk)


def test_command_line() -> None:
    """Options stand before the host, in the units ping wants."""
    load = Load.model_validate({"count": "100", "interval": "10ms", "size": "64B"})
    assert ping.argv("ping", load, SERVER) == ["ping", "-n", "-c", "100", "-i", "0.01", "-s", "64", "10.0.0.7"]
    assert ping.argv("ping", Load(), SERVER) == ["ping", "-n", "-c", "20", "-i", "0.2", "10.0.0.7"]
    assert ping.planned(load) == pytest.approx(1.0)


def test_a_host_is_no_option() -> None:
    """A host that starts with a dash would be read as an option."""
    with pytest.raises(UsageError):
        ping.argv("ping", Load(), Endpoint("-f", 0))


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"count": "-1"}, {"interval": "0s"}, {"interval": 1}, {"size": "70KB"}, {"flood": True}]
)
def test_impossible_loads_are_refused(wrong: dict[str, Any]) -> None:
    """What ping could not do, or only as another option, is refused before anything runs."""
    with pytest.raises(ValidationError):
        Load.model_validate(wrong)


def test_a_cell_is_one_run_with_times() -> None:
    """A cell has the figures of exactly one run that measured round-trip times."""
    (plain,) = ping.parse((DATA / "ping" / "plain.txt").read_text())
    assert ping.select([plain], Load())["round_trip_time_mean"] == pytest.approx(66e-6)
    with pytest.raises(ParseError, match="holds 0"):
        ping.select([], Load())
    with pytest.raises(ParseError, match="holds 2"):
        ping.select([plain, plain], Load())
    with pytest.raises(ParseError, match="no round-trip time"):
        ping.select(ping.parse((DATA / "ping" / "small.txt").read_text()), Load())
