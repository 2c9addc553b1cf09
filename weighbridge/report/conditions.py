"""Under which conditions figures were taken: limits, CPU placement, link, and what the hypervisor took away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from weighbridge.report.figures import DIGITS
from weighbridge.store import StoredCell
from weighbridge.units import BIT_RATE, BYTE, FRACTION, show

_UNLIMITED = "none"
"""What the evidence says where no limits are in force."""
_LIMIT = re.compile(r" ?\b(\w+) ([\d.e+]+)\b")
_STEAL = "cpu_steal"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Sentences about a scenario's measured cells; '' where nothing is known."""

    bound: str
    scaled: str
    cpus: str
    link: str


def conditions(cells: Sequence[StoredCell]) -> Conditions:
    """Under which conditions a scenario's cells were measured."""
    placed = dict.fromkeys(text for cell in cells if (text := cell.evidence.get("cpus")))
    return Conditions(bound=_bound(cells), scaled=_scaled(cells), cpus="; ".join(placed), link=link(cells))


def link(cells: Sequence[StoredCell]) -> str:
    """The link between the nodes of these cells, where any of them used it and it is known."""
    rates = {cell.link_rate for cell in cells if cell.axes.get("placement") != "same-node"} - {None}
    shaped = [f"shaped to {show(rate, BIT_RATE)}" for rate in sorted(r for r in rates if isinstance(r, float))]
    return ", ".join([*shaped, *(["unshaped"] if "unshaped" in rates else [])])


def common_link(cells: Sequence[StoredCell]) -> str:
    """The link of a whole run; '' unless every cell that used one had the same."""
    said = {
        text for cell in cells if cell.samples and cell.axes.get("placement") != "same-node" for text in [link([cell])]
    }
    return said.pop() if len(said) == 1 else ""


def steal(cells: Sequence[StoredCell]) -> str:
    """CPU time stolen by the hypervisor over all slots of a run: median, and the worst with its cell."""
    taken = [
        (s.value, cell.id, s.round)
        for cell in cells
        for s in cell.samples
        if s.metric == _STEAL and s.value is not None
    ]
    if not taken:
        return ""
    worst, identity, number = max(taken, key=lambda slot: slot[0])
    middle = show(median(value for value, _, _ in taken), FRACTION, digits=DIGITS)
    where = f" ({identity}, round {number})" if worst else ""
    return f"median {middle}, worst slot {show(worst, FRACTION, digits=DIGITS)}{where}; n = {len(taken)}"


def _bound(cells: Sequence[StoredCell]) -> str:
    """Which runtimes the limits bind, from what was found in force; '' where nothing was limited."""
    found = {(cell.axes.get("runtime", ""), cell.evidence["limits"]) for cell in cells if cell.evidence.get("limits")}
    texts = {text for _, text in found if text != _UNLIMITED}
    if not texts:
        return ""
    which = f" ({_limits(texts.pop())})" if len(texts) == 1 else ""
    bound = {runtime for runtime, text in found if text != _UNLIMITED}
    free = sorted({runtime for runtime, _ in found} - bound)
    if not free:
        return f"Limits{which} hold for every runtime." if all(bound) else f"Limits{which} hold for the server."
    return f"Limits{which} hold for every runtime but {' and '.join(free)}, which {'have' if free[1:] else 'has'} none."


def _scaled(cells: Sequence[StoredCell]) -> str:
    """Which limits were asked for where the machine is smaller than they are."""
    asked = dict.fromkeys(text for cell in cells if (text := cell.evidence.get("limits asked")))
    if not asked:
        return ""
    which = "; ".join(map(_limits, asked))
    return f"Limits were scaled to this machine, which is smaller than what was asked for: {which}."


def _limits(text: str) -> str:
    return _LIMIT.sub(_written, text)


def _written(limit: re.Match[str]) -> str:
    """One limit as people write it, `, ` before all but the first."""
    value = show(float(limit[2]), BYTE) if limit[1] == "memory" else limit[2]
    return f"{', ' if limit.start() else ''}{limit[1]} {value}"
