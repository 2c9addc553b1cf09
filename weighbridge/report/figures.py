"""What every table of a report asks of a stored cell: may its figures be judged, in which unit are they told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from weighbridge import metrics, registry
from weighbridge.errors import UnitError, UsageError
from weighbridge.model import Status
from weighbridge.store import StoredCell, StoredSummary
from weighbridge.units import parse, show

SYMBOLS = {
    Status.PASS: "✅",
    Status.FAIL: "❌",
    Status.INCONCLUSIVE: "❔",
    Status.INVALID: "🚫",
    Status.INFRA_ERROR: "💥",
    Status.NOT_RUN: "➖",
}

DIGITS = 4
"""Of a measured figure: more would be noise."""

_UNPROVEN = (Status.INVALID, Status.INFRA_ERROR, Status.NOT_RUN)


def problem(cell: StoredCell) -> str:
    """Why no figure of a cell may be judged; '' where only one budget's figure lacks or none does."""
    if Status(cell.status) not in _UNPROVEN or any(cell.reason.startswith(f"{v.budget}: ") for v in cell.verdicts):
        return ""
    return cell.reason or cell.status


def judged(cell: StoredCell, metric: str) -> StoredSummary | None:
    """The summary of a metric's valid samples; None where there is none or the cell has a problem."""
    if problem(cell):
        return None
    return next((summary for summary in cell.summary if summary.metric == metric), None)


def unjudged(cell: StoredCell, metric: str) -> float | None:
    """The median of what was taken of a metric that must not be judged."""
    values = [s.value for s in cell.samples if s.metric == metric and s.value is not None]
    return median(values) if values else None


def unit_of(tool: str, metric: str) -> str:
    """The unit that a tool itself prints a metric in; '' leaves it to the figure's size."""
    if metric in metrics.OF_THE_STAND:
        return metrics.OF_THE_STAND[metric]
    try:
        customary: Mapping[str, str] = getattr(registry.find("tools", tool), "CUSTOMARY", {})
    except UsageError:  # the tool of another version of this suite
        return ""
    return next((unit for prefix, unit in customary.items() if metric.startswith(prefix)), "")


def written(value: float, metric: str, tool: str) -> str:
    """A figure as the reports tell it."""
    return show(value, metrics.metric(metric).unit, unit_of(tool, metric), DIGITS)


def ordered(values: Sequence[str]) -> list[str]:
    """Each value of an axis once: by size where all are quantities or numbers, else as first met."""
    once = list(dict.fromkeys(values))
    try:
        sizes = {value: float(value) if value.isdecimal() else parse(value).value for value in once}
    except UnitError:
        return once
    return sorted(once, key=sizes.__getitem__)
