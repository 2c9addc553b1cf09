"""The shape of a scenario file: TOML in, strict models out, and the JSON Schema that editors use.

Nothing in a scenario is executed. An unknown key or a quantity without its unit is an error that names
the file, the key and the nearest valid one.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from weighbridge.errors import ScenarioError, UsageError
from weighbridge.units import BIT_RATE, Count, Fraction, Size, parse_as

PROFILES = ("smoke", "quick", "standard", "study")
"""From the shortest to the published study's own parameters; quick is the default."""

LARGEST = 1_000_000
"""Bytes of a scenario file; the shipped ones have about a thousand."""

_NAME = re.compile(r"[A-Za-z0-9_]+\Z")


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _number(value: Any) -> Any:
    """An axis writes numbers as text."""
    return float(value) if isinstance(value, int | str) and not isinstance(value, bool) else value


AxisValue = Annotated[str, BeforeValidator(_text, json_schema_input_type=int | str)]
Axes = dict[str, Annotated[list[AxisValue], Field(min_length=1)]]


def _rising(rounds: list[int]) -> list[int]:
    if not rounds or rounds[0] < 1 or sorted(set(rounds)) != rounds:
        raise ValueError(f"{rounds} is no rising list of round numbers from 1")
    return rounds


Looks = Annotated[list[int], AfterValidator(_rising)]
"""After how many rounds a group is judged."""


UNSHAPED = "unshaped"


def _link_rate(text: str) -> str:
    try:
        link_rate(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


def link_rate(text: str) -> float | None:
    """A line rate in bit/s; None for `unshaped`.

    Raises UsageError when it is neither.
    """
    if text == UNSHAPED:
        return None
    rate = parse_as(text, BIT_RATE)
    if rate <= 0:
        raise UsageError(f"a link of {text} carries nothing")
    return rate


LinkRate = Annotated[str, AfterValidator(_link_rate)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class LimitsTable(_Strict):
    """`[limits]`: what the server (or the component under budget) may use."""

    cpu: Annotated[float, BeforeValidator(_number, json_schema_input_type=float | str)] | None = Field(
        default=None, gt=0
    )
    memory: Size | None = Field(default=None, gt=0)
    connection_limit: Count | None = Field(default=None, gt=0)
    request_cpu: Annotated[float, BeforeValidator(_number, json_schema_input_type=float | str)] | None = Field(
        default=None, gt=0
    )
    request_memory: Size | None = Field(default=None, gt=0)
    sandbox_overhead: Literal["inside", "outside"] = "inside"

    @model_validator(mode="after")
    def _requests_within_limits(self) -> LimitsTable:
        for name in ("cpu", "memory"):
            limit, request = getattr(self, name), getattr(self, f"request_{name}")
            if request is not None and limit is not None and request > limit:
                raise ValueError(f"request_{name} is more than the limit {name}")
        return self


LimitsText = Annotated[dict[str, Any], WithJsonSchema(LimitsTable.model_json_schema())]
"""Limits as written: an axis or a profile may add to them, so they are checked cell by cell."""


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
    limits: LimitsText = {}
    rounds: Looks | None = None
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
    cpus: Literal["free", "shared", "split"] = Field(
        default="free", description="processors of client and server: any, one for both, or each its own"
    )
    link_rate: LinkRate = Field(default="1 Gbit/s", description="line rate between the nodes, or 'unshaped'")
    fresh_server: bool = Field(default=False, description="every round starts the server anew")
    allow_substitutes: bool = Field(
        default=False, description="judge figures of a stand-in too: an emulated processor, a switch in user space"
    )
    conditions: list[str] = []
    tolerated_errors: Fraction = Field(default=0.001, ge=0, lt=1)
    per_core: str | None = Field(default=None, description="the axis or limit that counts the cores under budget")
    limits: LimitsText = {}
    load: dict[str, Any] = {}
    rounds: Looks | None = None
    profiles: dict[Literal["smoke", "quick", "standard", "study"], ProfileTable] = {}
    budgets: list[BudgetTable]


def schema() -> str:
    """The JSON Schema of scenario files, for editors."""
    document = ScenarioFile.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(document, indent=2) + "\n"


def read(path: Path) -> ScenarioFile:
    """Read and check the shape of one file.

    Raises ScenarioError, in one line, naming the file, the key and the nearest valid one.
    """
    if not _NAME.match(path.stem):
        raise ScenarioError(f"{path}: the file's name becomes the scenario's: use letters, digits and underscores")
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise ScenarioError(f"{path}: no scenario has more than {LARGEST} bytes")
        document = tomllib.loads(raw.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScenarioError(f"{path}: cannot be read as TOML: {' '.join(str(error).split())}") from error
    document.pop("$schema", None)
    try:
        return ScenarioFile.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {explain(error, ScenarioFile)}") from error


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first thing wrong, in one line: the key, what is wrong, and the nearest valid key."""
    found = error.errors(include_url=False)
    # A misspelt key is missing under its right name, too: the misspelling explains both.
    first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _fields_at(model, first["loc"][:-1])
        return f"unknown key {where!r}; {nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "literal_error" and first["loc"][-1] == "[key]":
        return f"unknown key {'.'.join(map(str, first['loc'][:-1]))!r}; {nearest(str(first['loc'][-2]), PROFILES)}"
    if first["type"] == "missing":
        hint = "; write `budgets = []` when none is meant" if where == "budgets" else ""
        return f"the key {where!r} is missing{hint}"
    return f"{where}: {' '.join(first['msg'].removeprefix('Value error, ').split())}"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {"budgets": BudgetTable, "profiles": ProfileTable, "limits": LimitsTable}
    return list(tables.get(str(location[0]), model).model_fields) if location else list(model.model_fields)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest known word, or at all of them."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
