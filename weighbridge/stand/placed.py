"""What of a cell's wishes a machine can meet: processors for client and server, limits scaled to its size."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weighbridge.model import Cell, Limits
from weighbridge.targets import Capacity


@dataclass(frozen=True, slots=True)
class Placement:
    """The processors that client and server are kept on, as `taskset --cpu-list` takes them; None is free."""

    client: str | None = None
    server: str | None = None

    @property
    def text(self) -> str:
        """In a reader's words."""
        return f"client {self.client}, server {self.server}" if self.client else "free"


def unavailable(cell: Cell, capacity: Capacity) -> str | None:
    """Why client and server cannot be placed as asked; None when they can."""
    if cell.cpus == "split" and len(capacity.processors) < 2:
        return "cpus = split needs two processors, and this machine has one"
    return None


def place(cell: Cell, capacity: Capacity) -> Placement:
    """Where client and server run.

    `shared` is one processor for both, the last, since interrupts tend to meet the first; `split` gives each
    half of the machine.
    """
    processors = [str(number) for number in capacity.processors]
    if cell.cpus == "shared":
        return Placement(processors[-1], processors[-1])
    if cell.cpus == "split":
        half = len(processors) // 2
        return Placement(",".join(processors[:half]), ",".join(processors[half:]))
    return Placement()


def scaled(limits: Limits, capacity: Capacity) -> Limits:
    """The same limits, no larger than the machine: a limit of 60 CPUs on two binds nothing, and says nothing."""
    return replace(
        limits,
        cpu=_at_most(limits.cpu, len(capacity.processors)),
        memory=_at_most(limits.memory, capacity.memory),
        request_cpu=_at_most(limits.request_cpu, len(capacity.processors)),
        request_memory=_at_most(limits.request_memory, capacity.memory),
    )


def _at_most(asked: float | None, most: float) -> float | None:
    return None if asked is None else min(asked, most)
