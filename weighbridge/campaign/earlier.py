"""What an interrupted run left in its journal: the rounds and outcomes that a resumed run need not measure again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weighbridge.measure import Group, Measured
from weighbridge.model import PhysicalLimit, Sample, Status, Verdict


def told(measured: Measured, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What the journal keeps of a cell's outcome beside its rounds."""
    return {
        "cell": measured.cell.id,
        "problem": measured.problem,
        "evidence": measured.evidence,
        "limit": asdict(measured.limit) if measured.limit else None,
        "caveat": measured.caveat,
        "verdicts": [asdict(verdict) for verdict in verdicts],
    }


@dataclass
class Earlier:
    """Rounds by group and number, outcomes by cell."""

    rounds: dict[str, dict[int, dict[str, list[Sample]]]] = field(default_factory=dict)
    outcomes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Earlier:
        """Read the events of a journal; a round that was measured twice counts as it was last."""
        earlier = cls()
        for event in events:
            if event["event"] == "round":
                samples = {cell: [Sample(**sample) for sample in found] for cell, found in event["samples"].items()}
                earlier.rounds.setdefault(event["group"], {})[event["number"]] = samples
            elif event["event"] == "outcome":
                earlier.outcomes[event["cell"]] = event
            elif event["event"] == "site":
                earlier.environment = dict(event["environment"])
        return earlier

    def unlike(self, environment: Mapping[str, str]) -> str | None:
        """How the machine was different when the earlier rounds were measured; None when it was not.

        Rounds of two machines, or of two kernels, are no rounds of one group.
        """
        before = self.environment
        changed = [
            f"{key} was {before[key]}, is {now}" for key, now in environment.items() if before.get(key, now) != now
        ]
        return "; ".join(changed) or None

    def finished(self, group: Group) -> list[tuple[Measured, tuple[Verdict, ...]]]:
        """Every cell of a group with its verdicts, when all were written down; else nothing."""
        if any(cell.id not in self.outcomes for cell in group.cells):
            return []
        found = []
        for cell in group.cells:
            kept = self.outcomes[cell.id]
            samples = [s for _, by_cell in sorted(self._of(group).items()) for s in by_cell.get(cell.id, ())]
            measured = Measured(cell, samples, dict(kept["evidence"]))
            measured.limit = PhysicalLimit(**kept["limit"]) if kept["limit"] else None
            measured.caveat = kept.get("caveat")
            measured.problem = (Status(kept["problem"][0]), kept["problem"][1]) if kept["problem"] else None
            found.append((measured, tuple(_verdict(verdict) for verdict in kept["verdicts"])))
        return found

    def rounds_of(self, group: Group) -> dict[int, dict[str, list[Sample]]]:
        """The rounds of an unfinished group that count: whole ones, without a gap.

        A group is proven by the traffic of its stand. Where the interruption came after the round that
        might have been the last, that proof is lost with the stand, so that round is measured again.
        """
        whole: dict[int, dict[str, list[Sample]]] = {}
        everyone = {cell.id for cell in group.cells}
        for number, samples in sorted(self._of(group).items()):
            if number != len(whole) or samples.keys() != everyone:
                break
            whole[number] = samples
        if len(whole) in group.looks:
            del whole[len(whole) - 1]
        return whole

    def _of(self, group: Group) -> Mapping[int, dict[str, list[Sample]]]:
        return self.rounds.get(group.name, {})


def _verdict(kept: Mapping[str, Any]) -> Verdict:
    interval = tuple(kept["interval"]) if kept["interval"] else None
    return Verdict(**{**kept, "status": Status(kept["status"]), "interval": interval})
