"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from weighbridge.measure import Group, Slot
from weighbridge.model import WORST_FIRST, Sample, Verdict
from weighbridge.stand import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType


_BAR, _WIDE = 16, 80
_NAMED = 6
"""A log names at most so many runs of a group."""


def so_far(verdicts: Sequence[Verdict], undecided: int) -> str:
    """Verdicts counted, worst first: `1 fail, 3 pass, 2 open`."""
    counted = Counter(verdict.status for verdict in verdicts)
    parts = [f"{counted[status]} {status}" for status in WORST_FIRST if counted[status]]
    return ", ".join([*parts, *([f"{undecided} open"] if undecided else [])]) or "nothing to judge"


class PlainProgress:
    """A few lines per group, for logs: what is measured, what goes wrong, where it is judged."""

    def __init__(self, stream: TextIO | None = None, new_line: Callable[[], None] = lambda: None) -> None:
        self.stream = stream or sys.stdout
        self._group = ""
        self._new_line = new_line
        """Ends the line that others have begun, when there is something to say below it."""

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:  # noqa: ARG002
        """Announce a group at its first run."""
        if group.name == self._group:
            return
        self._group = group.name
        self._new_line()
        names = [slot.name for slot in group.slots]
        seconds = group.planned(group.looks[-1])
        rounds = "1 round" if group.looks[-1] == 1 else f"up to {group.looks[-1]} rounds"
        runs = "1 run" if len(names) == 1 else f"{len(names)} runs"
        self._say(f"{slot.cells[0].tool}: {rounds} of {runs}, at most {seconds:.0f} s of load")
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
    """One line that follows the running tool: tool, elapsed of planned, round, verdicts so far, cell."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for rich
        from rich.live import Live  # noqa: PLC0415

        self._tool, self._text, self._so_far = "", "standing up", ""
        self._planned, self._started = 0.0, time.monotonic()
        # Most tools say nothing until they end, so the line follows the clock.
        self._console = Console(file=self.stream)
        self._live = Live(console=self._console, get_renderable=self._line, refresh_per_second=10, transient=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The live line for the length of the context."""
        with self._live:
            yield

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:
        """Follow another tool run."""
        if group.name != self._group:
            self._group, self._so_far = group.name, ""
        self._planned, self._started = planned, time.monotonic()
        self._tool = slot.cells[0].tool
        self._text = f"round {number + 1}/{group.looks[-1]}{self._so_far}  {slot.name}"

    def judged(self, group: Group, rounds: int, verdicts: Sequence[Verdict], undecided: int) -> None:  # noqa: ARG002
        """Keep the verdicts so far in the line."""
        self._so_far = f" ({so_far(verdicts, undecided)})"

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def _line(self) -> RenderableType:
        """The line as it is now; on a narrow terminal the bar goes first, then the end of the cell's name."""
        from rich.text import Text  # noqa: PLC0415

        elapsed = time.monotonic() - self._started
        done = int(_BAR * min(elapsed / self._planned, 1.0)) if self._planned else 0
        bar = f"{'━' * done:·<{_BAR}}  " if self._console.width >= _WIDE else ""
        clock = f"{elapsed:.1f}/{self._planned:.1f} s  " if self._planned else ""
        return Text(f"{self._tool}  {bar}{clock}{self._text}".strip(), no_wrap=True, overflow="ellipsis")


def on_terminal(stream: TextIO) -> bool:
    """Whether a person watches: a terminal, and no CI."""
    return stream.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
