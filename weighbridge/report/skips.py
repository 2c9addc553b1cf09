"""What a run did not measure, reason by reason, and what would have to be installed for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weighbridge.model import Status
from weighbridge.store import StoredCell

_REMEDY = re.compile(r"install it with: ([a-z][a-z0-9-]* install)((?: [A-Za-z0-9.+@/:~_-]*[A-Za-z0-9+~_])+)")
"""How a reason names its remedy: the command, then packages (a full stop after the last is not its own)."""


@dataclass(frozen=True, slots=True)
class Skips:
    """So many of `total` selected cells were not measured."""

    cells: int
    total: int
    rows: list[list[str]]
    """Reason, number of cells, scenarios; what is missing most often first."""
    remedies: list[str]
    """One line for each installer that the reasons name, with all of its packages."""


def skips(selected: Sequence[StoredCell]) -> Skips:
    """What was not measured of the selected cells."""
    by_reason: dict[str, list[StoredCell]] = {}
    for cell in selected:
        if cell.status == Status.NOT_RUN:
            by_reason.setdefault(cell.reason, []).append(cell)
    often = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return Skips(
        cells=sum(map(len, by_reason.values())),
        total=len(selected),
        rows=[
            [reason, str(len(cells)), ", ".join(dict.fromkeys(cell.scenario for cell in cells))]
            for reason, cells in often
        ],
        remedies=_remedies(by_reason),
    )


def _remedies(reasons: Iterable[str]) -> list[str]:
    packages: dict[str, set[str]] = {}
    for reason in reasons:
        for command, named in _REMEDY.findall(reason):
            packages.setdefault(command, set()).update(named.split())
    return [f"{command} {' '.join(sorted(names))}" for command, names in packages.items()]
