"""The verdicts of one group: at its planned looks while it is measured, and at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from weighbridge.judge import judge
from weighbridge.measure import Group, Look, Measured, Observer
from weighbridge.model import Budget, Cell, PhysicalLimit, Status, Verdict


class Watcher(Observer, Protocol):
    """An observer that is also told the verdicts."""

    def judged(self, group: Group, rounds: int, verdicts: Sequence[Verdict], undecided: int) -> None:
        """What is decided after so many rounds, and how many budgets are still open."""


@dataclass
class Judging:
    """Judges the selected cells of a group; `elsewhere` are cells that its budgets refer to and that cannot run."""

    group: Group
    target: str
    live: bool
    """Whether the target measures now; recordings are judged by value."""
    selected: Collection[str]
    elsewhere: Mapping[str, Measured]
    watcher: Watcher | None = None
    reached: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    """The verdicts of the latest look, by cell and budget."""
    _rounds: int = 0

    def decided(self, look: Look, known: Mapping[str, Measured]) -> bool:
        """Whether every budget of the selected cells is decided at this look."""
        everything = {**self.elsewhere, **known}
        asked = [(m, budget) for m in known.values() if m.cell.id in self.selected for budget in self._budgets(m.cell)]
        found = [self._verdict(measured, budget, everything, look) for measured, budget in asked]
        self.reached = {(verdict.cell, verdict.budget): verdict for verdict in found if verdict is not None}
        undecided = sum(verdict is None for verdict in found)
        rounds = self.group.looks[min(look.number, len(self.group.looks)) - 1]
        if self.watcher and rounds != self._rounds:
            self.watcher.judged(self.group, rounds, list(self.reached.values()), undecided)
        self._rounds = rounds
        return not undecided

    def final(self, measured: Measured, known: Mapping[str, Measured]) -> tuple[Verdict, ...]:
        """The verdicts of a cell; none for a cell that was not selected.

        What was reached while measuring stands, unless the cell or the one it is compared with turned
        out to be unproven afterwards.
        """
        if measured.cell.id not in self.selected:
            return ()
        verdicts = []
        for budget in self._budgets(measured.cell):
            reached = self.reached.get((measured.cell.id, budget.text))
            if reached is None or self._problem(measured, budget, known):
                reached = self._verdict(measured, budget, known, Look(1, 1))
            assert reached is not None  # the last look leaves nothing open
            verdicts.append(reached)
        return tuple(verdicts)

    def _budgets(self, cell: Cell) -> Sequence[Budget]:
        return [budget for budget in cell.budgets if not budget.targets or self.target in budget.targets]

    def _problem(self, measured: Measured, budget: Budget, known: Mapping[str, Measured]) -> tuple[Status, str] | None:
        """Why a budget cannot be judged: there are no figures of the cell, or of the one it refers to."""
        if measured.problem is not None or budget.kind != "ratio":
            return measured.problem
        other = _reference(measured.cell, budget, known)
        return (other.problem[0], f"{other.cell.id}: {other.problem[1]}") if other.problem else None

    def _verdict(self, measured: Measured, budget: Budget, known: Mapping[str, Measured], look: Look) -> Verdict | None:
        """One verdict; None only when `look` allows more rounds."""
        if problem := self._problem(measured, budget, known):
            return Verdict(measured.cell.id, budget.text, *problem)
        figures = measured.valid(budget.metric)
        if doubt := _doubt(measured, budget.metric, all_rounds=self.live):
            return Verdict(measured.cell.id, budget.text, Status.INVALID, doubt)
        reference: Mapping[int, float] | PhysicalLimit | None = measured.limit
        caveat = measured.caveat
        if budget.kind == "ratio":
            other = _reference(measured.cell, budget, known)
            reference = other.valid(budget.metric)
            if doubt := _doubt(other, budget.metric, all_rounds=self.live):
                return Verdict(measured.cell.id, budget.text, Status.INVALID, f"{other.cell.id}: {doubt}")
            caveat = caveat or other.caveat
        # More rounds would not lift a caveat, so what it touches is decided at the first look.
        look = Look(1, 1) if caveat else look
        found = judge(budget, measured.cell.id, figures, reference, look, by_value=not self.live)
        if caveat and found is not None:
            return replace(found, status=Status.INCONCLUSIVE, reason=f"{caveat}; {found.reason}")
        return found


def _doubt(measured: Measured, metric: str, *, all_rounds: bool) -> str | None:
    """Why the figures of a metric must not be judged: there are none, or they lack the rounds that went worst.

    A round in which a server did not keep up has no latency to judge; to judge the others alone would be to pass it
    for its good rounds. Recordings are judged one by one.
    """
    doubts = [s.invalid for s in measured.samples if s.metric == metric and s.invalid]
    if not measured.valid(metric):
        return doubts[0] if doubts else f"the tool gave no {metric}"
    if all_rounds and doubts:
        return f"{len(doubts)} of {len(doubts) + len(measured.valid(metric))} rounds have no figure: {doubts[0]}"
    return None


def _reference(cell: Cell, budget: Budget, known: Mapping[str, Measured]) -> Measured:
    wanted = {**cell.axes, **budget.reference}
    for other in known.values():
        if other.cell.scenario == cell.scenario and other.cell.axes == wanted:
            return other
    raise AssertionError(f"{cell.id} was planned without {wanted}")
