"""The servers under load, one module each: what to start, on which port, with which files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Server(Protocol):
    """What a module under `weighbridge.servers` offers."""

    PROGRAMS: tuple[str, ...]
    """Names to look for on PATH, best first."""
    TOOLS: tuple[str, ...]
    """The tools that can measure it; the host of every server answers ping."""
    PACKAGE: str
    """The Debian package that brings it."""
    PORT: int
    """Where it usually listens; a second one in the same namespace takes the next."""
    DATA_PORTS: int
    """How many more ports its clients meet it on."""
    KNOCK: bool
    """Whether a client that connects and leaves at once does it no harm."""

    def argv(self, program: str, port: int, workdir: str, load: Any) -> list[str]:
        """Its command line, staying in the foreground."""

    def files(self, port: int, workdir: str) -> Mapping[str, str]:
        """The files it needs, path to content."""

    def transport(self, load: Any) -> str:
        """`tcp` or `udp`: which kind of socket shows that it is ready."""

    def single_use(self, load: Any) -> bool:
        """Whether every run of the tool needs a server of its own."""


def no_files(port: int, workdir: str) -> Mapping[str, str]:  # noqa: ARG001 - a server's `files`
    """The server needs none."""
    return {}


def over_tcp(load: Any) -> str:  # noqa: ARG001 - a server's `transport`
    """Whatever the load measures, clients first meet the server over TCP."""
    return "tcp"


def serves_on(load: Any) -> bool:  # noqa: ARG001 - a server's `single_use`
    """The server takes one client after the other."""
    return False
