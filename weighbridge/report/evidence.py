"""What proves the stands of a scenario, whatever it consists of: every key that a stand gives is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weighbridge.report.markdown import Markup, escape, link
from weighbridge.store import StoredCell

RawFolder = Callable[[StoredCell], str | None]
"""Where the raw output of a cell lies beside the report, if it does."""


def proofs(cells: Sequence[StoredCell], names: Sequence[str], raw: RawFolder) -> list[list[str]]:
    """Rows of cells (by `names`), evidence and link to the raw output; cells with the same of both together.

    Keys come in the order in which the scenario's cells first give them, the same in every row.
    """
    keys = list(dict.fromkeys(key for cell in cells for key in cell.evidence))
    found: dict[tuple[str, str | None], list[str]] = {}
    for cell, name in zip(cells, names, strict=True):
        found.setdefault((_told(cell, keys), raw(cell)), []).append(name)
    return [
        [", ".join(members), Markup(proof), link("raw", f"{folder}/") if folder else Markup("–")]
        for (proof, folder), members in found.items()
    ]


def _told(cell: StoredCell, keys: Sequence[str]) -> str:
    """A cell's evidence; each piece is escaped, and cut, for itself, so that a long one hides no other."""
    return "; ".join(escape(f"{key}: {value}") for key in keys if (value := cell.evidence.get(key)))
