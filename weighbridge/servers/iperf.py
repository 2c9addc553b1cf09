"""The iperf 2 server; one process serves either TCP or UDP."""

from __future__ import annotations

from typing import Any

from weighbridge.servers import no_files as files

__all__ = ["DATA_PORTS", "KNOCK", "PACKAGE", "PORT", "PROGRAMS", "TOOLS", "argv", "files", "single_use", "transport"]

PROGRAMS = ("iperf",)
TOOLS = ("iperf", "ping")
PACKAGE = "iperf"
PORT = 5001
DATA_PORTS = 0
KNOCK = False


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - part of the protocol
    """Serve what the client will send."""
    return [program, "-s", "-p", str(port), *(["-u"] if load.udp else [])]


def transport(load: Any) -> str:
    """The socket it waits on."""
    return "udp" if load.udp else "tcp"


def single_use(load: Any) -> bool:
    """The UDP server of iperf 2.1.8 dies of SIGSEGV, or never reports, when a second client follows at once."""
    return bool(load.udp)
