"""The load tools, one module each: what to type, and how to read what comes back.

A tool is pure: it turns a load into an argument list and text into results. It never knows how a
command reaches a host. The module's name is the tool's key everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

Label = str | int


@dataclass(frozen=True, slots=True)
class Result:
    """One block of figures that a tool printed, in SI base units.

    `labels` tell it from its neighbours: `test`, `message_size` (bytes), `direction` (`sender`,
    `receiver`), `stream` (the tool's own stream id, or `SUM`).
    `metrics` are named as in `weighbridge.metrics`.
    """

    labels: Mapping[str, Label]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server answers."""

    host: str
    port: int
    path: str = "/"
    data_port: int | None = None
    """Where the server opens its test sockets, when only known ports are translated on the way; None leaves it free."""


class Load(BaseModel):
    """What a tool is asked to do; every tool adds its own keys, with units."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Tool(Protocol):
    """What a module under `weighbridge.tools` offers."""

    PROGRAMS: tuple[str, ...]
    """Names to look for on PATH, best first."""
    PACKAGE: str | None
    """The Debian package that brings it, None when no registry has it."""
    CLOSED_LOOP: bool
    """True where a stalled server also stalls the load, so that percentiles hide the stall."""
    METRICS: tuple[str, ...]
    """What it may print, as patterns of metric names (`latency_*`)."""
    Load: type[Any]
    """The keys of `[load]` that this tool understands (a subclass of `weighbridge.tools.Load`)."""

    def argv(self, program: str, load: Any, server: Endpoint) -> list[str]:
        """The client's command line."""

    def planned(self, load: Any) -> float:
        """How long one run should take, in seconds; the deadline is derived from it."""

    def parse(self, text: str) -> tuple[Result, ...]:
        """Every result in the output, in the order printed.

        Raises ParseError when the text is no complete, successful output of this tool, and
        ContradictionError, with the arithmetic, when its figures exclude each other.
        """

    def select(self, results: Sequence[Result], load: Any) -> Mapping[str, float]:
        """The figures that stand for one cell, whose own load is `load`."""


def needs(tool: Tool | ModuleType, load: Any) -> tuple[str, ...]:
    """What a load needs beyond TCP and UDP sockets, as keys of `weighbridge.features`.

    A tool with such loads has a function `needs(load)`; the others need nothing.
    """
    told = getattr(tool, "needs", None)
    return tuple(told(load)) if told else ()
