"""Networks and runtimes in the order of what they were measured at, beside what the repeated study says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weighbridge import metrics
from weighbridge.judge import CONFIDENCE, median_interval
from weighbridge.model import Status
from weighbridge.report.figures import DIGITS, SYMBOLS, judged, ordered, problem, unjudged, written
from weighbridge.report.tables import FIRST
from weighbridge.store import StoredCell, StoredSummary
from weighbridge.study.own import Own, OwnFigures
from weighbridge.units import FRACTION, show

RANKED = ("network", "runtime")
"""The axes whose values are ranked."""
BASE = "host"
"""The value that the others are compared with wherever it was measured: a bare link, a bare process."""
MARKS = "†‡§¶"
"""One per caveat of a table; they begin again where there are more."""
EMULATED = "emulated CPU"
"""The caveat that runs of the first schema tell in the reasons of their verdicts alone."""
UNSURE = "≈"


@dataclass(frozen=True, slots=True)
class Ranking:
    """One metric's order along one axis, for every combination of the other axes' values."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str]


def rankings(cells: Sequence[StoredCell], own: OwnFigures) -> list[Ranking]:
    """The rankings of one scenario by its main metrics; none where neither networks nor runtimes are compared.

    `cells` are all of the scenario, also those not measured; `own` the figures of the study that it repeats.
    """
    compared = [axis for axis in RANKED if len({cell.axes.get(axis) for cell in cells}) > 1]
    return [_Table(cells, axis, metric, own).ranking() for axis in compared for metric in _main(cells, own)]


def _main(cells: Sequence[StoredCell], own: OwnFigures) -> list[str]:
    """The metrics under a budget; without one those that the study prints, else the first that is there."""
    there = dict.fromkeys(sample.metric for cell in cells for sample in cell.samples)
    budgeted = {verdict.budget.split()[0] for cell in cells for verdict in cell.verdicts}
    scenarios = {cell.scenario for cell in cells}
    printed = {metric for (scenario, _, metric), figure in own.items() if scenario in scenarios and figure.printed}
    usable = [name for name in dict.fromkeys((*FIRST, *sorted(there))) if name in there and metrics.metric(name).better]
    usable = [name for name in usable if not name.startswith("errors_")]
    return next((kept for names in (budgeted, printed) if (kept := [n for n in usable if n in names])), usable[:1])


@dataclass(frozen=True)
class _Table:
    """One metric's ranking in the making."""

    cells: Sequence[StoredCell]
    axis: str
    metric: str
    own: OwnFigures

    def ranking(self) -> Ranking:
        better = metrics.metric(self.metric).better
        highest = "highest" if better == "higher" else "lowest"
        rows = [row for key, members in self.blocks.items() for row in self._block(key, members)]
        title = f"{self.axis.capitalize()}s by {self.metric}, {highest} first"
        return Ranking(title, self._headings(), rows, self._notes(rows))

    @cached_property
    def rest(self) -> list[str]:
        """The other axes that take several values."""
        axes = self.cells[0].axes
        return [axis for axis in axes if axis != self.axis and len({cell.axes[axis] for cell in self.cells}) > 1]

    @cached_property
    def blocks(self) -> dict[tuple[str, ...], list[StoredCell]]:
        """The cells that are ranked against each other, by their values of the other axes, in the order of those."""
        orders = [ordered([cell.axes[axis] for cell in self.cells]) for axis in self.rest]
        found: dict[tuple[str, ...], list[StoredCell]] = {}
        for cell in self.cells:
            found.setdefault(tuple(cell.axes[axis] for axis in self.rest), []).append(cell)
        return dict(sorted(found.items(), key=lambda item: [o.index(v) for o, v in zip(orders, item[0], strict=True)]))

    @cached_property
    def summaries(self) -> Mapping[str, StoredSummary]:
        """What may be ranked, by cell."""
        return {cell.id: summary for cell in self.cells if (summary := judged(cell, self.metric))}

    @cached_property
    def own_of(self) -> Mapping[str, Own]:
        """What the study says of each cell."""
        keyed = {cell.id: (cell.scenario, frozenset(cell.axes.items()), self.metric) for cell in self.cells}
        return {name: self.own[key] for name, key in keyed.items() if key in self.own}

    @cached_property
    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """The interval of each median that has several rounds."""
        found = {}
        for cell in self.cells:
            kept = [
                s.value for s in cell.samples if s.metric == self.metric and s.invalid is None and s.value is not None
            ]
            if cell.id in self.summaries and len(kept) > 1:
                _, low, high = median_interval(kept)
                found[cell.id] = (low, high)
        return found

    @cached_property
    def based(self) -> bool:
        """Whether ratios are to the bare host, for it was measured (or nothing was); else they are to the best."""
        hosts = [cell for cell in self.cells if cell.axes[self.axis] == BASE]
        return any(cell.id in self.summaries for cell in hosts) or bool(hosts and not self.summaries)

    @cached_property
    def limited(self) -> bool:
        """Whether a physical limit stands beside the figures."""
        return self.metric == "throughput" and any(cell.limit for cell in self.cells if cell.id in self.summaries)

    @cached_property
    def caveats(self) -> Mapping[str, str]:
        """The mark of each caveat, in the order met."""
        once = dict.fromkeys(text for cell in self.cells if (text := caveat(cell)) and cell.id in self.summaries)
        return {text: MARKS[number % len(MARKS)] for number, text in enumerate(once)}

    def _headings(self) -> list[str]:
        base = f"÷ {BASE}" if self.based else "÷ best"
        return [
            *self.rest,
            "rank",
            self.axis,
            "measured",
            *(["interval", "n"] if self.intervals else []),
            *(["physical limit", "of limit"] if self.limited else []),
            base,
            *(["study", f"study {base}"] if self.own_of else []),
        ]

    def _block(self, key: tuple[str, ...], members: Sequence[StoredCell]) -> list[list[str]]:
        sign = -1.0 if metrics.metric(self.metric).better == "higher" else 1.0
        ranked = sorted(
            (cell for cell in members if cell.id in self.summaries), key=lambda cell: sign * self._figure(cell)
        )
        missing = [cell for cell in members if cell.id not in self.summaries]
        reference = self._reference(members, ranked)
        rows = []
        for number, cell in enumerate(ranked):
            better = sum(self._figure(other) != self._figure(cell) for other in ranked[:number])
            unsure = f" {UNSURE}" if any(self._meet(other, cell) for other in ranked[:number]) else ""
            rows.append([*key, f"{better + 1}{unsure}", *self._measured(cell), *self._compared(cell, reference)])
        rows += [[*key, "–", *self._absent(cell), *self._compared(cell, reference)] for cell in missing]
        return rows

    def _figure(self, cell: StoredCell) -> float:
        return self.summaries[cell.id].median

    def _meet(self, above: StoredCell, cell: StoredCell) -> bool:
        if above.id not in self.intervals or cell.id not in self.intervals:
            return False
        (low, high), (other_low, other_high) = self.intervals[above.id], self.intervals[cell.id]
        return low <= other_high and other_low <= high

    def _reference(self, members: Sequence[StoredCell], ranked: Sequence[StoredCell]) -> StoredCell | None:
        if self.based:
            return next((cell for cell in members if cell.axes[self.axis] == BASE), None)
        trusted = [cell for cell in ranked if not caveat(cell)]
        return next(iter(trusted or ranked), None)

    def _name(self, cell: StoredCell) -> str:
        mark = self.caveats.get(caveat(cell), "")
        return f"{cell.axes[self.axis]} {mark}".strip()

    def _measured(self, cell: StoredCell) -> list[str]:
        texts = [self._name(cell), written(self._figure(cell), self.metric, cell.tool)]
        if self.intervals:
            found = self.intervals.get(cell.id)
            texts.append(" … ".join(written(v, self.metric, cell.tool) for v in found) if found else "–")
            texts.append(str(self.summaries[cell.id].n))
        if self.limited:
            limit = cell.limit.throughput if cell.limit else None
            texts.append(written(limit, self.metric, cell.tool) if limit else "–")
            texts.append(show(self._figure(cell) / limit, FRACTION, digits=DIGITS) if limit else "–")
        return texts

    def _absent(self, cell: StoredCell) -> list[str]:
        """A cell without a figure to rank: why, and what was taken all the same in brackets."""
        doubts = [s.invalid for s in cell.samples if s.metric == self.metric and s.invalid]
        reason = problem(cell) or (doubts[0] if doubts else f"{cell.tool} gave no {self.metric}")
        status = Status(cell.status) if problem(cell) else Status.INVALID
        taken = unjudged(cell, self.metric)
        figure = f" [{written(taken, self.metric, cell.tool)}]" if taken is not None else ""
        blank = ["–"] * (2 * bool(self.intervals) + 2 * self.limited)
        return [cell.axes[self.axis], f"{SYMBOLS[status]} {status}{figure}: {reason}", *blank]

    def _compared(self, cell: StoredCell, reference: StoredCell | None) -> list[str]:
        """The ratio to the reference; the study's figure and its ratio to the same value of the axis."""
        mine, base = (self.summaries.get(c.id) if c else None for c in (cell, reference))
        texts = [_ratio(mine.median if mine else None, base.median if base else None)]
        if self.own_of:
            study, other = (self.own_of.get(c.id) if c else None for c in (cell, reference))
            texts += [self._told(study, cell.tool), _own_ratio(study, other)]
        return texts

    def _told(self, own: Own | None, tool: str) -> str:
        if own is None:
            return "–"
        printed = ", ".join(own.printed)
        if own.output is None:
            return f"{printed} (its output is refused)" if own.refused else printed
        output = written(own.output, self.metric, tool)
        return f"{printed} (its output: {output})" if printed else f"{output} (from its output)"

    def _notes(self, rows: Sequence[Sequence[str]]) -> list[str]:
        notes = [f"{mark} {text}: no verdict rests on this figure." for text, mark in self.caveats.items()]
        if not self.intervals and len(self.summaries) > 1:
            notes.append("One figure each: their order may be chance.")
        if self.intervals:
            notes.append(
                f"Interval: {CONFIDENCE:.0%} of the median, by the sign test; the whole range of fewer than six rounds."
            )
        if any(UNSURE in row[len(self.rest)] for row in rows):
            notes.append(f"{UNSURE} Its interval meets that of a row above: their order may be chance.")
        return notes


def caveat(cell: StoredCell) -> str:
    """Why no verdict may rest on a cell's figures although they are true; '' when one may."""
    if cell.caveat:
        return cell.caveat
    return EMULATED if any(v.reason.startswith(f"{EMULATED};") for v in cell.verdicts) else ""


def _ratio(figure: float | None, base: float | None) -> str:
    if figure is None or base is None or base <= 0 or not math.isfinite(figure / base):
        return "–"
    return show(figure / base, "1", digits=3)


def _own_ratio(own: Own | None, base: Own | None) -> str:
    """The ratio of what is printed, and that of the outputs where they contradict either figure."""
    if own is None or base is None:
        return "–"
    printed = _ratio(own.value, base.value)
    if own.output is None and base.output is None:
        return printed
    outputs = _ratio(*(figure.value if figure.output is None else figure.output for figure in (own, base)))
    return f"{printed} (outputs: {outputs})" if own.printed and base.printed else outputs
