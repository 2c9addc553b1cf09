"""Writes rounds into the journal and raw output beside it, as they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weighbridge.errors import StoreError
from weighbridge.measure import Group, Slot
from weighbridge.model import Sample
from weighbridge.stand import Reading

if TYPE_CHECKING:
    from weighbridge.campaign import Campaign


@dataclass
class Recorder:
    """Writes rounds into the journal and raw output beside it, and passes everything on to the watcher."""

    campaign: Campaign

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:
        """Pass it on."""
        if self.campaign.watcher:
            self.campaign.watcher.slot_started(group, slot, number, planned)

    def slot_read(self, group: Group, slot: Slot, number: int, attempt: int, reading: Reading) -> None:
        """Keep the raw output."""
        if self.campaign.folder:
            _keep_raw(self.campaign.folder, slot, number, attempt, reading)
        if self.campaign.watcher:
            self.campaign.watcher.slot_read(group, slot, number, attempt, reading)

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Write the round into the journal."""
        found = {cell: [asdict(sample) for sample in new] for cell, new in samples.items()}
        self.campaign.record("round", {"group": group.name, "number": number, "samples": found})
        if self.campaign.watcher:
            self.campaign.watcher.round_finished(group, number, samples)


def _keep_raw(folder: Path, slot: Slot, number: int, attempt: int, reading: Reading) -> None:
    name = f"{number}" if attempt == 1 else f"{number}.attempt{attempt}"
    path = folder / "raw" / slot.name.replace("*", "all") / f"{name}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"$ {' '.join(reading.argv)}\n{reading.output}")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; make room and go on with --resume") from error
