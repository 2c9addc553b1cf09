"""The qperf server: the same program without arguments, waiting for its clients on one port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROGRAMS = ("qperf",)
PACKAGE = "qperf"
PORT = 19765


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - part of the protocol
    """Listen on the port that clients use by default."""
    return [program, "--listen_port", str(port)]


def files(port: int, workdir: str) -> Mapping[str, str]:  # noqa: ARG001 - part of the protocol
    """It needs none."""
    return {}


def transport(load: Any) -> str:  # noqa: ARG001 - part of the protocol
    """Tests are negotiated over TCP, whatever they measure."""
    return "tcp"


def single_use(load: Any) -> bool:  # noqa: ARG001 - part of the protocol
    """It serves one client after the other."""
    return False
