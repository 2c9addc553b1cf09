"""One scenario file being read with one profile applied: checked against what there is, expanded into cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weighbridge import registry
from weighbridge.errors import ScenarioError, UsageError
from weighbridge.model import STRUCTURAL_AXES, Budget, Cell, Limits
from weighbridge.scenario.budget import budget
from weighbridge.scenario.file import LimitsTable, ScenarioFile, explain, link_rate, nearest

MOST_CELLS = 10_000
"""Of one scenario; more is a slip of the pen, and would take days to measure."""

_LONGEST_NAME = 200
"""Characters of a cell's name: it is a folder's name, too."""

_KIND_OF_AXIS = {"runtime": "runtimes", "network": "networks", "path": "paths"}
_PLACING_AXES = ("cpus", "link_rate")
"""Keys of the scenario that may be axes, too."""
_CHOICES = {
    "placement": ("same-node", "cross-node"),
    "cpus": ("free", "shared", "split"),
    "sidecar": ("none", "inbound", "outbound", "both"),
}


def product(axes: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Every combination of axis values."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


class Reading:
    """One file being read with one profile applied: every message names it."""

    def __init__(self, path: Path, whole: ScenarioFile, content: ScenarioFile) -> None:
        self.path = path
        self.whole = whole
        self.content = content
        try:
            self.tool = registry.find("tools", content.tool)
            server = registry.find("servers", content.server) if content.server is not None else None
        except UsageError as error:
            raise self.wrong(str(error)) from error
        if server is not None and registry.key_of(content.tool) not in server.TOOLS:
            raise self.wrong(f"{content.tool} cannot measure server {content.server!r}; {_servers_for(content.tool)}")
        self.load_keys = set(self.tool.Load.model_fields)
        self.check_profiles()
        self.check_axes()

    def wrong(self, what: str) -> ScenarioError:
        """An error that names the file."""
        return ScenarioError(f"{self.path}: {what}")

    def check_profiles(self) -> None:
        """Look for unknown keys in every profile, not only in the one that is applied."""
        loads = {"load": self.whole.load} | {f"profiles.{n}.load": p.load for n, p in self.whole.profiles.items()}
        for place, found in loads.items():
            for key in found:
                if key not in self.load_keys:
                    hint = nearest(key, sorted(self.load_keys))
                    raise self.wrong(f"unknown key '{place}.{key}' for {self.content.tool}; {hint}")
        for name, profile in self.whole.profiles.items():
            for axis in profile.axes:
                if axis not in self.whole.axes:
                    hint = nearest(axis, self.whole.axes)
                    raise self.wrong(f"profiles.{name}.axes.{axis} is not in [axes]; {hint}")

        for axes in self.grids:
            number = math.prod(len(values) for values in axes.values())
            if number > MOST_CELLS:
                raise self.wrong(f"[axes] make {number} cells, more than {MOST_CELLS}; leave values out")

    @property
    def grids(self) -> tuple[Mapping[str, list[str]], ...]:
        """The axes without and with each profile."""
        return (self.whole.axes, *({**self.whole.axes, **p.axes} for p in self.whole.profiles.values()))

    def check_axes(self) -> None:
        """Every axis sets something, and has values that something answers for."""
        content = self.content
        settable = {*STRUCTURAL_AXES, *_PLACING_AXES, *self.load_keys, *LimitsTable.model_fields, *content.conditions}
        for axis, values in content.axes.items():
            if axis not in settable:
                raise self.wrong(f"axes.{axis} sets nothing; {nearest(axis, sorted(settable))}")
            if len(set(values)) != len(values):
                raise self.wrong(f"axes.{axis} names a value twice")
            for value in values:
                self.check_value(axis, value)
        for key in content.conditions:
            if key not in content.axes:
                raise self.wrong(f"conditions: {key!r} is no axis; {nearest(key, content.axes)}")
        if content.sweep is not None and content.sweep not in content.axes:
            raise self.wrong(f"sweep = {content.sweep!r} is no axis; {nearest(content.sweep, content.axes)}")
        if content.sweep is not None and content.sweep not in self.load_keys:
            raise self.wrong(f"sweep = {content.sweep!r} is nothing that {content.tool} could sweep")

    def check_value(self, axis: str, value: str) -> None:
        """One value of one axis: a known choice, a file, a rate."""
        if not value.strip() or not value.isprintable():
            raise self.wrong(f"axes.{axis}: {value!r} is no printable text")
        if axis in _CHOICES:
            if value not in _CHOICES[axis]:
                raise self.wrong(f"axes.{axis}: {value!r} is unknown; {nearest(value, _CHOICES[axis])}")
        elif axis in _KIND_OF_AXIS:
            try:
                registry.find(_KIND_OF_AXIS[axis], value)
            except UsageError as error:
                raise self.wrong(f"axes.{axis}: {error}") from error
        elif axis == "link_rate":
            try:
                link_rate(value)
            except UsageError as error:
                raise self.wrong(f"axes.{axis}: {error}") from error

    def cell(self, axes: Mapping[str, str], budgets: tuple[Budget, ...]) -> Cell:
        """The cell with these axis values and the budgets that match it."""
        content = self.content
        load_values = {**content.load, **{axis: value for axis, value in axes.items() if axis in self.load_keys}}
        limit_values = {**content.limits, **{a: v for a, v in axes.items() if a in LimitsTable.model_fields}}
        tool_load = self.load(load_values, axes)
        try:
            limits = LimitsTable.model_validate(limit_values)
        except ValidationError as error:
            raise self.wrong(f"limits: {explain(error, LimitsTable)}") from error
        return Cell(
            scenario=self.path.stem,
            axes=dict(axes),
            tool=content.tool,
            server=content.server,
            load=tool_load,
            load_text=load_values,
            limits=Limits(**limits.model_dump()),
            budgets=tuple(budget for budget in budgets if budget.matches(axes)),
            study=content.study,
            sweep=content.sweep,
            client=content.client,
            conditions={axis: axes[axis] for axis in content.conditions},
            tolerated_errors=content.tolerated_errors,
            per_core=self.cores(axes, limits),
            cpus=axes.get("cpus", content.cpus),  # type: ignore[arg-type]  # checked to be one of them
            link_rate=link_rate(axes.get("link_rate", content.link_rate)),
            fresh_server=content.fresh_server,
            allow_substitutes=content.allow_substitutes,
        )

    def load(self, values: Mapping[str, Any], axes: Mapping[str, str]) -> Any:
        """The tool's own load, checked."""
        try:
            return self.tool.Load.model_validate(dict(values))
        except ValidationError as error:
            where = ", ".join(f"{axis}={value}" for axis, value in axes.items())
            raise self.wrong(f"load: {explain(error, self.tool.Load)} (cell {where})") from error

    def cores(self, axes: Mapping[str, str], limits: LimitsTable) -> float | None:
        """How many cores a rate per core is divided by; None where none is asked."""
        key = self.content.per_core
        if key is None:
            return None
        if key == "cpu" and limits.cpu:
            return limits.cpu
        if key not in axes:
            raise self.wrong(f"per_core = {key!r} is neither an axis nor a CPU limit; {nearest(key, axes)}")
        try:
            cores = float(axes[key])
        except ValueError:
            cores = math.nan
        if not 0 < cores < math.inf:
            raise self.wrong(f"per_core: {key} = {axes[key]!r} is no number of cores")
        return cores

    def budgets(self) -> Iterator[Budget]:
        """Every budget; one that matches no cell of any profile is refused."""
        for number, table in enumerate(self.whole.budgets):
            try:
                made = budget(table, self.whole)
            except UsageError as error:
                raise self.wrong(f"budgets[{number}] {error}") from error
            if not any(made.matches(axes) for grid in self.grids for axes in product(_narrowed(grid, made))):
                raise self.wrong(f"budgets[{number}] matches no cell of any profile: {made.text}")
            yield made

    def references(self, cell: Cell, budgets: tuple[Budget, ...]) -> Iterator[Cell]:
        """The cells that a cell's ratio budgets compare it with."""
        for asked in cell.budgets:
            if asked.kind == "ratio":
                yield self.cell({**cell.axes, **asked.reference}, budgets)

    def check_cells(self, cells: tuple[Cell, ...]) -> None:
        """Names are unique and fit a folder, budgets of a cell have keys of their own, a sweep is one valid load."""
        known: dict[str, Cell] = {}
        for cell in cells:
            if cell.id in known:
                raise self.wrong(f"[axes]: two cells are both called {cell.id!r}; name a value differently")
            if len(cell.id) > _LONGEST_NAME:
                raise self.wrong(f"[axes]: a cell's name has {len(cell.id)} characters: {cell.id[:60]}…")
            texts = [asked.text for asked in cell.budgets]
            if doubled := [text for text in texts if texts.count(text) > 1]:
                raise self.wrong(f"budgets: {doubled[0]!r} stands twice for {cell.id}")
            known[cell.id] = cell
        if cells and self.content.sweep is not None:
            sweep = self.content.sweep
            self.load({**cells[0].load_text, sweep: self.content.axes[sweep]}, {sweep: "*"})


def _servers_for(tool: str) -> str:
    """Which servers a tool can measure, as a hint."""
    names = [name for name in registry.keys("servers") if registry.key_of(tool) in registry.find("servers", name).TOOLS]
    return f"servers that fit: {', '.join(names)}" if names else "no server fits it"


def _narrowed(grid: Mapping[str, list[str]], made: Budget) -> dict[str, list[str]]:
    """The axes that decide whether a budget matches; the others have one value here."""
    named = {*made.where, *made.reference}
    return {axis: values if axis in named else values[:1] for axis, values in grid.items()}
