"""Groups, rounds and validity: from cells to valid samples.

A group's servers stand at the same time and one is loaded at a time. A round measures every member
once, in an order shuffled from the run's seed; a round with an invalid slot is measured again whole,
blind to which member it was.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Protocol

from weighbridge.errors import InfrastructureError, ParseError, WeighbridgeError
from weighbridge.measure.group import Group, Slot, group_cells
from weighbridge.measure.validity import samples_of
from weighbridge.model import Cell, PhysicalLimit, Sample, Status
from weighbridge.stand import Reading, Stand, stand_key, stand_up
from weighbridge.targets import Site

__all__ = ["Decide", "Group", "Look", "Measured", "Observer", "Slot", "group_cells", "measure", "samples_of"]

REPEATS = 0.2
"""Share of a group's rounds that may be measured again before its bad slots are given up as invalid."""


@dataclass
class Measured:
    """What is known of one cell so far."""

    cell: Cell
    samples: list[Sample] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)
    limit: PhysicalLimit | None = None
    caveat: str | None = None
    """Why its verdicts stay inconclusive whatever the figures say, such as an emulated processor."""
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

    `done` are rounds of an earlier, interrupted run: they count and are not measured again. The order of
    a round follows from `rng` and its number alone, so a resumed run goes on as it would have gone.
    """
    known = {cell.id: Measured(cell) for cell in group.cells}
    for samples in done.values():
        for identity, kept in samples.items():
            # The earlier run may have selected more cells than this one.
            if identity in known:
                known[identity].samples.extend(kept)
    with ExitStack() as stands:
        standing = _stand_up_all(group, site, known, stands)
        _Rounds(group, site, standing, known, rng.getrandbits(64), observer, decide).run(len(done))
        for slot in group.slots:
            _take_evidence(slot, standing.get(stand_key(site, slot.cells[0])), known)
    return known


def _stand_up_all(
    group: Group, site: Site, known: Mapping[str, Measured], stands: ExitStack
) -> dict[tuple[object, ...], Stand]:
    standing: dict[tuple[object, ...], Stand] = {}
    failed: dict[tuple[object, ...], str] = {}
    caveats: dict[tuple[object, ...], str | None] = {}
    for slot in group.slots:
        cell = slot.cells[0]
        key = stand_key(site, cell)
        if key not in standing and key not in failed:
            try:
                stand = stand_up(site, cell)
                stands.callback(_close, stand)
                caveats[key], standing[key] = stand.caveat, stand
            except WeighbridgeError as error:
                failed[key] = str(error)
        if key in failed:
            _give_up(slot, known, Status.INFRA_ERROR, failed[key])
        else:
            for cell in slot.cells:
                known[cell.id].limit = standing[key].limit
                known[cell.id].caveat = caveats[key]
    return standing


def _close(stand: Stand) -> None:
    """Undo a stand; figures that were measured are not lost because something of it resists.

    What then is left goes with its lab, and the next stand that meets it says so.
    """
    with suppress(InfrastructureError):
        stand.close()


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
    seed: int
    observer: Observer
    decide: Decide

    def run(self, number: int) -> None:
        recorded = [number for stand in self.standing.values() for number in stand.rounds or ()]
        cap = max(recorded) + 1 if recorded else self.group.looks[-1]
        repeats = 0 if recorded else max(1, math.ceil(REPEATS * cap))
        attempt = 1
        looks = () if recorded else self.group.looks
        if number in looks and self.decide(Look(looks.index(number) + 1, len(looks)), self.known):
            return
        while number < cap and (slots := self.standing_slots()):
            samples, bad = self.round(slots, number, attempt, keep_bad=bool(recorded))
            if bad and repeats:
                repeats -= 1
                attempt += 1
                continue
            for slot, (status, reason) in bad:
                _give_up(slot, self.known, status, reason)
            for identity, new in samples.items():
                self.known[identity].samples.extend(new)
            self.observer.round_finished(self.group, number, samples)
            number += 1
            attempt = 1
            if number in looks and self.decide(Look(looks.index(number) + 1, len(looks)), self.known):
                return
        if not recorded:
            self.decide(Look(len(looks), len(looks)), self.known)

    def standing_slots(self) -> list[Slot]:
        return [slot for slot in self.group.slots if self.known[slot.cells[0].id].problem is None]

    def order(self, slots: Sequence[Slot], number: int, attempt: int) -> list[Slot]:
        rng = random.Random(f"{self.seed} {number} {attempt}")  # noqa: S311 - shuffles rounds, guards nothing
        return rng.sample(slots, len(slots))

    def round(
        self, slots: Sequence[Slot], number: int, attempt: int, *, keep_bad: bool
    ) -> tuple[dict[str, list[Sample]], list[tuple[Slot, tuple[Status, str]]]]:
        samples: dict[str, list[Sample]] = {}
        bad: list[tuple[Slot, tuple[Status, str]]] = []
        for slot in self.order(slots, number, attempt):
            stand = self.standing[stand_key(self.site, slot.cells[0])]
            if stand.rounds is not None and number not in stand.rounds:
                continue
            self.observer.slot_started(self.group, slot, number, slot.planned)
            reading = _read(stand, slot, number)
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


def _read(stand: Stand, slot: Slot, number: int) -> Reading:
    """One tool run; a stand that cannot even be asked is a problem of the machine, not of the run."""
    try:
        return stand.read(slot.cells[0], slot.load, number)
    except InfrastructureError as error:
        return Reading((), "", 0.0, str(error))
