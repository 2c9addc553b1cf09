"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from weighbridge.measure import Group, Slot
from weighbridge.model import Sample
from weighbridge.stand import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType


class PlainProgress:
    """A line per group and one per finished round, for logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self._group = ""

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:  # noqa: ARG002
        """Announce a group at its first run."""
        if group.name != self._group:
            self._group = group.name
            names = ", ".join(slot.name for slot in group.slots)
            most = f"up to {group.looks[-1]} rounds, {group.planned(group.looks[-1]):.0f} s"
            self._say(f"{group.slots[0].cells[0].tool}: {names} ({most})")

    def slot_read(self, group: Group, slot: Slot, number: int, attempt: int, reading: Reading) -> None:  # noqa: ARG002
        """Say what went wrong, at once."""
        if reading.problem:
            self._say(f"  round {number + 1}, {slot.name}: {reading.problem}")

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:  # noqa: ARG002
        """Count rounds where they are judged."""
        if number + 1 in group.looks:
            self._say(f"  round {number + 1} of at most {group.looks[-1]} done")

    def _say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class LiveProgress(PlainProgress):
    """One line that follows the running tool: tool, elapsed of planned, round, cell."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        follow = self._clock

        class Line(Progress):
            """A progress line that advances with the clock: most tools say nothing until they end."""

            def get_renderables(self) -> Iterator[RenderableType]:
                """Bring the line up to date, then draw it."""
                for task in self.tasks:
                    elapsed, planned = follow()
                    task.completed = min(elapsed, planned)
                    task.fields["clock"] = f"{elapsed:4.1f}/{planned:.1f} s"
                yield self.make_tasks_table(self.tasks)

        columns = (
            TextColumn("{task.fields[tool]:>7}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[clock]}"),
            TextColumn("{task.description}"),
        )
        self._planned, self._started, self._so_far = 1.0, time.monotonic(), ""
        self._bar = Line(*columns, console=Console(file=self.stream), transient=True)
        self._task = self._bar.add_task("", tool="", clock="", total=1.0)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The live line for the length of the context."""
        with self._bar:
            yield

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:
        """Follow another tool run."""
        self._planned, self._started = planned, time.monotonic()
        text = f"round {number + 1}/{group.looks[-1]}  {slot.name}"
        self._bar.update(self._task, description=text, tool=slot.cells[0].tool, total=planned)

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:
        """The line shows it already."""

    def _say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)

    def _clock(self) -> tuple[float, float]:
        return time.monotonic() - self._started, self._planned


def on_terminal(stream: TextIO) -> bool:
    """Whether a person watches: a terminal, and no CI."""
    return stream.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
