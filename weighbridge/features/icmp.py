"""Echo requests, which every address of a host answers."""

from __future__ import annotations

from weighbridge.features import nothing_to_provide as provide
from weighbridge.model import Cell
from weighbridge.shell import Shell

__all__ = ["TRAFFIC", "provide", "unavailable"]

TRAFFIC = "ICMP"


def unavailable(shell: Shell, cell: Cell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Every kernel answers them."""
    return None
