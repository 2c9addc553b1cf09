"""A published study seen whole: its tables with every figure recomputed, and what it says against itself.

Everything is read again from the study's own recordings, whatever cells a run selected: a table with
holes would not repeat the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from weighbridge import metrics, registry, units
from weighbridge.errors import ParseError
from weighbridge.measure import Slot, samples_of
from weighbridge.model import Cell
from weighbridge.scenario import Scenario, load_all
from weighbridge.stand import Reading
from weighbridge.store import StoredDiscrepancy, StoredStudy, StoredTable
from weighbridge.study import Column, Printed, Row, Study, Table, audit, load
from weighbridge.study.audit_tables import agree
from weighbridge.study.interval import exactly
from weighbridge.study.own import Own

Figures = Mapping[tuple[str, frozenset[tuple[str, str]], str], Sequence[float]]


def retell(folder: Path, names: Iterable[str]) -> list[StoredStudy]:
    """Every named study below `folder`/studies, recomputed with the scenarios of `folder`.

    Raises ScenarioError when a study's data are broken.
    """
    scenarios = load_all(folder, "study")
    wanted = sorted(set(names))
    earlier: list[Study] = []
    told = []
    for path in sorted((folder / "studies").iterdir()):
        if not path.is_dir():
            continue
        study = load(path)
        if study.name in wanted:
            told.append(_retold(study, [s for s in scenarios if s.study == study.name], earlier))
        earlier.append(study)
    return told


def own_figures(folder: Path, names: Iterable[str]) -> dict[tuple[str, frozenset[tuple[str, str]], str], Own]:
    """Every figure that the named studies below `folder`/studies give of a scenario's cells; none of one not there.

    A table's printed figure counts first; where a recorded output contradicts it, that stands beside it.
    Raises ScenarioError when a study's data are broken.
    """
    found: dict[tuple[str, frozenset[tuple[str, str]], str], Own] = {}
    there = [path for name in sorted(set(names)) if (path := folder / "studies" / name).is_dir()]
    scenarios = load_all(folder, "study") if there else []
    for path in there:
        study = load(path)
        outputs, _ = _figures(study, [s for s in scenarios if s.study == study.name], doubtful=False)
        printed: dict[tuple[str, frozenset[tuple[str, str]], str], list[Printed]] = {}
        for table in study.tables.values():
            for row, column, text in _told(table):
                key = (column.scenario, frozenset(table.cell(row, column).items()), column.metric)
                printed.setdefault(key, []).append(text)
        for key in printed.keys() | outputs.keys():
            if own := _own(printed.get(key, ()), outputs.get(key, ())):
                found[key] = own
    return found


def _told(table: Table) -> Iterator[tuple[Row, Column, Printed]]:
    """The figures of a table that are a metric of a cell, not a share of one."""
    for row in table.rows:
        for column, text in zip(table.columns, row.printed, strict=True):
            figure = column.read(text)
            if column.metric and not column.per and figure is not None:
                yield row, column, figure


def _own(printed: Sequence[Printed], outputs: Sequence[float]) -> Own | None:
    """What is printed of one figure, beside the outputs that give it; NaN stands for one that is refused."""
    given = [value for value in outputs if not math.isnan(value)]
    if not printed and not given:
        return None
    exact = [units.parse(text.value).value for text in printed if text.bound is None]
    borne_out = all(any(agree(text, exactly(value)) for value in given) for text in printed)
    return Own(
        printed=tuple(text.value + ("+" if text.bound == "lower" else "") for text in printed),
        value=median(exact) if exact and len(exact) == len(printed) else None,
        output=median(given) if given and not (printed and borne_out) else None,
        refused=bool(outputs) and not given,
    )


def _retold(study: Study, scenarios: Sequence[Scenario], earlier: Sequence[Study]) -> StoredStudy:
    figures, refused = _figures(study, scenarios)

    def lookup(scenario: str, axes: Mapping[str, str], metric: str) -> Sequence[float]:
        return figures.get((scenario, frozenset(axes.items()), metric), ())

    found = audit.audit(study, lookup, refused, earlier)
    return StoredStudy(
        id=study.name,
        environment=dict(study.environment),
        tables=[_table(table, lookup) for table in study.tables.values()],
        discrepancies=[
            StoredDiscrepancy(
                where=d.where,
                kind=d.kind,
                printed=d.printed,
                computed=d.computed,
                arithmetic=d.arithmetic,
                source=d.file,
            )
            for d in found
        ],
    )


def _figures(study: Study, scenarios: Sequence[Scenario], *, doubtful: bool = True) -> tuple[Figures, dict[str, str]]:
    """What every recording gives, series after series; NaN, and the reason by file, where it was refused.

    `doubtful` figures are true of their output and must not be judged all the same, such as a saturated latency.
    """
    found: dict[tuple[str, frozenset[tuple[str, str]], str], list[float]] = {}
    refused: dict[str, str] = {}
    for scenario in scenarios:
        names: set[str] = set()
        holes: list[tuple[Cell, int]] = []
        for cell in scenario.cells:
            axes = frozenset(cell.axes.items())
            for number, recording in enumerate(study.recordings_of(cell.scenario, cell.axes)):
                reading = Reading((recording.file,), study.texts[recording.file], 0.0, live=False)
                try:
                    samples = samples_of(Slot((cell,)), reading, number)[cell.id]
                except ParseError as error:
                    # An output that lacks a cell's figure is a hole; one that cannot be read at all is refused.
                    if not _readable(scenario.tool, reading.output):
                        refused[recording.file] = error.reason
                    holes.append((cell, number))
                    continue
                for sample in samples:
                    names.add(sample.metric)
                    if sample.value is not None and (doubtful or sample.invalid is None):
                        found.setdefault((cell.scenario, axes, sample.metric), []).append(sample.value)
            for figure in study.figures_of(cell.scenario, cell.axes):
                for name, printed in figure.metrics.items():
                    value = units.parse_as(printed.value, metrics.metric(name).unit)
                    found.setdefault((cell.scenario, axes, name), []).append(value)
        for cell, number in holes:
            for name in names:
                values = found.setdefault((cell.scenario, frozenset(cell.axes.items()), name), [])
                values.insert(number, math.nan)
    return found, refused


def _readable(tool: str, text: str) -> bool:
    try:
        registry.find("tools", tool).parse(text)
    except ParseError:
        return False
    return True


def _table(table: Table, lookup: audit.Lookup) -> StoredTable:
    if table.claims:
        rows = [[claim.where, claim.what, claim.printed, claim.arithmetic] for claim in table.claims]
        return StoredTable(title=table.title, headings=["where", "what", "printed", "arithmetic"], rows=rows)
    empty = not any(text for row in table.rows for text in row.printed)
    rows = [
        [
            *(row.labels[name] for name in table.row_labels),
            *(row.axes[name] for name in table.row_axes),
            *(
                _entry(table, row, column, text, lookup, empty=empty)
                for column, text in zip(table.columns, row.printed, strict=True)
            ),
        ]
        for row in table.rows
    ]
    return StoredTable(
        title=table.title + (" (empty in the study: every figure is its output's)" if empty else ""),
        headings=[*table.row_labels, *table.row_axes, *map(_heading, table.columns)],
        rows=rows,
    )


def _heading(column: Column) -> str:
    """The study's own heading, with the unit where neither it nor the figures say one."""
    unsaid = column.unit not in ("", "x", "/s") and "(" not in column.heading
    return f"{column.heading} ({column.unit})" if unsaid else column.heading


def _entry(table: Table, row: Row, column: Column, text: str, lookup: audit.Lookup, *, empty: bool) -> str:
    """A figure as printed; where the recording gives another one, or none to be trusted, that too."""
    printed = column.read(text)
    if not column.metric:
        return text
    values = lookup(column.scenario, table.cell(row, column), column.metric)
    if row.series is not None:
        values = values[row.series : row.series + 1]
    if not values:
        return f"{text} (no output)" if text else "–"
    if all(math.isnan(value) for value in values):
        return f"{text} (output refused)".strip()
    divisor = float(row.axes[column.per]) if column.per else 1.0
    measured = [value / divisor for value in values if not math.isnan(value)]
    if printed is None:
        return _given(column, measured[0]) if empty else f"(output: {_given(column, measured[0])})"
    if any(agree(printed, exactly(value)) for value in measured):
        return text
    return f"{text} (output: {', '.join(_given(column, value) for value in measured)})"


def _given(column: Column, value: float) -> str:
    """A figure of an output, in the largest of the column's own units that leaves it above one."""
    unit = metrics.metric(column.metric).unit
    if not column.units:
        return units.show(value, unit, "" if column.unit in ("x", "/s") else column.unit)
    sizes = {name: units.parse(f"1 {name}").value for name in column.units.values()}
    fitting = [name for name, size in sizes.items() if value >= size] or [min(sizes, key=sizes.__getitem__)]
    return units.show(value, unit, max(fitting, key=sizes.__getitem__))
