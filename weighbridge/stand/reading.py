"""What a stand is to the rest of the suite, and what one run of a tool on it gave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weighbridge.model import Cell, PhysicalLimit
from weighbridge.tools import Result


@dataclass(frozen=True, slots=True)
class Reading:
    """What one tool run gave: the command, its raw output, or why there is none (`problem`)."""

    argv: tuple[str, ...]
    output: str
    elapsed: float
    problem: str | None = None
    results: tuple[Result, ...] | None = None
    live: bool = True
    """False for a recording, whose command line is not the scenario's."""
    refuted: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose figure contradicts its neighbours, with the arithmetic."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Metrics that the stand itself took in this slot: stolen CPU time, start-up and memory of a fresh server."""
    carries: float = math.inf
    """The most TCP payload (bit/s) that the link can have carried in this run."""
    cores: float | None = None
    """The CPUs that the server may use, where the cell is judged per core of its CPU limit: a small machine holds less
    than was asked for, and a runtime without limits may use all there are."""


class Stand(Protocol):
    """A server that can be loaded."""

    @property
    def limit(self) -> PhysicalLimit | None:
        """What the wire between client and server can carry, where that is known."""

    @property
    def rounds(self) -> Sequence[int] | None:
        """The rounds that were recorded; None when it can be measured again and again."""

    @property
    def caveat(self) -> str | None:
        """Why no verdict may rest on its figures although they are true; None when one may."""

    def read(self, cell: Cell, load: Any, number: int) -> Reading:
        """Run the tool once, or give the recording of round `number`."""

    def evidence(self) -> Mapping[str, str]:
        """What proves the claimed runtime and network."""

    def unproven(self) -> str | None:
        """What in the evidence contradicts the claim; None when it is proven."""

    def close(self) -> None:
        """Undo the stand."""
