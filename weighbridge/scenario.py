"""Scenario files: TOML in, checked scenario out, and its expansion into cells.

Nothing in a scenario is executed. An unknown key, a quantity without its unit, an axis value no file
answers for, or a budget that matches no cell is an error that names the file, the key and the
nearest valid one.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from weighbridge import metrics, registry
from weighbridge.errors import ScenarioError, UsageError
from weighbridge.model import STRUCTURAL_AXES, Budget, Cell, Limits
from weighbridge.units import FRACTION, Fraction, Size, parse

PROFILES = ("smoke", "quick", "standard", "study")
"""From the shortest to the published study's own parameters; quick is the default."""

LOOKS = {"smoke": (1,), "quick": (6, 10), "standard": (10, 14, 20, 28, 40), "study": (10, 14, 20, 28, 40)}
"""After how many rounds a group is judged, by profile (planned looks)."""

_KIND_OF_AXIS = {"runtime": "runtimes", "network": "networks"}
_CHOICES = {
    "placement": ("same-node", "cross-node"),
    "path": ("pod-ip", "cluster-ip", "node-port"),
    "sidecar": ("none", "inbound", "outbound", "both"),
}

AxisValue = Annotated[str, BeforeValidator(lambda v: str(v) if isinstance(v, int) and not isinstance(v, bool) else v)]
Axes = dict[str, Annotated[list[AxisValue], Field(min_length=1)]]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class LimitsTable(_Strict):
    """`[limits]`: what the server (or the component under budget) may use."""

    cpu: Annotated[float | None, BeforeValidator(lambda v: float(v) if isinstance(v, int | str) else v)] = None
    memory: Size | None = None
    connection_limit: Annotated[int | None, BeforeValidator(lambda v: int(v) if isinstance(v, str) else v)] = None


class BudgetTable(_Strict):
    """`[[budgets]]`: exactly one of `at_most` and `at_least`."""

    metric: str
    where: dict[str, AxisValue | list[AxisValue]] = {}
    at_most: str | None = None
    at_least: str | None = None
    set_for: str = ""
    targets: list[str] = []


class ProfileTable(_Strict):
    """`[profiles.NAME]`: what that profile changes; `omit` says why it leaves the scenario out."""

    axes: Axes = {}
    load: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    rounds: list[int] | None = None
    omit: str | None = None


class ScenarioFile(_Strict):
    """A whole scenario file; the JSON Schema for editors is made from this."""

    title: str
    claim: str = Field(description="the test module tests/test_<claim>.py that asserts it")
    tool: str
    server: str | None = None
    study: str | None = None
    axes: Axes
    sweep: str | None = None
    client: Literal["pod", "node"] = "pod"
    conditions: list[str] = []
    tolerated_errors: Fraction = 0.001
    per_core: str | None = Field(default=None, description="the axis or limit that counts the cores under budget")
    limits: dict[str, Any] = {}
    load: dict[str, Any] = {}
    rounds: list[int] | None = None
    profiles: dict[Literal["smoke", "quick", "standard", "study"], ProfileTable] = {}
    budgets: list[BudgetTable]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario with one profile applied."""

    name: str
    path: Path
    title: str
    claim: str
    study: str | None
    tool: str
    profile: str
    looks: tuple[int, ...]
    cells: tuple[Cell, ...]
    references: Mapping[str, tuple[Cell, ...]]
    """For each cell id the cells that its ratio budgets refer to."""
    digest: str
    """SHA-256 over the resolved content: two runs asked the same question when it is equal."""
    tolerated_errors: float
    omit: str | None


def load(path: Path, profile: str = "quick") -> Scenario:
    """Read, check and expand one scenario file.

    Raises ScenarioError naming the file, the key and the remedy.
    """
    content = _read(path)
    overrides = content.profiles.get(profile, ProfileTable())  # type: ignore[call-overload]  # profile is checked by the caller
    for axis in overrides.axes:
        if axis not in content.axes:
            raise ScenarioError(
                f"{path}: profiles.{profile}.axes.{axis} is not in [axes]; {_nearest(axis, content.axes)}"
            )
    axes = {**content.axes, **overrides.axes}
    resolved = content.model_copy(
        update={
            "axes": axes,
            "load": {**content.load, **overrides.load},
            "limits": {**content.limits, **overrides.limits},
            "profiles": {},
        }
    )
    reading = _Reading(path, resolved)
    budgets = tuple(reading.budget(number, table, content) for number, table in enumerate(content.budgets))
    cells = tuple(reading.cell(values, budgets) for values in _product(axes))
    references = {
        cell.id: tuple(
            reading.cell({**cell.axes, **budget.reference}, budgets)
            for budget in cell.budgets
            if budget.kind == "ratio"
        )
        for cell in cells
    }
    canonical = json.dumps({**resolved.model_dump(mode="json"), "profile": profile}, sort_keys=True)
    return Scenario(
        name=path.stem,
        path=path,
        title=content.title,
        claim=content.claim,
        study=content.study,
        tool=content.tool,
        profile=profile,
        looks=tuple(overrides.rounds or content.rounds or LOOKS[profile]),
        cells=() if overrides.omit else cells,
        references=references,
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
        tolerated_errors=content.tolerated_errors,
        omit=overrides.omit,
    )


def load_all(folder: Path, profile: str = "quick", names: Iterable[str] = ()) -> tuple[Scenario, ...]:
    """Every scenario of a folder, or those called `names`.

    Raises ScenarioError; UsageError when a name has no file.
    """
    if profile not in PROFILES:
        raise UsageError(f"no profile is called {profile!r}; {_nearest(profile, PROFILES)}")
    paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    if not paths:
        raise UsageError(f"{folder} holds no scenario files (*.toml)")
    for name in names:
        if name not in paths:
            raise UsageError(f"no scenario is called {name!r} in {folder}; {_nearest(name, paths)}")
    return tuple(load(paths[name], profile) for name in (names or paths))


def schema() -> str:
    """The JSON Schema of scenario files, for editors."""
    document = ScenarioFile.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(document, indent=2) + "\n"


def _read(path: Path) -> ScenarioFile:
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read as TOML: {error}") from error
    document.pop("$schema", None)
    try:
        return ScenarioFile.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {explain(error, ScenarioFile)}") from error


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing wrong, in one line: the key, what is wrong, and the nearest valid key."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _fields_at(model, first["loc"][:-1])
        return f"unknown key {where!r}; {_nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        hint = "; write `budgets = []` when none is meant" if where == "budgets" else ""
        return f"the key {where!r} is missing{hint}"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {"budgets": BudgetTable, "profiles": ProfileTable, "limits": LimitsTable}
    return list(tables.get(str(location[0]), model).model_fields) if location else list(model.model_fields)


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


def _product(axes: Mapping[str, list[str]]) -> Iterable[dict[str, str]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


_RATIO = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x\s+(\w+\s*=\s*\S+(?:\s*,\s*\w+\s*=\s*\S+)*)\s*\Z")
_OF_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s+of\s+limit\s*\Z")


class _Reading:
    """One file being read: every message names it."""

    def __init__(self, path: Path, content: ScenarioFile) -> None:
        self.path = path
        self.content = content
        try:
            self.tool = registry.find("tools", content.tool)
            if content.server is not None:
                registry.find("servers", content.server)
        except UsageError as error:
            raise self.wrong(str(error)) from error
        self.load_keys = set(self.tool.Load.model_fields)
        self.check_axes()

    def wrong(self, what: str) -> ScenarioError:
        return ScenarioError(f"{self.path}: {what}")

    def check_axes(self) -> None:
        content = self.content
        settable = {*STRUCTURAL_AXES, *self.load_keys, *LimitsTable.model_fields, *content.conditions}
        for axis, values in content.axes.items():
            if axis not in settable:
                raise self.wrong(f"axes.{axis} sets nothing; {_nearest(axis, sorted(settable))}")
            if len(set(values)) != len(values):
                raise self.wrong(f"axes.{axis} names a value twice")
            for value in values:
                self.check_value(axis, value)
        if content.sweep is not None and content.sweep not in content.axes:
            raise self.wrong(f"sweep = {content.sweep!r} is no axis; {_nearest(content.sweep, content.axes)}")
        for key in content.load:
            if key not in self.load_keys:
                raise self.wrong(
                    f"unknown key 'load.{key}' for {content.tool}; {_nearest(key, sorted(self.load_keys))}"
                )

    def check_value(self, axis: str, value: str) -> None:
        if axis in _CHOICES:
            if value not in _CHOICES[axis]:
                raise self.wrong(f"axes.{axis}: {value!r} is unknown; {_nearest(value, _CHOICES[axis])}")
        elif axis in _KIND_OF_AXIS:
            try:
                registry.find(_KIND_OF_AXIS[axis], value)
            except UsageError as error:
                raise self.wrong(f"axes.{axis}: {error}") from error

    def cell(self, axes: Mapping[str, str], budgets: tuple[Budget, ...]) -> Cell:
        content = self.content
        where = ", ".join(f"{axis}={value}" for axis, value in axes.items())
        load_values = {**content.load, **{axis: value for axis, value in axes.items() if axis in self.load_keys}}
        limit_values = {**content.limits, **{a: v for a, v in axes.items() if a in LimitsTable.model_fields}}
        try:
            tool_load = self.tool.Load.model_validate(load_values)
        except ValidationError as error:
            raise self.wrong(f"load: {explain(error, self.tool.Load)} (cell {where})") from error
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
            limits=Limits(limits.cpu, limits.memory, limits.connection_limit),
            budgets=tuple(budget for budget in budgets if budget.matches(axes)),
            study=content.study,
            sweep=content.sweep,
            client=content.client,
            conditions={axis: axes[axis] for axis in content.conditions},
            tolerated_errors=content.tolerated_errors,
            per_core=self.cores(axes, limits),
        )

    def cores(self, axes: Mapping[str, str], limits: LimitsTable) -> float | None:
        key = self.content.per_core
        if key is None:
            return None
        if key == "cpu" and limits.cpu:
            return limits.cpu
        if key not in axes:
            raise self.wrong(f"per_core = {key!r} is neither an axis nor a CPU limit; {_nearest(key, axes)}")
        return float(axes[key])

    def budget(self, number: int, table: BudgetTable, content: ScenarioFile) -> Budget:
        key = f"budgets[{number}]"
        try:
            measured = metrics.metric(table.metric)
        except UsageError as error:
            raise self.wrong(f"{key}.metric: {error}") from error
        if (table.at_most is None) == (table.at_least is None):
            raise self.wrong(f"{key} needs exactly one of at_most and at_least")
        bound: Literal["at_most", "at_least"] = "at_most" if table.at_most is not None else "at_least"
        text = table.at_most if table.at_most is not None else table.at_least
        where = {axis: (v,) if isinstance(v, str) else tuple(v) for axis, v in table.where.items()}
        for axis, values in where.items():
            if axis not in content.axes:
                raise self.wrong(f"{key}.where.{axis} is no axis; {_nearest(axis, content.axes)}")
            known = {*content.axes[axis], *(v for p in content.profiles.values() for v in p.axes.get(axis, []))}
            for wanted in values:
                if wanted not in known:
                    raise self.wrong(
                        f"{key} matches no cell: {axis} is never {wanted!r}; {_nearest(wanted, sorted(known))}"
                    )
        for target in table.targets:
            if registry.key_of(target) not in registry.keys("targets"):
                raise self.wrong(f"{key}.targets: {_nearest(target, registry.keys('targets'))}")
        kind, value, unit, reference = self.bound(key, str(text), measured, content)
        if bound == ("at_least" if measured.better == "lower" else "at_most"):
            raise self.wrong(
                f"{key}: {table.metric} is better when {measured.better}, so {bound} would reward the worse"
            )
        return Budget(table.metric, bound, kind, value, unit, where, reference, tuple(table.targets), table.set_for)

    def bound(
        self, key: str, text: str, measured: metrics.Metric, content: ScenarioFile
    ) -> tuple[Literal["absolute", "ratio", "limit"], float, str, dict[str, str]]:
        if match := _OF_LIMIT.match(text):
            if measured.name != "throughput":
                raise self.wrong(f"{key}: only throughput has a physical limit")
            return "limit", float(match[1]) / 100, FRACTION, {}
        if match := _RATIO.match(text):
            pairs = (pair.partition("=") for pair in match[2].split(","))
            reference = {axis.strip(): value.strip() for axis, _, value in pairs}
            for axis, value in reference.items():
                if axis not in content.axes:
                    raise self.wrong(f"{key}: {axis!r} is no axis; {_nearest(axis, content.axes)}")
                if value not in content.axes[axis]:
                    raise self.wrong(f"{key}: {axis} is never {value!r}; {_nearest(value, content.axes[axis])}")
            return "ratio", float(match[1]), "1", reference
        try:
            quantity = parse(text)
        except UsageError as error:
            raise self.wrong(f"{key}: {error}; a ratio is written '1.6 x runtime=runc'") from error
        if quantity.unit != measured.unit:
            raise self.wrong(
                f"{key}: {table_unit(measured)} is wanted for {measured.name}, {text!r} is in {quantity.unit}"
            )
        return "absolute", quantity.value, quantity.unit, {}


def table_unit(measured: metrics.Metric) -> str:
    """How a message names the dimension of a metric."""
    return "a bare number" if measured.unit == "1" else measured.unit
