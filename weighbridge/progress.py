"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from weighbridge.measure import Group, Slot
from weighbridge.model import WORST_FIRST, Sample, Verdict
from weighbridge.stand import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType


_NAMED = 6
"""A log names at most so many runs of a group."""


def so_far(verdicts: Sequence[Verdict], undecided: int) -> str:
    """Verdicts counted, worst first: `1 fail, 3 pass, 2 open`."""
    counted = Counter(verdict.status for verdict in verdicts)
    parts = [f"{counted[status]} {status}" for status in WORST_FIRST if counted[status]]
    return ", ".join([*parts, *([f"{undecided} open"] if undecided else [])]) or "nothing to judge"


class PlainProgress:
    """A few lines per group, for logs: what is measured, what goes wrong, where it is judged."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self._group = ""

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:  # noqa: ARG002
        """Announce a group at its first run."""
        if group.name == self._group:
            return
        self._group = group.name
        names = [slot.name for slot in group.slots]
        seconds = group.planned(group.looks[-1])
        rounds = "1 round" if group.looks[-1] == 1 else f"up to {group.looks[-1]} rounds"
        self._say(f"{slot.cells[0].tool}: {rounds} of {len(names)} runs, at most {seconds:.0f} s of load")
        for name in names if len(names) <= _NAMED else names[: _NAMED - 1]:
            self._say(f"  {name}")
        if len(names) > _NAMED:
            self._say(f"  and {len(names) - _NAMED + 1} more")

    def slot_read(self, group: Group, slot: Slot, number: int, attempt: int, reading: Reading) -> None:  # noqa: ARG002
        """Say what went wrong, at once."""
        if reading.problem:
            self._say(f"  round {number + 1}, {slot.name}: {reading.problem}")

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Rounds are told where they are judged."""

    def judged(self, group: Group, rounds: int, verdicts: Sequence[Verdict], undecided: int) -> None:
        """Tell the verdicts so far, at each planned look."""
        self._say(f"  round {rounds} of at most {group.looks[-1]}: {so_far(verdicts, undecided)}")

    def _say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class LiveProgress(PlainProgress):
    """One line that follows the running tool: tool, elapsed of planned, round, cell."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415
        from rich.table import Column  # noqa: PLC0415

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
            TextColumn("{task.fields[tool]}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[clock]}", table_column=Column(no_wrap=True)),
            # The name gives way on a narrow terminal: one line must stay one line.
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
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
        if group.name != self._group:
            self._group, self._so_far = group.name, ""
        self._planned, self._started = planned, time.monotonic()
        text = f"round {number + 1}/{group.looks[-1]}{self._so_far}  {slot.name}"
        self._bar.update(self._task, description=text, tool=slot.cells[0].tool, total=planned)

    def judged(self, group: Group, rounds: int, verdicts: Sequence[Verdict], undecided: int) -> None:  # noqa: ARG002
        """Keep the verdicts so far in the line."""
        self._so_far = f" ({so_far(verdicts, undecided)})"

    def _say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)

    def _clock(self) -> tuple[float, float]:
        return time.monotonic() - self._started, self._planned


def on_terminal(stream: TextIO) -> bool:
    """Whether a person watches: a terminal, and no CI."""
    return stream.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
