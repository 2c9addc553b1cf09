"""The iperf3 server, one test at a time; after a client that left too early it shuts its port for a moment."""

from __future__ import annotations

from typing import Any

from weighbridge.servers import no_files as files
from weighbridge.servers import over_tcp as transport
from weighbridge.servers import serves_on as single_use

__all__ = ["DATA_PORTS", "KNOCK", "PACKAGE", "PORT", "PROGRAMS", "TOOLS", "argv", "files", "single_use", "transport"]

PROGRAMS = ("iperf3",)
TOOLS = ("iperf3", "ping")
PACKAGE = "iperf3"
PORT = 5201
DATA_PORTS = 0
KNOCK = False


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - part of the protocol
    """Serve both protocols; the control connection is TCP."""
    return [program, "-s", "-p", str(port), "--idle-timeout", "3600"]
