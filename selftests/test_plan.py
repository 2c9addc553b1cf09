from __future__ import annotations

import io
from pathlib import Path

import pytest

from selftests import staged
from weighbridge.campaign import Campaign, Settings
from weighbridge.model import Cell
from weighbridge.plan import show_plan

BUDGET = '[[budgets]]\nmetric = "latency_mean"\nwhere = { runtime = "runc" }\nat_most = "2 x runtime=host"\n'


def planned(monkeypatch: pytest.MonkeyPatch, folder: Path, *, missing: str = "") -> list[str]:
    """Plan the runc cell of a scenario in the lab; `missing` is a runtime that it lacks."""
    (folder / "socket.toml").write_text(staged.scenario(runtimes=("host", "runc"), budgets=BUDGET))
    campaign = Campaign(Settings(folder, folder, target="lab"))

    def unavailable(cell: Cell) -> str | None:
        return "not installed" if cell.axes["runtime"] == missing else None

    monkeypatch.setattr(campaign, "unavailable", unavailable)
    campaign.select(cell for cell in campaign.cells("staged") if cell.axes["runtime"] == "runc")
    stream = io.StringIO()
    show_plan(campaign, stream)
    return stream.getvalue().splitlines()


def test_cells_commands_and_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The plan has every cell with its command, tells references apart, and sums up what is measured."""
    lines = planned(monkeypatch, tmp_path)
    assert lines[1].startswith("6 to 10 rounds, ")
    assert "  socket-runc" in lines
    assert "  socket-host  (only as a reference)" in lines
    assert sum(line.startswith("      $ qperf ") for line in lines) == 2
    assert lines[-1].startswith("1 cells, 1 groups, at most ")


def test_what_is_skipped_takes_no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cell that cannot run is listed with its reason, has no command and adds nothing to the time."""
    whole, part = planned(monkeypatch, tmp_path), planned(monkeypatch, tmp_path, missing="host")
    assert part[part.index("skipped: not installed") + 1] == "  socket-host"
    assert sum(line.startswith("      $ ") for line in part) == 1
    assert seconds(part) == pytest.approx(seconds(whole) / 2, abs=1)


def test_references_alone_take_no_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no selected cell can run, the cells that they refer to are not planned either."""
    lines = planned(monkeypatch, tmp_path, missing="runc")
    assert not any(line.startswith("      $ ") for line in lines)
    assert seconds(lines) == 0


def seconds(lines: list[str]) -> float:
    """Read the predicted time from the last line."""
    return float(lines[-1].split(" at most ")[1].split()[0])
