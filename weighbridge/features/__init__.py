"""What a load needs beyond TCP and UDP sockets, one module each: a device, a protocol of the kernel.

A tool says which of them a load needs (`weighbridge.tools.needs`); the file name is the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from weighbridge.hosts import Node
from weighbridge.model import Cell
from weighbridge.shell import Shell


class Feature(Protocol):
    """What a module under `weighbridge.features` offers."""

    TRAFFIC: str
    """What such a load sends; the rules of a service do not translate it."""

    def unavailable(self, shell: Shell, cell: Cell) -> str | None:
        """Why the cell cannot have it where `shell` runs; None when it can."""

    def provide(self, nodes: Sequence[Node], run_id: str) -> Callable[[], None]:
        """Give it to the nodes for a stand; returns what takes it away again.

        Raises CommandError when it cannot be made; nothing is left behind then.
        """


def nothing_to_provide(nodes: Sequence[Node], run_id: str) -> Callable[[], None]:  # noqa: ARG001 - a feature's `provide`
    """The nodes have it as they are."""
    return lambda: None
