"""Ctrl-C and SIGTERM while a run measures: one orderly end, which a second signal cannot break."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a run exactly as Ctrl-C does."""


class Interrupts:
    """Turns the first SIGINT or SIGTERM into an exception and ignores the others while the run is undone.

    SIGINT is taken up even where a shell started the run in the background and had it ignored: whoever
    sends it to a measuring process means it. Undoing is bounded by its own deadlines, and SIGKILL always works,
    since the kernel undoes the lab.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number, as shells count; None when there was no signal."""
        return None if self.received is None else 128 + self.received

    def install(self) -> None:
        """Take both signals over."""
        for number in _SIGNALS:
            self._before.setdefault(number, signal.getsignal(number))
            signal.signal(number, self._end)

    def defer(self) -> None:
        """Note further signals instead of raising: what is being undone or written must get done."""
        for number in self._before:
            signal.signal(number, self._note)

    def restore(self) -> None:
        """Give both signals back to whoever had them."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        if self.received is None:
            self.received = number

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._note(number, frame)
        self.defer()
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated
