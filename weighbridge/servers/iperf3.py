"""The iperf3 server, one test at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROGRAMS = ("iperf3",)
PACKAGE = "iperf3"
PORT = 5201


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - part of the protocol
    """Serve both protocols; the control connection is TCP."""
    return [program, "-s", "-p", str(port), "--idle-timeout", "3600"]


def files(port: int, workdir: str) -> Mapping[str, str]:  # noqa: ARG001 - part of the protocol
    """It needs none."""
    return {}


def transport(load: Any) -> str:  # noqa: ARG001 - part of the protocol
    """The control connection."""
    return "tcp"


def single_use(load: Any) -> bool:  # noqa: ARG001 - part of the protocol
    """It serves one client after the other."""
    return False
