"""The server's own address: nothing is translated."""

from __future__ import annotations

from weighbridge.paths import Service, Way
from weighbridge.shell import Shell

PACKAGES = ()
PORTS = None
TRANSLATES = False


def unavailable(shell: Shell, services: bool) -> str | None:  # noqa: ARG001 - part of the protocol
    """Every server has an address."""
    return None


def open(service: Service) -> Way:  # noqa: A001 - a path's own word
    """Do nothing: the server is reached as it is."""
    return Way(service.server.address, lambda: None, {}, lambda: None)
