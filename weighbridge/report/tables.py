"""The figures of one scenario as tables: the compared axis side by side, everything else as rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weighbridge import metrics
from weighbridge.model import STRUCTURAL_AXES, Status
from weighbridge.report.evidence import RawFolder, proofs
from weighbridge.report.figures import SYMBOLS, judged, ordered, unit_of, unjudged, written
from weighbridge.store import StoredCell
from weighbridge.units import show

FIRST = (
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "throughput",
    "request_rate",
    "request_rate_per_core",
    "round_trip_time_mean",
    "packet_loss",
    "jitter",
    *metrics.OF_THE_STAND,
)
"""What a table shows of a cell, in this order; the rest stays in run.json."""

_FULL = 0.7
"""Share of places that must be filled for values to stand side by side; a sparser table is a list of cells."""

_COMPARED_WITH = re.compile(r" x (\w+)=")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A scenario's figures: what holds everywhere, and the table of what differs."""

    everywhere: str
    headings: list[str]
    rows: list[list[str]]
    compared: str
    limits: list[str]
    proofs: list[list[str]]
    rounds: str
    percentiles: bool


def compare(cells: Sequence[StoredCell], raw: RawFolder) -> Comparison:
    """The figures of one scenario's measured cells."""
    axes = {axis: ordered([cell.axes[axis] for cell in cells]) for axis in cells[0].axes}
    varying = [axis for axis, values in axes.items() if len(values) > 1]
    side = _compared(cells, varying)
    # A server that is not started anew every round has one start-up; that must not hide how many rounds the rest has.
    summaries = [s for cell in cells for s in cell.summary]
    counts = {s.n for s in summaries if s.metric not in metrics.OF_THE_STAND} or {s.n for s in summaries}
    write = _Writer(next(iter(counts)) if len(counts) == 1 else None)
    shown = _columns(cells)
    found = _sorted(cells, axes)
    if side:
        rest = [axis for axis in varying if axis != side]
        headings = ["metric", *rest, *axes[side]]
        rows = _side_by_side(found, shown, (side, axes[side]), rest, write)
    else:
        headings = [*varying, *shown]
        rows = [
            [*(cell.axes[axis] for axis in varying), *(write.figure(cell, name) for name in shown)] for cell in found
        ]
    return Comparison(
        everywhere=", ".join(_named(axis, values[0]) for axis, values in axes.items() if len(values) == 1),
        headings=headings,
        rows=rows,
        compared=side,
        limits=_limits(found, varying),
        proofs=proofs(found, [short_name(cell, varying) for cell in found], raw),
        rounds=f"{counts.pop()}" if len(counts) == 1 else "",
        percentiles=any(name.startswith("latency_p") for name in shown),
    )


def short_name(cell: StoredCell, axes: Sequence[str]) -> str:
    """A cell by the values of these axes, or by its scenario where there are none."""
    return " ".join(_named(axis, cell.axes[axis]) for axis in axes) or cell.scenario


def _named(axis: str, value: str) -> str:
    """A value that says what it is: a bare number needs the name of its axis."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+", value) or axis not in STRUCTURAL_AXES else value


def _compared(cells: Sequence[StoredCell], varying: Sequence[str]) -> str:
    """The axis that ratio budgets compare along, else the first of what is stood up; '' when nothing is compared."""
    asked = [axis for cell in cells for v in cell.verdicts for axis in _COMPARED_WITH.findall(v.budget)]
    side = next((axis for axis in (*asked, *STRUCTURAL_AXES) if axis in varying), "")
    rows = {tuple(cell.axes[axis] for axis in varying if axis != side) for cell in cells}
    values = {cell.axes[side] for cell in cells} if side else set()
    return side if len(cells) >= _FULL * len(rows) * len(values) else ""


def _sorted(cells: Sequence[StoredCell], axes: Mapping[str, Sequence[str]]) -> list[StoredCell]:
    return sorted(cells, key=lambda cell: [list(values).index(cell.axes[axis]) for axis, values in axes.items()])


def _side_by_side(
    cells: Sequence[StoredCell],
    shown: Sequence[str],
    compared: tuple[str, Sequence[str]],
    rest: Sequence[str],
    write: _Writer,
) -> list[list[str]]:
    side, values = compared
    by_row: dict[tuple[str, ...], dict[str, StoredCell]] = {}
    for cell in cells:
        by_row.setdefault(tuple(cell.axes[axis] for axis in rest), {})[cell.axes[side]] = cell
    rows = []
    for name in shown:
        for key, members in by_row.items():
            figures = [write.figure(members[value], name) if value in members else "" for value in values]
            if any(figures):
                rows.append([name, *key, *figures])
    return rows


def _columns(cells: Sequence[StoredCell]) -> list[str]:
    """The main metrics, those under a budget, and errors where there were any."""
    present = dict.fromkeys(sample.metric for cell in cells for sample in cell.samples)
    budgeted = [verdict.budget.split()[0] for cell in cells for verdict in cell.verdicts]
    errors = [s.metric for cell in cells for s in cell.samples if s.metric.startswith("errors_") and s.value]
    return [name for name in dict.fromkeys([*FIRST, *budgeted, *sorted(errors)]) if name in present]


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes figures of so many rounds, in a tool's customary units."""

    rounds: int | None
    """How many valid samples a figure has where it does not say so; None where each has to."""

    def figure(self, cell: StoredCell, name: str) -> str:
        """Median and range of the valid samples, with the limit and the verdict; brackets around what is not judged."""
        summary = judged(cell, name)
        if summary is None:
            doubtful = unjudged(cell, name)
            shown = [] if doubtful is None else [f"[{written(doubtful, name, cell.tool)}]"]
            return " ".join([*shown, *_marks(cell, name)])
        text, *spread = (written(v, name, cell.tool) for v in (summary.median, summary.low, summary.high))
        notes = [f"{spread[0]} … {spread[1]}"] if spread[0] != spread[1] else []
        if summary.n != self.rounds and (summary.n > 1 or self.rounds is not None):
            notes.append(f"n = {summary.n}")
        if name == "throughput" and cell.limit:
            share = summary.median / cell.limit.throughput
            notes.append(f"{share:.1%} of {show(cell.limit.throughput, summary.unit, unit_of(cell.tool, name))}")
        return " ".join([text, *([f"({'; '.join(notes)})"] if notes else []), *_marks(cell, name)])


def _marks(cell: StoredCell, name: str) -> list[str]:
    """The symbols of the verdicts on one metric of a cell."""
    return list(dict.fromkeys(SYMBOLS[Status(v.verdict)] for v in cell.verdicts if v.budget.split()[0] == name))


def _limits(cells: Sequence[StoredCell], varying: Sequence[str]) -> list[str]:
    """Each physical limit once, with its arithmetic and the cells it holds for."""
    found: dict[tuple[float, str], list[StoredCell]] = {}
    for cell in cells:
        if cell.limit and any(sample.metric == "throughput" for sample in cell.samples):
            found.setdefault((cell.limit.throughput, cell.limit.formula), []).append(cell)
    return [
        f"{show(value, 'bit/s')} = {formula}" + (f" ({_common(members, varying)})" if len(found) > 1 else "")
        for (value, formula), members in found.items()
    ]


def _common(cells: Sequence[StoredCell], varying: Sequence[str]) -> str:
    """The axis values that cells have and others of the scenario need not have."""
    values: dict[str, dict[str, Any]] = {axis: dict.fromkeys(cell.axes[axis] for cell in cells) for axis in varying}
    fewest = min(varying, key=lambda axis: len(values[axis]))
    return ", ".join(values[fewest])
