"""What a load needs beyond sockets: whether it can be had, and giving it to the nodes of a stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType

from weighbridge import registry
from weighbridge.model import Cell
from weighbridge.targets import Hosts
from weighbridge.tools import needs


def keys(cell: Cell) -> tuple[str, ...]:
    """The features that the cell's load needs."""
    return needs(registry.find("tools", cell.tool), cell.load)


def unavailable(site: Hosts, cell: Cell, path: ModuleType) -> str | None:
    """Why the load cannot run on a site, or not by this path; None when it can."""
    for feature in _features(cell):
        if path.TRANSLATES:
            return f"{cell.axis('path')} translates TCP and UDP alone, and the {cell.tool} load sends {feature.TRAFFIC}"
        if reason := feature.unavailable(site.shell(), cell):
            return str(reason)
    return None


def provide(site: Hosts, cell: Cell, undo: ExitStack) -> None:
    """Give the nodes what the load needs; `undo` takes it away again.

    Raises CommandError when it cannot be made.
    """
    for feature in _features(cell):
        undo.callback(feature.provide(site.nodes, site.run_id))


def _features(cell: Cell) -> Iterator[ModuleType]:
    return (registry.find("features", key) for key in keys(cell))
