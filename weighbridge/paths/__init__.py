"""How a client reaches a server, one module each: the server's own address, or an address of a service.

A path types the rules of a service on the nodes that its packets pass, and takes them away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weighbridge.hosts import Node, Pod
from weighbridge.shell import Shell


@dataclass(frozen=True, slots=True)
class Service:
    """What is to be reached: one server, the ports it listens on, and who will come."""

    name: str
    """Unique within the run; the names of rules derive from it."""
    nodes: Sequence[Node]
    client: Pod
    server: Pod
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a server that stands: the address to type, what proves that it is taken, how it is undone."""

    host: str
    connections: Callable[[], int | None]
    """Connections that its rules have translated so far; None where there is nothing to translate."""
    evidence: Mapping[str, str]
    close: Callable[[], None]
    forget: Callable[[], None] = lambda: None
    """Frees it from what earlier runs left behind, before each run of a tool; StandError when it cannot."""


class Path(Protocol):
    """What a module under `weighbridge.paths` offers."""

    PACKAGES: tuple[str, ...]
    """The Debian packages that bring what it types."""
    PORTS: range | None
    """Which ports a server may listen on to be reached this way; None leaves it the server's own."""

    TRANSLATES: bool
    """Whether rules lead the way; they know TCP and UDP ports, and nothing else."""

    def unavailable(self, shell: Shell, services: bool) -> str | None:
        """Why it cannot be made where `shell` runs, on a network that has `services` or not; None when it can."""

    def open(self, service: Service) -> Way:
        """Write its rules.

        Raises CommandError when the kernel refuses one, StandError when the way would lead past them; nothing is
        left behind then.
        """
