"""Damaged output of the HTTP tools is refused, or still means the same; it never becomes another number."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selftests.tools.corpus import DATA, read
from weighbridge.errors import ParseError
from weighbridge.tools import ab, wrk, wrk2

TOOLS = {"wrk": wrk, "wrk2": wrk2, "ab": ab}
RECORDED = [(tool, path) for tool in TOOLS for path in sorted((DATA / tool).glob("*.txt"))]
Figures = dict[tuple[Any, ...], float]

damaging = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def figures(tool: Any, text: str) -> Figures | None:
    """Every figure by labels and metric, None where the text is refused."""
    try:
        results = tool.parse(text)
    except ParseError:
        return None
    return {
        (*sorted(result.labels.items()), name): value for result in results for name, value in result.metrics.items()
    }


def unchanged(tool: Any, whole: Figures | None, text: str) -> bool:
    """Whether a part of an output says nothing that the whole does not say."""
    part = figures(tool, text)
    if part is None:
        return True
    if whole is None:
        return False
    return all(whole[key] == value for key, value in part.items() if key in whole)


@pytest.mark.parametrize(("tool", "path"), RECORDED, ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_no_truncation_at_a_line_changes_a_figure(tool: str, path: Path) -> None:
    """An output that lost its last lines is refused, or carries the same figures."""
    text = read(path)
    whole = figures(TOOLS[tool], text)
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        part = "".join(lines[:end])
        if whole is not None:
            assert unchanged(TOOLS[tool], whole, part), f"cut after line {end}"
            assert unchanged(TOOLS[tool], whole, part.rstrip("\n")), f"cut at the end of line {end}"


@damaging
@given(data=st.data())
def test_no_truncation_at_a_character_changes_a_figure(data: st.DataObject) -> None:
    """An output that ends amid a line is refused, or carries the same figures."""
    tool, path = data.draw(st.sampled_from(RECORDED))
    text = read(path)
    whole = figures(TOOLS[tool], text)
    for cut in data.draw(st.lists(st.integers(0, len(text)), min_size=20, max_size=20)):
        assert whole is None or unchanged(TOOLS[tool], whole, text[:cut]), f"cut at {cut}"


@pytest.mark.parametrize("tool", TOOLS)
def test_no_cut_in_the_last_lines_changes_a_figure(tool: str) -> None:
    """Every single character at the end of a report matters or is decoration, never a digit that may be lost."""
    for path in sorted((DATA / tool).glob("*.txt")):
        text = read(path)
        whole = figures(TOOLS[tool], text)
        if whole is not None:
            assert all(unchanged(TOOLS[tool], whole, text[:-cut]) for cut in range(1, min(len(text), 200))), path


@damaging
@given(data=st.data())
def test_a_mutated_output_raises_nothing_but_parse_errors(data: st.DataObject) -> None:
    """Random bytes in an output never end in another exception than ParseError."""
    tool, path = data.draw(st.sampled_from(RECORDED))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    figures(TOOLS[tool], bytes(raw).decode(errors="replace"))


@damaging
@given(data=st.data())
def test_a_lost_line_never_changes_another_figure(data: st.DataObject) -> None:
    """An output that misses one line in its middle is refused, or its other figures are the same."""
    tool, path = data.draw(st.sampled_from(RECORDED))
    lines = read(path).splitlines(keepends=True)
    whole = figures(TOOLS[tool], "".join(lines))
    lost = data.draw(st.integers(0, len(lines) - 1))
    if whole is None or any(
        word in lines[lost] for word in ("errors:", "Non-2xx", "Running ", "Version", "Test Results", "Uncorrected")
    ):
        return  # wrk and ab leave such lines out when there is nothing to say; a banner decides the reading
    assert unchanged(TOOLS[tool], whole, "".join(lines[:lost] + lines[lost + 1 :])), lines[lost]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n" * 100_000,
        "x" * 1_000_000,
        "sh " * 300_000,
        "Running 1s test @ http://a/\n" * 30_000,
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   " + "9" * 5000 + ".00us",
        "Concurrency Level:      " + "9" * 5000,
        "Concurrency Level:      1\n" * 30_000,
        "This is ApacheBench, Version 2.3\n" * 30_000,
        "a.lua: " * 150_000,
        "apr_" * 250_000,
    ],
    ids=lambda text: f"{len(text)}-{text[:8].strip() or 'blank'}",
)
def test_junk_ends_quickly_in_a_parse_error(tool: str, text: str) -> None:
    """A megabyte of junk, or a number of 5000 digits, is refused within a second or two."""
    start = time.monotonic()
    with pytest.raises(ParseError):
        TOOLS[tool].parse(text)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(("tool", "path"), RECORDED, ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_line_ends_and_surroundings_do_not_matter(tool: str, path: Path) -> None:
    """CRLF, leading log lines and a prompt around an output leave its figures as they are."""
    text = read(path)
    whole = figures(TOOLS[tool], text)
    assert figures(TOOLS[tool], text.replace("\n", "\r\n")) == whole
    assert figures(TOOLS[tool], f"2024-05-01 12:00:00 INFO warm-up done\n\n{text}\n[root@node ~]# \n") == whole
    assert figures(TOOLS[tool], text.rstrip("\n")) == whole or path.stem == "no-percentages"
