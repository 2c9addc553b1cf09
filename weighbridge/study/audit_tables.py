"""Printed tables against the outputs and figures that they were made from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weighbridge.study import Axes, Column, Printed, Row, Study, Table
from weighbridge.study.discrepancy import Discrepancy, label
from weighbridge.study.interval import Interval, exactly, like, printed

Lookup = Callable[[str, Mapping[str, str], str], Sequence[float]]
"""(scenario, axes, metric) → the outputs' figures in SI base units, by series; NaN where a series has none."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """One figure of a table, and what stands behind it."""

    study: Study
    file: str
    table: Table
    row: Row
    column: Column
    lookup: Lookup | None
    refused: Mapping[str, str]

    @property
    def axes(self) -> Axes:
        return self.table.cell(self.row, self.column)

    @property
    def where(self) -> str:
        return f"{self.file} | {label({**self.row.labels, **self.row.axes})} | {self.column.heading}"

    @property
    def outputs(self) -> tuple[str, ...]:
        found = self.study.recordings_of(self.column.scenario, self.axes)
        if self.row.series is not None:
            found = tuple(r for r in found if r.series == self.row.series)
        return tuple(r.file for r in found)

    @property
    def values(self) -> tuple[Interval, ...]:
        """What outputs and figures give for this cell, in SI base units."""
        column, series = self.column, self.row.series
        found = self.lookup(column.scenario, self.axes, column.metric) if self.lookup else ()
        chosen = found[series : series + 1] if series is not None else found
        given = [exactly(value) for value in chosen if math.isfinite(value)]
        figures = self.study.figures_of(column.scenario, self.axes)
        given += [printed(f.metrics[column.metric].value) for f in figures if column.metric in f.metrics]
        divisor = exactly(float(self.row.axes[column.per]) if column.per else 1.0)
        return tuple(value / divisor for value in given)

    def agrees(self, text: Printed) -> bool:
        return any(agree(text, value) for value in self.values)

    def prints(self, number: str) -> bool:
        """Whether one of the cell's outputs holds this very number."""
        pattern = re.compile(rf"(?<![\d.]){re.escape(number)}(?![\d.])")
        return any(pattern.search(self.study.texts[file]) for file in self.outputs)


def against_outputs(study: Study, lookup: Lookup | None, refused: Mapping[str, str]) -> Iterator[Discrepancy]:
    """Find printed figures that their own outputs do not give; without a lookup only those that have no output."""
    for file, table in study.tables.items():
        for column_number, column in enumerate(table.columns):
            if not column.metric:
                continue
            cells = [_Cell(study, f"tables/{file}.toml", table, row, column, lookup, refused) for row in table.rows]
            for cell in cells:
                text = cell.row.printed[column_number]
                quantity = column.read(text)
                if quantity is not None:
                    yield from _judge(cell, text, quantity, [other for other in cells if other is not cell])


def _judge(cell: _Cell, text: str, quantity: Printed, others: Sequence[_Cell]) -> Iterator[Discrepancy]:
    values = cell.values
    number = re.sub(r"[^\d.]", "", text)

    def found(kind: str, computed: str, arithmetic: str) -> Discrepancy:
        source = ", ".join(cell.outputs) or cell.file
        column = cell.column
        return Discrepancy(
            cell.study.name,
            kind,
            cell.where,
            quantity.value,
            computed,
            arithmetic,
            source,
            column.scenario,
            cell.axes,
            column.metric,
        )

    if not cell.outputs and not values:
        yield found("no source", "", f"{quantity.value} has neither an output nor a figure of its own")
    elif values and not cell.agrees(quantity):
        computed = ", ".join(like(quantity.value, value.middle) for value in values)
        swapped = [other for other in others if other.agrees(quantity)]
        reason = f"{quantity.value} is the figure of {_rows(swapped)}" if swapped else f"{quantity.value} ≠ {computed}"
        yield found("swapped row" if swapped else "table", computed, reason)
    elif not values and (cell.lookup is not None or any(file in cell.refused for file in cell.outputs)):
        yield from _unconfirmed(cell, quantity, number, others, found)


def _unconfirmed(
    cell: _Cell, quantity: Printed, number: str, others: Sequence[_Cell], found: Callable[[str, str, str], Discrepancy]
) -> Iterator[Discrepancy]:
    """Judge a figure whose outputs are not trusted, or do not give it, by the very digits they print."""
    swapped = [other for other in others if other.prints(number)]
    reasons = "; ".join(cell.refused[file] for file in cell.outputs if file in cell.refused)
    if cell.prints(number) and reasons:
        yield found("unconfirmed", "", f"{quantity.value} stands only in an output that was refused: {reasons}")
    elif swapped:
        yield found("swapped row", "", f"{quantity.value} stands in the output of {_rows(swapped)}, not in its own")
    else:
        yield found("no source", "", f"{quantity.value} is not given by {', '.join(cell.outputs)}")


def _rows(cells: Sequence[_Cell]) -> str:
    return ", ".join(label({**cell.row.labels, **cell.row.axes}) for cell in cells)


def agree(text: Printed, value: Interval) -> bool:
    """Tell whether a printed figure, with its rounding or as a bound, stands for a value."""
    claimed = printed(text.value)
    if text.bound == "lower":
        return value.high + value.margin >= claimed.low
    if text.bound == "upper":
        return value.low - value.margin <= claimed.high
    return claimed.meets(value)
