"""A stand of the past: the recordings of one slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weighbridge.model import Cell, PhysicalLimit
from weighbridge.stand.reading import Reading
from weighbridge.targets import Recording


@dataclass(frozen=True)
class RecordedStand:
    """The recordings of one slot, by round."""

    found: Mapping[int, Recording]
    limit: PhysicalLimit | None
    caveat: str | None = None

    @property
    def rounds(self) -> Sequence[int] | None:
        """The rounds that were recorded."""
        return tuple(self.found)

    def read(self, cell: Cell, load: Any, number: int) -> Reading:  # noqa: ARG002 - recorded with what load it was
        """The recording of round `number`."""
        recording = self.found[number]
        return Reading(
            (recording.source,), recording.text, 0.0, None, recording.results, live=False, refuted=recording.refuted
        )

    def evidence(self) -> Mapping[str, str]:
        """Where the figures come from and what was said of them."""
        notes = dict.fromkeys(recording.note for recording in self.found.values() if recording.note)
        sources = ", ".join(recording.source for recording in self.found.values())
        return {"recorded": sources, **({"note": "; ".join(notes)} if notes else {})}

    def unproven(self) -> str | None:
        """A recording cannot be proven or disproven."""
        return None

    def close(self) -> None:
        """Nothing stands."""
