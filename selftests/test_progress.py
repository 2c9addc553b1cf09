from __future__ import annotations

import io
import os
import pty
import re
import select
from pathlib import Path

import pytest

from selftests import staged
from weighbridge import scenario
from weighbridge.measure import Group, group_cells
from weighbridge.model import Sample, Status, Verdict
from weighbridge.progress import LiveProgress, PlainProgress, on_terminal, so_far
from weighbridge.shell import Deadline
from weighbridge.stand import Reading


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """A group of two runs, judged after 6 and 10 rounds."""
    path = tmp_path / "a_scenario_with_a_rather_long_name.toml"
    budget = '[[budgets]]\nmetric = "latency_mean"\nwhere = { runtime = "runc" }\nat_most = "2 x runtime=host"\n'
    path.write_text(staged.scenario(runtimes=("host", "runc"), budgets=budget))
    read = scenario.load(path)
    (found,) = group_cells(read.cells, read.references, {read.name: read.looks})
    return found


def verdict(status: Status) -> Verdict:
    return Verdict("cell", "budget", status, "reason")


def follow(progress: PlainProgress, group: Group) -> None:
    """Tell a display of one round, in which a run fails, and of its verdicts."""
    for slot in group.slots:
        progress.slot_started(group, slot, 0, 2.0)
    progress.slot_read(group, group.slots[0], 0, 1, Reading(("qperf",), "", 0.1, "the server is gone"))
    progress.round_finished(group, 0, {"cell": [Sample("latency_mean", "s", 0, 1e-4)]})
    progress.judged(group, 6, [verdict(Status.PASS)], 1)


def test_plain_lines(group: Group) -> None:
    """A log gets a few lines per group, with what went wrong and the verdicts so far, and no control codes."""
    stream = io.StringIO()
    follow(PlainProgress(stream), group)
    name = "a_scenario_with_a_rather_long_name"
    seconds = round(group.planned(10))
    assert stream.getvalue().splitlines() == [
        f"qperf: up to 10 rounds of 2 runs, at most {seconds} s of load",
        f"  {name}-host",
        f"  {name}-runc",
        f"  round 1, {name}-host: the server is gone",
        "  round 6 of at most 10: 1 pass, 1 open",
    ]


def test_line_of_others_is_ended_once_per_group(group: Group) -> None:
    """What is said begins on a line of its own; where nothing is measured nothing is broken off."""
    ended: list[str] = []
    progress = PlainProgress(io.StringIO(), lambda: ended.append("\n"))
    assert ended == []
    follow(progress, group)
    assert ended == ["\n"]


def test_large_groups_are_abridged(group: Group) -> None:
    """A group of many runs names the first ones and counts the rest."""
    stream = io.StringIO()
    many = Group(group.name, group.slots * 6, group.looks)
    PlainProgress(stream).slot_started(many, group.slots[0], 0, 2.0)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 7
    assert lines[-1] == "  and 7 more"


def test_so_far() -> None:
    """Verdicts are counted, worst first."""
    assert so_far([verdict(Status.PASS), verdict(Status.FAIL), verdict(Status.PASS)], 0) == "1 fail, 2 pass"
    assert so_far([], 2) == "2 open"
    assert so_far([], 0) == "nothing to judge"


def on_a_pty(group: Group, monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    """What the live line writes to a terminal of so many columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    controller, terminal = pty.openpty()
    written = b""
    with os.fdopen(terminal, "w", encoding="utf-8") as stream:
        assert on_terminal(stream)
        progress = LiveProgress(stream)
        with progress.shown():
            follow(progress, group)
            progress.slot_started(group, group.slots[1], 1, 2.0)

            def drawn() -> bool:
                nonlocal written
                while select.select([controller], [], [], 0)[0]:
                    written += os.read(controller, 65536)
                return b"0.5/2.0" in written

            Deadline(10).until(drawn, "half a second of the live line")
    os.close(controller)
    return written.decode(errors="replace")


def test_live_line_follows_the_clock(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line shows tool, elapsed of planned, round, verdicts so far and cell; problems stay above it."""
    text = on_a_pty(group, monkeypatch, 120)
    assert re.search(r"qperf  ━+·+  0\.5/2\.0 s  round 2/10 \(1 pass, 1 open\)  a_scenario_with", text)
    assert "round 1, a_scenario_with_a_rather_long_name-host: the server is gone" in text


def test_live_line_stays_one_line_when_narrow(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal the bar goes and the cell's name is cut; the line never wraps."""
    text = on_a_pty(group, monkeypatch, 50)
    drawn = [line for line in re.split(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]", text) if line.startswith("qperf  ")]
    assert any(line.endswith("…") for line in drawn)
    assert all(len(line) <= 50 and "━" not in line for line in drawn)


@pytest.mark.parametrize(("name", "value"), [("CI", "1"), ("TERM", "dumb")])
def test_no_live_line_in_ci(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A terminal that belongs to CI, or can draw nothing, gets plain lines."""
    controller, terminal = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    with os.fdopen(terminal, "w") as stream:
        assert not on_terminal(stream)
    os.close(controller)
