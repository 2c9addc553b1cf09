"""Where a run happens, one module each; a target offers hosts, or recordings.

A target module has `LIVE` (whether it measures now) and `open_site(request)`, a context manager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from weighbridge.hosts import Node, Pod
from weighbridge.model import Cell
from weighbridge.runtimes import Files
from weighbridge.shell import Shell
from weighbridge.tools import Result


@dataclass(frozen=True, slots=True)
class Request:
    """What a run asks of its target."""

    run_id: str
    scenarios: Path
    """The folder of scenario files; recorded studies lie beside them."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a host can give: its processors by number, and its memory in bytes."""

    processors: tuple[int, ...]
    memory: int


@runtime_checkable
class Hosts(Protocol):
    """Bare nodes with shells, on which networks are wired and servers started."""

    @property
    def run_id(self) -> str:
        """The tag of everything that this run makes."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Two at least; the client's comes first."""

    @property
    def files(self) -> Files:
        """The file system that sandboxes see."""

    @property
    def capacity(self) -> Capacity:
        """What each host can give."""

    @property
    def burst(self) -> int:
        """Bytes that a shaped link lets pass at once, before its rate holds."""

    def shape(self, link_rate: float | None) -> None:
        """Give the link between nodes a line rate, bit/s; None leaves it unshaped."""

    def pod(self, node: Node, network: str) -> Pod:
        """A new pod of that network; the node itself where the network has no pods."""

    def remove(self, pod: Pod, network: str) -> None:
        """Take a pod of that network away again; nothing happens to a node."""

    def reserve(self, scope: str, port: int) -> int:
        """The first port from `port` on that no other stand of this run has in a namespace, or among node ports."""

    def release(self, scope: str, port: int) -> None:
        """Give a reserved port back."""

    def shell(self) -> Shell:
        """A shell outside every node, to probe with."""

    def describe(self) -> dict[str, str]:
        """What identifies these hosts: kernel, processor, link."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a tool printed (`text`), or figures somebody printed without their raw output (`results`)."""

    source: str
    text: str = ""
    results: tuple[Result, ...] | None = None
    note: str = ""
    round: int = 0
    """Recordings of the same round were made together and may be compared."""
    refuted: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose figure contradicts its neighbours, with the arithmetic."""


@runtime_checkable
class Recordings(Protocol):
    """Measurements of the past, by cell."""

    def recordings(self, cell: Cell) -> Sequence[Recording]:
        """Every recorded measurement of a cell, in the order of their rounds; none when there is none."""

    def stated_link_rate(self, cell: Cell) -> float | None:
        """The line rate between the machines, bit/s; None when nobody wrote it down."""

    def describe(self) -> dict[str, str]:
        """What is known about the machines they were made on."""


Site = Hosts | Recordings


class Target(Protocol):
    """What a module under `weighbridge.targets` offers."""

    LIVE: bool
    """Whether it measures now; recordings are judged by value."""

    def unavailable(self) -> str | None:
        """Why this target cannot be used on this machine; None when it can."""

    def open_site(self, request: Request) -> AbstractContextManager[Site]:
        """The site for the length of a run; leaving the context undoes everything."""
