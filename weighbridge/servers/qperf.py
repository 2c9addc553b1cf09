"""The qperf server: the same program without arguments, waiting for its clients on one port."""

from __future__ import annotations

from typing import Any

from weighbridge.servers import no_files as files
from weighbridge.servers import over_tcp as transport
from weighbridge.servers import serves_on as single_use

__all__ = ["DATA_PORTS", "KNOCK", "PACKAGE", "PORT", "PROGRAMS", "TOOLS", "argv", "files", "single_use", "transport"]

PROGRAMS = ("qperf",)
TOOLS = ("qperf", "ping")
PACKAGE = "qperf"
PORT = 19765
DATA_PORTS = 1
KNOCK = True


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - part of the protocol
    """Listen on the port that clients use by default."""
    return [program, "--listen_port", str(port)]
