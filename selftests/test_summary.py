from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from selftests import staged
from weighbridge import scenario
from weighbridge.campaign import Outcome
from weighbridge.measure import Measured
from weighbridge.model import Cell, Status, Verdict
from weighbridge.summary import summary, whereabouts


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    path = tmp_path / "socket.toml"
    path.write_text(staged.scenario())
    return scenario.load(path).cells[0]


def outcome(cell: Cell, status: Status, reason: str, name: str = "") -> Outcome:
    """Make an outcome of one budget."""
    named = dataclasses.replace(cell, scenario=name or cell.scenario)
    budget = "latency_mean at most 1.6 x runtime=runc"
    if status in (Status.NOT_RUN, Status.INVALID):
        return Outcome(named, Measured(named, problem=(status, reason)), (Verdict(named.id, budget, status, reason),))
    return Outcome(named, Measured(named), (Verdict(named.id, budget, status, reason),))


def test_worst_first(cell: Cell) -> None:
    """Failures stand above everything; cells that did not run are counted by their reason."""
    found = [
        outcome(cell, Status.PASS, "1.2 x, n = 20"),
        outcome(cell, Status.NOT_RUN, "no such machine"),
        outcome(cell, Status.INVALID, "2 + 2 = 5 was printed"),
        outcome(cell, Status.NOT_RUN, "no such machine"),
        outcome(cell, Status.FAIL, "1.73 x, n = 20"),
    ]
    assert summary(found, 100) == [
        "fail          socket-host",
        "              latency_mean at most 1.6 x runtime=runc: 1.73 x, n = 20",
        "invalid       socket-host",
        "              2 + 2 = 5 was printed",
        "not-run       2 cells: no such machine",
        "pass          socket-host",
        "              latency_mean at most 1.6 x runtime=runc: 1.2 x, n = 20",
    ]


def test_many_passes_are_counted(cell: Cell) -> None:
    """With more than twenty cells those that pass are counted by scenario; no other row is left out."""
    found = [outcome(cell, Status.PASS, "1 x", f"scenario{number % 3}") for number in range(19)]
    found += [outcome(cell, Status.FAIL, "2 x"), outcome(cell, Status.INCONCLUSIVE, "n = 4")]
    assert summary(found, 100) == [
        "fail          socket-host",
        "              latency_mean at most 1.6 x runtime=runc: 2 x",
        "inconclusive  socket-host",
        "              latency_mean at most 1.6 x runtime=runc: n = 4",
        "pass          19 cells: scenario0 7, scenario1 6, scenario2 6",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_fits_the_terminal(cell: Cell, width: int) -> None:
    """No line is wider than the terminal, and a figure is not torn from its n."""
    reason = "1.73 x, between 1.68 x and 1.79 x with 95 % confidence after the second of five looks, n = 20"
    lines = summary([outcome(cell, Status.FAIL, reason)], width)
    assert all(len(line) <= width for line in lines)
    assert any("n = 20" in line for line in lines)


def test_empty() -> None:
    """A run that was stopped before its first verdict has no lines."""
    assert summary([], 100) == []


def test_whereabouts(tmp_path: Path) -> None:
    """Only files that exist are named, and an incomplete run tells how to go on."""
    (tmp_path / "journal.jsonl").touch()
    assert whereabouts(tmp_path, complete=True) == [f"journal: {tmp_path / 'journal.jsonl'}"]
    assert whereabouts(tmp_path, complete=False)[-1] == f"not complete; go on with --resume={tmp_path}"
