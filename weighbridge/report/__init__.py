"""A stored run as Markdown, through the templates of `reports/templates/`.

Every template renders to a file of its own name: adding one adds a report. The report reads run.json
and which raw outputs lie beside it, so the same run always gives the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weighbridge.errors import StoreError, UsageError
from weighbridge.model import WORST_FIRST, Status, cell_id
from weighbridge.report.conditions import common_link, conditions, steal
from weighbridge.report.evidence import RawFolder
from weighbridge.report.figures import SYMBOLS
from weighbridge.report.markdown import escape, link, table
from weighbridge.report.ranking import rankings
from weighbridge.report.skips import skips
from weighbridge.report.tables import compare
from weighbridge.shell import write_atomically
from weighbridge.store import RunFile, StoredCell, StoredScenario
from weighbridge.study.own import NO_FIGURES, OwnFigures

__all__ = ["SYMBOLS", "context", "escape", "render", "table", "verdict_rows"]


def render(run: RunFile, folder: Path, templates: Path, own: OwnFigures = NO_FIGURES) -> list[Path]:
    """Write every report of a run into its directory; the paths written.

    `own` are the figures of the studies that its scenarios repeat. A template whose name begins with an
    underscore is a part of others.
    Raises UsageError when there are no templates, StoreError when the disk refuses.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape  # noqa: PLC0415 - only a report pays for it

    names = sorted(path.name for path in templates.glob("*.j2") if not path.name.startswith("_"))
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
            write_atomically(path, environment.get_template(name).render(**context(run, folder, own)))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}; run.json there is complete") from error
        written.append(path)
    return written


def context(run: RunFile, folder: Path, own: OwnFigures = NO_FIGURES) -> dict[str, Any]:
    """What every template is given."""
    selected = [cell for cell in run.cells if cell.selected]
    raw = _raw_folders(folder)
    rows = [(status, [_linked(cell, raw), *rest]) for status, cell, *rest in _verdicts(run)]
    return {
        "run": run,
        "symbols": SYMBOLS,
        "counts": _counts(selected),
        "open": [[f"{SYMBOLS[status]} {status}", *row] for status, row in rows if status is not Status.PASS],
        "passed": [row for status, row in rows if status is Status.PASS],
        "without_budget": sum(not cell.verdicts and cell.status == Status.PASS for cell in selected),
        "borrowed": sum(not cell.selected and bool(cell.samples) for cell in run.cells),
        "summary": [
            [scenario.title, *(str(counts.get(status, "")) for status in WORST_FIRST)]
            for scenario in run.scenarios
            if (counts := _counts([cell for cell in selected if cell.scenario == scenario.name]))
        ],
        "skips": skips(selected),
        "link": common_link(run.cells),
        "steal": steal(run.cells),
        "scenarios": [found for scenario in run.scenarios if (found := _scenario(scenario, run, raw, own))],
    }


def verdict_rows(run: RunFile) -> list[list[str]]:
    """One row per budget of a cell, worst first: verdict, cell, budget, what decided it."""
    return [[f"{SYMBOLS[status]} {status}", cell.id, *rest] for status, cell, *rest in _verdicts(run)]


def _verdicts(run: RunFile) -> list[tuple[Status, StoredCell, str, str]]:
    rows: list[tuple[Status, StoredCell, str, str]] = []
    for cell in run.cells:
        if not cell.selected or cell.status == Status.NOT_RUN:
            continue
        rows.extend((Status(verdict.verdict), cell, verdict.budget, verdict.reason) for verdict in cell.verdicts)
        if not cell.verdicts:
            rows.append((Status(cell.status), cell, "no budget", cell.reason))
    rows.sort(key=lambda row: WORST_FIRST.index(row[0]))
    return rows


def _counts(cells: Sequence[StoredCell]) -> dict[Status, int]:
    counts = {status: sum(cell.status == status for cell in cells) for status in WORST_FIRST}
    return {status: number for status, number in counts.items() if number}


def _raw_folders(folder: Path) -> RawFolder:
    """Find a cell's raw output: under its name, or under that of the run that swept one of its axes."""
    kept = {path.name for path in folder.glob("raw/*")}

    def find(cell: StoredCell) -> str | None:
        swept = [cell_id(cell.scenario, {**cell.axes, axis: "all"}) for axis in cell.axes]
        return next((f"raw/{name}" for name in (cell.id, *swept) if name in kept), None)

    return find


def _linked(cell: StoredCell, raw: RawFolder) -> str:
    where = raw(cell)
    return link(cell.id, f"{where}/") if where else cell.id


def _scenario(scenario: StoredScenario, run: RunFile, raw: RawFolder, own: OwnFigures) -> dict[str, Any] | None:
    cells = [cell for cell in run.cells if cell.scenario == scenario.name]
    measured = [cell for cell in cells if cell.status != Status.NOT_RUN]
    if not any(cell.samples for cell in measured):
        return None
    ranked = rankings(cells, own)
    return {
        "stored": scenario,
        "found": compare(measured, raw),
        "conditions": conditions(measured),
        "rankings": ranked,
        "beside_study": any("study" in ranking.headings for ranking in ranked),
    }
