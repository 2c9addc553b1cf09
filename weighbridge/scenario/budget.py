"""Budgets of a scenario file: text in, checked bounds out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

from weighbridge import metrics, registry
from weighbridge.errors import UsageError
from weighbridge.model import Budget
from weighbridge.scenario.file import BudgetTable, ScenarioFile, nearest
from weighbridge.units import COUNT, FRACTION, parse

_RATIO = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x\s+(\w+\s*=\s*[^\s,=]+(?:\s*,\s*\w+\s*=\s*[^\s,=]+)*)\s*\Z")
_OF_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s+of\s+limit\s*\Z")
_PER_CORE = "request_rate_per_core"
_BARE = re.compile(r"\s*\d+(?:\.\d+)?\s*\Z")

Bound = tuple[Literal["absolute", "ratio", "limit"], float, str, dict[str, str]]


def budget(table: BudgetTable, content: ScenarioFile) -> Budget:
    """The budget of one `[[budgets]]` table.

    Raises UsageError, in one line without the table's own name, when it says something impossible.
    """
    measured = metrics.metric(table.metric)
    _check_given(measured.name, content)
    if (table.at_most is None) == (table.at_least is None):
        raise UsageError("needs exactly one of at_most and at_least")
    text = table.at_most if table.at_most is not None else str(table.at_least)
    side: Literal["at_most", "at_least"] = "at_most" if table.at_most is not None else "at_least"
    where = _where(table, content)
    for target in table.targets:
        if registry.key_of(target) not in registry.keys("targets"):
            raise UsageError(f"targets: {target!r} is none; {nearest(target, registry.keys('targets'))}")
    if not measured.better:
        raise UsageError(f"{table.metric} is neither better when lower nor when higher, so no budget can bound it")
    if side != ("at_most" if measured.better == "lower" else "at_least"):
        raise UsageError(f"{table.metric} is better when {measured.better}, so {side} would reward the worse")
    kind, value, unit, reference = _bound(text, measured, content)
    if value <= 0:
        raise UsageError(f"{text!r} bounds nothing: judging takes logarithms, so a bound lies above zero")
    return Budget(table.metric, side, kind, value, unit, where, reference, tuple(table.targets), table.set_for)


def _check_given(name: str, content: ScenarioFile) -> None:
    """Refuse a metric that the scenario's tool never gives and that cannot be derived from what it does."""
    patterns: tuple[str, ...] = registry.find("tools", content.tool).METRICS
    if name in metrics.OF_THE_STAND and content.server is not None:
        if not content.fresh_server:
            raise UsageError(
                f"{name} is taken when a server starts; write `fresh_server = true` to start one every round"
            )
        return
    if name == _PER_CORE and "request_rate" in patterns:
        if content.per_core is None:
            raise UsageError(f"{name} needs the key per_core: the axis or limit that counts the cores under budget")
        return
    if not any(fnmatchcase(name, pattern) for pattern in patterns):
        known = [key for key in (*metrics.METRICS, "latency_p99") if any(fnmatchcase(key, one) for one in patterns)]
        raise UsageError(f"{content.tool} never gives {name}; {nearest(name, known)}")


def _where(table: BudgetTable, content: ScenarioFile) -> dict[str, tuple[str, ...]]:
    where = {axis: (v,) if isinstance(v, str) else tuple(v) for axis, v in table.where.items()}
    for axis, values in where.items():
        known = _values(axis, content, f"where.{axis}")
        for wanted in values:
            if wanted not in known:
                raise UsageError(f"matches no cell: {axis} is never {wanted!r}; {nearest(wanted, known)}")
    return where


def _values(axis: str, content: ScenarioFile, key: str) -> Mapping[str, None]:
    """Every value that an axis takes in any profile."""
    if axis not in content.axes:
        raise UsageError(f"{key} is no axis; {nearest(axis, content.axes)}")
    more = (value for profile in content.profiles.values() for value in profile.axes.get(axis, ()))
    return dict.fromkeys((*content.axes[axis], *more))


def _bound(text: str, measured: metrics.Metric, content: ScenarioFile) -> Bound:
    if match := _OF_LIMIT.match(text):
        if measured.name != "throughput":
            raise UsageError("only throughput has a physical limit")
        return "limit", float(match[1]) / 100, FRACTION, {}
    if match := _RATIO.match(text):
        pairs = [(axis.strip(), value.strip()) for axis, _, value in (p.partition("=") for p in match[2].split(","))]
        for axis, value in pairs:
            known = _values(axis, content, repr(axis))
            if value not in known:
                raise UsageError(f"{axis} is never {value!r}; {nearest(value, known)}")
        if len(dict(pairs)) != len(pairs):
            raise UsageError(f"{text!r} names an axis twice")
        return "ratio", float(match[1]), "1", dict(pairs)
    if measured.unit == COUNT and _BARE.match(text):
        return "absolute", float(text), COUNT, {}
    try:
        quantity = parse(text)
    except UsageError as error:
        raise UsageError(f"{error}; a ratio is written '1.6 x runtime=runc'") from error
    if quantity.unit != measured.unit:
        wanted = "a bare number" if measured.unit == COUNT else measured.unit
        raise UsageError(f"{wanted} is wanted for {measured.name}, {text!r} is in {quantity.unit}")
    return "absolute", quantity.value, quantity.unit, {}
