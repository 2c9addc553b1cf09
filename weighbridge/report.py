"""A stored run as Markdown, through the templates of `reports/templates/`.

Every template renders to a file of its own name: adding one adds a report. The report reads run.json
and nothing else, so the same run always gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from weighbridge import metrics
from weighbridge.errors import StoreError, UsageError
from weighbridge.model import WORST_FIRST, Status
from weighbridge.shell import write_atomically
from weighbridge.store import RunFile, StoredCell, StoredScenario
from weighbridge.units import show

SYMBOLS = {
    Status.PASS: "✅",
    Status.FAIL: "❌",
    Status.INCONCLUSIVE: "❔",
    Status.INVALID: "🚫",
    Status.INFRA_ERROR: "💥",
    Status.NOT_RUN: "➖",
}

_FIRST = (
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "throughput",
    "request_rate",
    "request_rate_per_core",
    "round_trip_time_mean",
    "packet_loss",
    "jitter",
)
"""What a table shows of a cell, in this order; the rest stays in run.json."""


def render(run: RunFile, folder: Path, templates: Path) -> list[Path]:
    """Write every report of a run into its directory; the paths written.

    Raises UsageError when there are no templates, StoreError when the disk refuses.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape  # noqa: PLC0415 - only a report pays for it

    names = sorted(path.name for path in templates.glob("*.j2"))
    if not names:
        raise UsageError(f"{templates} holds no report templates (*.j2)")
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Markdown is escaped cell by cell; anything else (HTML) by jinja.
        autoescape=select_autoescape(disabled_extensions=("md.j2",), default=True),
    )
    environment.filters |= {"md": escape, "table": table}
    written = []
    for name in names:
        path = folder / name.removesuffix(".j2")
        try:
            write_atomically(path, environment.get_template(name).render(**context(run)))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}; run.json there is complete") from error
        written.append(path)
    return written


def context(run: RunFile) -> dict[str, Any]:
    """What every template is given."""
    selected = [cell for cell in run.cells if cell.selected]
    counts = {status: sum(cell.status == status for cell in selected) for status in WORST_FIRST}
    return {
        "run": run,
        "symbols": SYMBOLS,
        "counts": {status: number for status, number in counts.items() if number},
        "verdicts": verdict_rows(run),
        "not_run": _not_run(selected),
        "scenarios": [_scenario(scenario, run) for scenario in run.scenarios],
    }


def verdict_rows(run: RunFile) -> list[list[str]]:
    """One row per budget of a cell, worst first: verdict, cell, budget, what decided it."""
    rows: list[tuple[Status, str, str, str]] = []
    for cell in run.cells:
        if not cell.selected or cell.status == Status.NOT_RUN:
            continue
        rows.extend((Status(verdict.verdict), cell.id, verdict.budget, verdict.reason) for verdict in cell.verdicts)
        if not cell.verdicts:
            rows.append((Status(cell.status), cell.id, "no budget", cell.reason))
    rows.sort(key=lambda row: WORST_FIRST.index(row[0]))
    return [[f"{SYMBOLS[status]} {status}", *rest] for status, *rest in rows]


def table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """A Markdown table whose cells cannot break it."""
    if not rows:
        return "*none*"
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    return tabulate(cells, headers=[escape(h) for h in headings], tablefmt="github", disable_numparse=True)


def escape(text: str) -> str:
    """Text that Markdown shows as it is: no table break, no tag, no link."""
    flat = " ".join(str(text).split())
    return re.sub(r"([\\|`*_\[\]<>])", r"\\\1", flat)


def _not_run(selected: Sequence[StoredCell]) -> list[list[str]]:
    reasons: dict[tuple[str, str], int] = {}
    for cell in selected:
        if cell.status == Status.NOT_RUN:
            reasons[cell.scenario, cell.reason] = reasons.get((cell.scenario, cell.reason), 0) + 1
    return [[scenario, str(number), reason] for (scenario, reason), number in reasons.items()]


def _scenario(scenario: StoredScenario, run: RunFile) -> dict[str, Any]:
    cells = [cell for cell in run.cells if cell.scenario == scenario.name and (cell.summary or cell.samples)]
    shown = _columns(cells)
    axes = list(cells[0].axes) if cells else []
    rows = [
        [*(cell.axes[axis] for axis in axes), *(_figure(cell, name) for name in shown), _efficiency(cell)]
        for cell in cells
    ]
    headings = [*axes, *shown, "of limit"]
    if not any(row[-1] for row in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    proofs = _evidence(cells)
    return {
        "stored": scenario,
        "headings": headings,
        "rows": rows,
        "evidence": proofs,
        "limits": sorted({f"{show(c.limit.throughput, 'bit/s')} = {c.limit.formula}" for c in cells if c.limit}),
        "measured": bool(cells),
    }


def _columns(cells: Sequence[StoredCell]) -> list[str]:
    present = dict.fromkeys(sample.metric for cell in cells for sample in cell.samples)
    budgeted = dict.fromkeys(verdict.budget.split()[0] for cell in cells for verdict in cell.verdicts)
    return [name for name in dict.fromkeys([*_FIRST, *budgeted]) if name in present]


def _figure(cell: StoredCell, name: str) -> str:
    """Median and range of the valid samples; an invalid figure is shown in brackets."""
    for summary in cell.summary:
        if summary.metric == name:
            middle = show(summary.median, summary.unit)
            if summary.n == 1:
                return middle
            return f"{middle} ({show(summary.low, summary.unit)} … {show(summary.high, summary.unit)}; n={summary.n})"
    doubtful = [s.value for s in cell.samples if s.metric == name and s.value is not None]
    return f"[{show(median(doubtful), metrics.metric(name).unit)}]" if doubtful else ""


def _efficiency(cell: StoredCell) -> str:
    for summary in cell.summary:
        if summary.metric == "throughput" and cell.limit:
            return f"{summary.median / cell.limit.throughput:.1%}"
    return ""


def _evidence(cells: Sequence[StoredCell]) -> list[list[str]]:
    """What proves each stand, cells with the same proof together."""
    found: dict[tuple[tuple[str, str], ...], list[StoredCell]] = {}
    for cell in cells:
        found.setdefault(tuple(cell.evidence.items()), []).append(cell)
    return [[_common(group), "; ".join(f"{k}: {v}" for k, v in proof if v)] for proof, group in found.items() if proof]


def _common(cells: Sequence[StoredCell]) -> str:
    """The axis values that a group of cells shares."""
    shared: Mapping[str, str] = dict(set.intersection(*(set(cell.axes.items()) for cell in cells)))
    return " ".join(value for axis, value in cells[0].axes.items() if axis in shared) or cells[0].scenario
