"""The words of the suite as frozen, plain data: cell, sample, budget, verdict, evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from weighbridge.units import show

STRUCTURAL_AXES = ("runtime", "network", "placement", "path", "sidecar")
"""The axes that say what is stood up; every other axis says how it is loaded or set up."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

_BARE_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the component under budget may use: CPUs, bytes of memory, open connections.

    `request_cpu` is its share of a busy machine, in CPUs, as a Kubernetes request is.
    """

    cpu: float | None = None
    memory: float | None = None
    connection_limit: int | None = None
    request_cpu: float | None = None
    request_memory: float | None = None
    sandbox_overhead: Literal["inside", "outside"] = "inside"
    """Whether what a sandbox itself uses (a virtual machine monitor, a user-space kernel) counts against the limits."""


@dataclass(frozen=True, slots=True)
class Budget:
    """An SLO: a bound on one metric of the cells it matches.

    `kind` says what `value` means: SI base units (`absolute`), a factor of the reference cell's
    figure (`ratio`) or a fraction of the physical limit (`limit`).
    """

    metric: str
    bound: Literal["at_most", "at_least"]
    kind: Literal["absolute", "ratio", "limit"]
    value: float
    unit: str
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reference: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    set_for: str = ""

    def matches(self, axes: Mapping[str, str]) -> bool:
        """Whether a cell with these axes is under this budget; a cell is never compared with itself."""
        itself = bool(self.reference) and all(axes.get(axis) == value for axis, value in self.reference.items())
        return not itself and all(axes.get(axis) in values for axis, values in self.where.items())

    @property
    def text(self) -> str:
        """The budget as one phrase, the key of its verdict: `latency_mean at most 1.6 x runtime=runc`."""
        if self.kind == "ratio":
            bound = f"{self.value:g} x " + ",".join(f"{axis}={value}" for axis, value in self.reference.items())
        elif self.kind == "limit":
            bound = f"{self.value * 100:g} % of limit"
        else:
            bound = show(self.value, self.unit)
        return f"{self.metric} {self.bound.replace('_', ' ')} {bound}"


def cell_id(scenario: str, axes: Mapping[str, str]) -> str:
    """The name of the cell with these axes: `http_rate-runc-connections=16`; a bare number names its axis."""
    parts = [f"{axis}={value}" if _BARE_NUMBER.match(value) else value for axis, value in axes.items()]
    return "-".join([scenario, *parts]).replace("/", "-per-")


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One combination of axis values of one scenario: one test."""

    scenario: str
    axes: Mapping[str, str]
    tool: str
    server: str | None
    load: Any
    """The tool's own `Load` for this cell."""
    load_text: Mapping[str, Any] = field(default_factory=dict)
    """The same as the scenario wrote it, for the run that covers a whole sweep."""
    limits: Limits = Limits()
    budgets: tuple[Budget, ...] = ()
    study: str | None = None
    sweep: str | None = None
    """The load axis that one tool run covers whole."""
    client: Literal["pod", "node"] = "pod"
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Axes that neither the tool nor the limits know: settings of a proxy or a server."""
    tolerated_errors: float = 0.001
    """Share of requests that may fail before a run is invalid."""
    per_core: float | None = None
    """Cores given to the component under budget."""
    cpus: Literal["free", "shared", "split"] = "free"
    """Where client and server run: where the kernel likes, both on one processor, or each on processors of its own."""
    link_rate: float | None = 1e9
    """Line rate (bit/s) that a link which can be shaped is shaped to; None leaves it unshaped."""
    fresh_server: bool = False
    """Whether every round starts the server anew, which is what measures its start-up."""
    allow_substitutes: bool = False
    """Whether verdicts may rest on figures of a stand-in, such as an emulated processor or a switch in user space."""

    @property
    def id(self) -> str:
        """The name of the cell in test ids, reports and folders; unique within a run."""
        return cell_id(self.scenario, self.axes)

    def axis(self, name: str, default: str = "") -> str:
        """The value of an axis, or `default` where the scenario has no such axis."""
        return self.axes.get(name, default)

    @property
    def placement(self) -> str:
        """`same-node` or `cross-node`."""
        return self.axis("placement", "cross-node")

    @property
    def stand_key(self) -> tuple[object, ...]:
        """Cells with the same key share one server and client."""
        structure = tuple(self.axis(name) for name in STRUCTURAL_AXES)
        placed = (self.cpus, self.link_rate, self.fresh_server)
        return (*structure, self.server, self.limits, self.client, *placed, tuple(self.conditions.items()))

    @property
    def slot_key(self) -> tuple[object, ...]:
        """Cells with the same key are measured by one run of the tool."""
        rest = tuple((axis, value) for axis, value in self.axes.items() if axis != self.sweep)
        return (self.scenario, rest)


@dataclass(frozen=True, slots=True)
class Sample:
    """One metric of one tool run; `value` is None where `invalid` says why there is no figure."""

    metric: str
    unit: str
    round: int
    value: float | None
    invalid: str | None = None


@dataclass(frozen=True, slots=True)
class PhysicalLimit:
    """What the wire could carry at most for TCP payload, in bit/s, and how that follows."""

    throughput: float
    formula: str


class Status(StrEnum):
    """What is known about a budget after measuring, worst first."""

    FAIL = "fail"
    INVALID = "invalid"
    INFRA_ERROR = "infra-error"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not-run"
    PASS = "pass"  # noqa: S105 - a verdict, not a password


WORST_FIRST = tuple(Status)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one budget of one cell.

    `ratio` is the measured figure over the bound's reference (the other cell, the absolute bound or
    the physical limit); `interval` its confidence interval, absent for n = 1.
    """

    cell: str
    budget: str
    status: Status
    reason: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0


def worst(verdicts: tuple[Verdict, ...]) -> Status:
    """The status that stands for several verdicts; a cell without a budget passes."""
    return min((verdict.status for verdict in verdicts), key=WORST_FIRST.index, default=Status.PASS)
