"""What a published study consists of, as strict and frozen models.

Whatever is printed stays text with its unit, so that its rounding is never lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import time
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from weighbridge import units
from weighbridge.errors import UnitError, UsageError
from weighbridge.metrics import metric

_CELL = re.compile(r"(\d+(?:\.\d+)?) ?([^\d\s.,+]*)(\+?)")
"""A figure of a table as printed: number, suffix, and a plus for `or more`."""

Axes = dict[str, str]
Bound = Literal["lower", "upper"]


@contextmanager
def _for_pydantic() -> Iterator[None]:
    """Let pydantic add the key to an error of units or metrics; it knows ValueError only."""
    try:
        yield
    except UsageError as error:
        raise ValueError(str(error)) from error


def _quantity(text: str) -> str:
    with _for_pydantic():
        units.parse(text)
    return text


def _clock(text: str) -> str:
    time.fromisoformat(text)
    return text


def _metric(name: str) -> str:
    with _for_pydantic():
        return metric(name).name


def frozen(value: Any) -> Any:
    """Let a TOML array stand for a tuple."""
    return tuple(value) if isinstance(value, list) else value


QuantityText = Annotated[str, AfterValidator(_quantity)]
"""A quantity as printed, with its unit: `"1.356 ms"`."""
Clock = Annotated[str, AfterValidator(_clock)]
MetricName = Annotated[str, AfterValidator(_metric)]


class Data(BaseModel):
    """Plain data: unknown keys, loose types and changes are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Printed(Data):
    """A printed quantity; `bound` says that it is only a lower or upper one ("2200+")."""

    value: QuantityText
    bound: Bound | None = None


PrintedText = Annotated[Printed, BeforeValidator(lambda value: {"value": value} if isinstance(value, str) else value)]


class Host(Data):
    """A host or pod that the study lists: where the cells of `axes` of these scenarios were served."""

    name: str
    address: str
    node: str
    scenarios: Annotated[tuple[str, ...], BeforeValidator(frozen)]
    axes: Axes


class Recording(Data):
    """One recorded tool output; several of the same cell have rising `series`.

    It was made together with the other recordings of its `round` (its series, where none is said).
    `at` and `lasts` are the time stamp over it and its length, `asked` what the tool was told to
    reach, `heading` what the heading above it says, `client` the host named in its prompt.
    """

    scenario: str
    axes: Axes
    file: str
    series: Annotated[int, Field(ge=0)]
    round: Annotated[int, Field(ge=0)] | None = None
    at: Clock | None = None
    lasts: QuantityText | None = None
    asked: dict[MetricName, QuantityText] = {}
    heading: Axes = {}
    client: str | None = None
    note: str = ""

    @property
    def together(self) -> int:
        """The round that it belongs to."""
        return self.series if self.round is None else self.round


class Excerpt(Data):
    """A raw text that is no complete tool output."""

    what: str
    file: str


class Transfer(Data):
    """The transfer rates of ab; its Kbytes are 1024 bytes."""

    received: QuantityText
    sent: QuantityText
    total: QuantityText


Share = Annotated[tuple[float, int, int], BeforeValidator(frozen)]
"""Percent of the requests, their time in ms, their count."""


class Figure(Data):
    """Figures of one cell printed without the output they come from.

    `readings` and `resolution`: a mean of so many readings, each printed in such steps.
    `mean_across_all` is ab's time per request across all concurrent requests.
    """

    scenario: str
    axes: Axes
    metrics: dict[MetricName, PrintedText]
    source: str
    client: str | None = None
    readings: Annotated[int, Field(ge=1)] | None = None
    resolution: QuantityText | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1)] | None = None
    mean_across_all: QuantityText | None = None
    transfer: Transfer | None = None
    distribution: Annotated[tuple[Share, ...], BeforeValidator(frozen)] = ()

    @model_validator(mode="after")
    def _dimensions(self) -> Self:
        with _for_pydantic():
            for name, printed in self.metrics.items():
                units.parse_as(printed.value, metric(name).unit)
        return self


class Listing(Data):
    """Figures of one table, with the command that made them and the address the study states for it."""

    command: str = ""
    stated_target: str = ""
    figures: Annotated[tuple[Figure, ...], BeforeValidator(frozen)]


class Claim(Data):
    """A derived figure that the study prints, and the arithmetic over its own figures that should give it.

    The arithmetic is in the SI base unit of the printed figure; `step` is the rounding of a figure
    printed coarser than its last digit.
    """

    what: str
    printed: QuantityText
    arithmetic: str
    where: str
    bound: Bound | None = None
    step: QuantityText | None = None


class Column(Data):
    """A column of a table: the metric it shows, and the unit of its texts.

    `units` maps the suffixes as printed to units where each text carries its own, `none` is what
    the table prints for zero, `per` an axis whose value divides the metric.
    """

    heading: str
    scenario: str
    metric: str
    axes: Axes
    unit: str = ""
    units: dict[str, str] = {}
    none: str | None = None
    per: str = ""

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if bool(self.unit) == bool(self.units):
            raise ValueError("a column has either unit or units")
        with _for_pydantic():
            for unit in self.units.values() or (self.unit,):
                quantity = units.parse(f"1 {unit}")
                if self.metric and quantity.unit != metric(self.metric).unit:
                    raise ValueError(f"{unit!r} is no unit of {self.metric}")
        return self

    def read(self, text: str) -> Printed | None:
        """Read the quantity that a cell's text stands for, None where nothing is printed.

        Raises UnitError when the text is no quantity of this column.
        """
        if not text:
            return None
        if text == self.none:
            return Printed(value=f"0 {self.unit}")
        match = _CELL.fullmatch(text)
        if match is None:
            raise UnitError(f"{text!r} is no figure of column {self.heading!r}")
        number, suffix, more = match.groups()
        unit = self.units.get(suffix) if self.units else self.unit + suffix
        if unit is None:
            raise UnitError(f"{text!r} has no unit of column {self.heading!r}: {', '.join(self.units)}")
        value = f"{number}{unit}" if unit.startswith("/") else f"{number} {unit}"
        units.parse(value)
        return Printed(value=value, bound="lower" if more else None)


class Row(Data):
    """A row of a table: its cell, its texts as printed, the series it was taken from where known."""

    axes: Axes
    printed: Annotated[tuple[str, ...], BeforeValidator(frozen)]
    labels: dict[str, str] = {}
    series: int | None = None


class Table(Data):
    """A table of the study: columns and rows of printed figures, or a list of claims."""

    title: str
    row_labels: Annotated[tuple[str, ...], BeforeValidator(frozen)] = ()
    row_axes: Annotated[tuple[str, ...], BeforeValidator(frozen)] = ()
    axes: Axes = {}
    columns: Annotated[tuple[Column, ...], BeforeValidator(frozen)] = ()
    rows: Annotated[tuple[Row, ...], BeforeValidator(frozen)] = ()
    claims: Annotated[tuple[Claim, ...], BeforeValidator(frozen)] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for number, row in enumerate(self.rows):
            if len(row.printed) != len(self.columns):
                raise ValueError(f"rows.{number} prints {len(row.printed)} texts for {len(self.columns)} columns")
            if set(row.axes) != set(self.row_axes) or set(row.labels) != set(self.row_labels):
                raise ValueError(f"rows.{number} does not name exactly the row axes and labels")
            for column, text in zip(self.columns, row.printed, strict=True):
                try:
                    column.read(text)
                except UsageError as error:
                    raise ValueError(f"rows.{number}: {error}") from error
                if column.per and column.per not in row.axes:
                    raise ValueError(f"rows.{number} has no axis {column.per!r} to divide by")
        return self

    def cell(self, row: Row, column: Column) -> Axes:
        """Name the cell of one figure of the table."""
        return {**self.axes, **column.axes, **row.axes}


class Study(Data):
    """A study: its name is its folder's; `listings` and `tables` by file, `texts` by raw file."""

    name: str
    environment: dict[str, str]
    hosts: tuple[Host, ...] = ()
    recordings: tuple[Recording, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    listings: dict[str, Listing] = {}
    tables: dict[str, Table] = {}
    claims: tuple[Claim, ...] = ()
    texts: dict[str, str] = {}

    def recordings_of(self, scenario: str, axes: Mapping[str, str]) -> tuple[Recording, ...]:
        """List the outputs that hold a cell, by series; an axis swept by the tool is missing from theirs."""
        found = (r for r in self.recordings if r.scenario == scenario and r.axes.items() <= axes.items())
        return tuple(sorted(found, key=lambda r: r.series))

    def figures_of(self, scenario: str, axes: Mapping[str, str]) -> tuple[Figure, ...]:
        """List the figures without output that stand for a cell."""
        return tuple(f for _, f in self.figures() if f.scenario == scenario and f.axes.items() <= axes.items())

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every figure with the file that holds it."""
        return ((file, figure) for file, listing in self.listings.items() for figure in listing.figures)
