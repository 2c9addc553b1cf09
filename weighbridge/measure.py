"""Groups, rounds and validity: from cells to valid samples.

A group's servers stand at the same time and one is loaded at a time. A round measures every member
once, in an order shuffled from the run's seed; a round with an invalid slot is measured again whole,
blind to which member it was.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from weighbridge import metrics, registry
from weighbridge.errors import ParseError, WeighbridgeError
from weighbridge.model import Cell, PhysicalLimit, Sample, Status, cell_id
from weighbridge.stand import Reading, Stand, stand_key, stand_up
from weighbridge.targets import Site

DURATION_REACHED = 0.95
"""A tool that stopped before this share of the time asked for did not measure what was asked."""
REPEATS = 0.2
"""Share of a group's rounds that may be measured again before its bad slots are given up as invalid."""
RATE_REACHED = 0.99
"""Below this share of the rate asked for, a fixed-rate run is saturated."""


_ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout", "errors_http", "errors_exception")


@dataclass(frozen=True, slots=True)
class Slot:
    """Cells measured by one run of the tool (several where the tool sweeps an axis)."""

    cells: tuple[Cell, ...]

    @property
    def load(self) -> Any:
        """The tool's load for the whole slot."""
        first = self.cells[0]
        if first.sweep is None or len(self.cells) == 1:
            return first.load
        tool = registry.find("tools", first.tool)
        return tool.Load.model_validate(
            {**first.load_text, first.sweep: [cell.axes[first.sweep] for cell in self.cells]}
        )

    @property
    def planned(self) -> float:
        """How long one run should take, in seconds."""
        return float(registry.find("tools", self.cells[0].tool).planned(self.load))

    @property
    def name(self) -> str:
        """The slot as a reader knows it: its cell, with a `*` for the swept axis."""
        first = self.cells[0]
        if len(self.cells) == 1:
            return first.id
        return cell_id(first.scenario, {**first.axes, str(first.sweep): "*"})


@dataclass(frozen=True, slots=True)
class Group:
    """Slots that budgets compare, and after how many rounds they are judged."""

    name: str
    slots: tuple[Slot, ...]
    looks: tuple[int, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of the group."""
        return tuple(cell for slot in self.slots for cell in slot.cells)

    def planned(self, rounds: int) -> float:
        """How long `rounds` rounds should take, in seconds, without stand-up."""
        return rounds * sum(slot.planned for slot in self.slots)


@dataclass
class Measured:
    """What is known of one cell so far."""

    cell: Cell
    samples: list[Sample] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)
    limit: PhysicalLimit | None = None
    problem: tuple[Status, str] | None = None
    """Why there are no figures: invalid, infra-error or not-run, with the reason."""

    def valid(self, metric: str) -> dict[int, float]:
        """The valid samples of a metric, by round."""
        return {
            s.round: s.value for s in self.samples if s.metric == metric and s.invalid is None and s.value is not None
        }


@dataclass(frozen=True, slots=True)
class Look:
    """The `number`th of `planned` looks at a group's samples (from 1)."""

    number: int
    planned: int

    @property
    def last(self) -> bool:
        """Whether no more rounds may follow."""
        return self.number >= self.planned


class Observer(Protocol):
    """Who is told what happens: the journal and the progress display."""

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:
        """A tool run begins."""

    def slot_read(self, group: Group, slot: Slot, number: int, attempt: int, reading: Reading) -> None:
        """A tool run ended; the raw output is kept whatever it is worth."""

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:
        """A round is complete; its samples (by cell id) are final."""


Decide = Callable[[Look, Mapping[str, Measured]], bool]
"""Given which planned look this is and what is known of every cell: whether every budget is decided."""


def group_cells(
    selected: Iterable[Cell], references: Mapping[str, Sequence[Cell]], looks: Mapping[str, tuple[int, ...]]
) -> tuple[Group, ...]:
    """Put cells together with those their budgets refer to; connected cells form one group.

    `looks` are the planned looks by scenario. Cells that one tool run sweeps stay together.
    """
    cells: dict[str, Cell] = {}
    parent: dict[str, str] = {}

    def root(identity: str) -> str:
        while parent[identity] != identity:
            identity = parent[identity]
        return identity

    def add(cell: Cell) -> str:
        cells.setdefault(cell.id, cell)
        parent.setdefault(cell.id, cell.id)
        return cell.id

    by_slot: dict[tuple[object, ...], str] = {}
    for cell in selected:
        for other in (cell, *references.get(cell.id, ())):
            add(other)
            first = by_slot.setdefault(other.slot_key, other.id)
            parent[root(other.id)] = root(first)
            parent[root(other.id)] = root(cell.id)
    components: dict[str, list[Cell]] = {}
    for identity, cell in cells.items():
        components.setdefault(root(identity), []).append(cell)
    return tuple(_group(members, looks) for members in components.values())


def _group(members: Sequence[Cell], looks: Mapping[str, tuple[int, ...]]) -> Group:
    slots: dict[tuple[object, ...], list[Cell]] = {}
    for cell in members:
        slots.setdefault(cell.slot_key, []).append(cell)
    made = tuple(Slot(tuple(cells)) for cells in slots.values())
    return Group(members[0].id, made, looks[members[0].scenario])


def measure(
    group: Group,
    site: Site,
    rng: random.Random,
    *,
    observer: Observer,
    decide: Decide,
    done: Mapping[int, Mapping[str, Sequence[Sample]]],
) -> dict[str, Measured]:
    """Measure a group until its budgets are decided or its rounds are used up.

    `done` are rounds of an earlier, interrupted run: they count and are not measured again.
    """
    known = {cell.id: Measured(cell) for cell in group.cells}
    for samples in done.values():
        for identity, kept in samples.items():
            known[identity].samples.extend(kept)
    with ExitStack() as stands:
        standing = _stand_up_all(group, site, known, stands)
        _Rounds(group, site, standing, known, rng, observer, decide).run(len(done))
        for slot in group.slots:
            _take_evidence(slot, standing.get(stand_key(site, slot.cells[0])), known)
    return known


def _stand_up_all(
    group: Group, site: Site, known: Mapping[str, Measured], stands: ExitStack
) -> dict[tuple[object, ...], Stand]:
    standing: dict[tuple[object, ...], Stand] = {}
    failed: dict[tuple[object, ...], str] = {}
    for slot in group.slots:
        cell = slot.cells[0]
        key = stand_key(site, cell)
        if key not in standing and key not in failed:
            try:
                standing[key] = stand_up(site, cell)
                stands.callback(standing[key].close)
            except WeighbridgeError as error:
                failed[key] = str(error)
        if key in failed:
            _give_up(slot, known, Status.INFRA_ERROR, failed[key])
        else:
            for cell in slot.cells:
                known[cell.id].limit = standing[key].limit
    return standing


def _give_up(slot: Slot, known: Mapping[str, Measured], status: Status, reason: str) -> None:
    for cell in slot.cells:
        known[cell.id].problem = (status, reason)


def _take_evidence(slot: Slot, stand: Stand | None, known: Mapping[str, Measured]) -> None:
    if stand is None:
        return
    try:
        evidence, unproven = stand.evidence(), stand.unproven()
    except WeighbridgeError as error:
        evidence, unproven = {}, f"no evidence: {error}"
    for cell in slot.cells:
        measured = known[cell.id]
        measured.evidence = dict(evidence)
        if unproven and measured.problem is None:
            measured.problem = (Status.INVALID, f"unproven: {unproven}")


@dataclass
class _Rounds:
    """The rounds of one group."""

    group: Group
    site: Site
    standing: Mapping[tuple[object, ...], Stand]
    known: Mapping[str, Measured]
    rng: random.Random
    observer: Observer
    decide: Decide

    def run(self, number: int) -> None:
        recorded = [number for stand in self.standing.values() for number in stand.rounds or ()]
        cap = max(recorded) + 1 if recorded else self.group.looks[-1]
        attempts = 1 if recorded else 1 + max(1, math.ceil(REPEATS * cap))
        attempt = 1
        looks = () if recorded else self.group.looks
        if number in looks and self.decide(Look(looks.index(number) + 1, len(looks)), self.known):
            return
        while number < cap and (slots := self.standing_slots()):
            samples, bad = self.round(slots, number, attempt, keep_bad=bool(recorded))
            if bad and attempt < attempts:
                attempt += 1
                continue
            for slot, (status, reason) in bad:
                _give_up(slot, self.known, status, reason)
            for identity, new in samples.items():
                self.known[identity].samples.extend(new)
            self.observer.round_finished(self.group, number, samples)
            number += 1
            if number in looks and self.decide(Look(looks.index(number) + 1, len(looks)), self.known):
                return
        if not recorded:
            self.decide(Look(len(looks), len(looks)), self.known)

    def standing_slots(self) -> list[Slot]:
        return [slot for slot in self.group.slots if self.known[slot.cells[0].id].problem is None]

    def round(
        self, slots: Sequence[Slot], number: int, attempt: int, *, keep_bad: bool
    ) -> tuple[dict[str, list[Sample]], list[tuple[Slot, tuple[Status, str]]]]:
        samples: dict[str, list[Sample]] = {}
        bad: list[tuple[Slot, tuple[Status, str]]] = []
        for slot in self.rng.sample(slots, len(slots)):
            stand = self.standing[stand_key(self.site, slot.cells[0])]
            if stand.rounds is not None and number not in stand.rounds:
                continue
            load = slot.load
            self.observer.slot_started(self.group, slot, number, slot.planned)
            reading = stand.read(slot.cells[0], load, number)
            self.observer.slot_read(self.group, slot, number, attempt, reading)
            if reading.problem:
                bad.append((slot, (Status.INFRA_ERROR, reading.problem)))
                continue
            try:
                found = samples_of(slot, reading, number)
            except ParseError as error:
                bad.append((slot, (Status.INVALID, error.reason)))
                continue
            reasons = [
                s.invalid for new in found.values() for s in new if s.invalid and not s.metric.startswith("latency")
            ]
            if reasons and not keep_bad:
                bad.append((slot, (Status.INVALID, reasons[0])))
            else:
                samples.update(found)
        return samples, bad


def samples_of(slot: Slot, reading: Reading, number: int) -> dict[str, list[Sample]]:
    """The samples of every cell of a slot; each says why it must not be judged, if so.

    Raises ParseError when the output is no trustworthy figure.
    """
    tool = registry.find("tools", slot.cells[0].tool)
    results = tool.parse(reading.output) if reading.results is None else reading.results
    samples = {}
    for cell in slot.cells:
        figures = results[0].metrics if reading.results is not None else tool.select(results, cell.load)
        figures = dict(figures)
        if cell.per_core and "request_rate" in figures:
            figures["request_rate_per_core"] = figures["request_rate"] / cell.per_core
        whole = _too_many_errors(cell, figures) or (_cut_short(cell, figures) if reading.live else None)
        latency = _saturated(cell, figures)
        samples[cell.id] = [
            Sample(
                name,
                metrics.metric(name).unit,
                number,
                value,
                whole or (latency if name.startswith("latency") else None),
            )
            for name, value in figures.items()
        ]
    return samples


def _too_many_errors(cell: Cell, figures: Mapping[str, float]) -> str | None:
    errors, requests = sum(figures.get(name, 0.0) for name in _ERRORS), figures.get("requests", 0.0)
    if requests and errors > cell.tolerated_errors * requests:
        return f"{errors:.0f} errors in {requests:.0f} requests, more than {cell.tolerated_errors * 100:.3g} %"
    return None


def _cut_short(cell: Cell, figures: Mapping[str, float]) -> str | None:
    asked, lasted = getattr(cell.load, "duration", None), figures.get("duration")
    if asked and lasted and lasted < DURATION_REACHED * asked:
        return f"ended after {lasted:g} s of {asked:g} s"
    return None


def _saturated(cell: Cell, figures: Mapping[str, float]) -> str | None:
    asked, reached = getattr(cell.load, "rate", None), figures.get("request_rate")
    if asked and reached and reached < RATE_REACHED * asked:
        return f"saturated: {reached:.0f}/s of {asked:.0f}/s reached, so latency is not judged"
    return None
