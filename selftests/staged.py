"""Runs whose outcome is written in the scenario's name, for the self-tests of the plugin.

A scenario called `passes`, `fails`, `invalid`, `infra_error`, `inconclusive` or `not_run` ends so, `emulated` with a
caveat; `interrupted` and `terminated` send their own process the signal in the middle of measuring, `twice` a second
one while its stand is undone, `breaks` raises an error that ends the run and `stumbles` one that nobody foresaw.
Nothing is measured. As a pytest plugin (`-p selftests.staged`) it works in another process too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from weighbridge import campaign
from weighbridge.campaign import judging
from weighbridge.errors import InfrastructureError
from weighbridge.judge import judge
from weighbridge.measure import Group, Measured
from weighbridge.model import Cell, Sample, Status, Verdict

REPOSITORY = Path(__file__).parent.parent

SCENARIO = """
title = "Staged"
claim = "staged"
tool = "qperf"
server = "qperf"
[axes]
runtime = {runtimes}
[load]
tests = ["tcp_lat"]
duration = "1s"
"""
BUDGET = """
[[budgets]]
metric = "latency_mean"
at_most = "1 ms"
"""
CLAIM = '''
"""A claim."""
def test_keeps_its_budgets(cell, outcome):
    assert outcome.status == "pass", outcome.reason
'''


def scenario(*, runtimes: tuple[str, ...] = ("host",), budgets: str = BUDGET) -> str:
    """Give the text of a scenario file; budgets=`budgets = []` for none."""
    head, axes, rest = SCENARIO.partition("[axes]")
    keys = budgets if "[[" not in budgets else ""
    tables = budgets if "[[" in budgets else ""
    return head + keys + "\n" + (axes + rest).format(runtimes=list(runtimes)) + tables


def measure(group: Group, *_: Any, observer: Any, done: Any, **__: Any) -> dict[str, Measured]:
    name = group.cells[0].scenario
    if name == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if name == "twice":
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            Path("undone").touch()
    if name == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    if name == "breaks":
        raise InfrastructureError("the machine is on fire")
    if name == "stumbles":
        raise ZeroDivisionError("nobody foresaw this")
    found = {cell.id: _measured(name, cell) for cell in group.cells}
    if not done and all(measured.samples for measured in found.values()):
        observer.round_finished(group, 0, {identity: measured.samples for identity, measured in found.items()})
    return found


def _measured(name: str, cell: Cell) -> Measured:
    if name == "invalid":
        return Measured(cell, problem=(Status.INVALID, "2 + 2 = 5 was printed"))
    if name == "infra_error":
        return Measured(cell, problem=(Status.INFRA_ERROR, "the server did not come up"))
    figures = [Sample("latency_mean", "s", 0, 2e-3 if name == "fails" else 5e-4)]
    return Measured(cell, figures, caveat="emulated CPU" if name == "emulated" else None)


def _judge(budget: Any, cell: str, *rest: Any, **options: Any) -> Verdict | None:
    if cell.startswith("inconclusive"):
        return Verdict(cell, budget.text, Status.INCONCLUSIVE, "n = 1 cannot decide")
    return judge(budget, cell, *rest, **options)


def _unavailable(_: Any, cell: Cell) -> str | None:
    return "there is no such machine" if cell.scenario == "not_run" else None


PATCHES: Sequence[tuple[ModuleType, str, Any]] = (
    (campaign, "measure", measure),
    (campaign, "unavailable", _unavailable),
    (judging, "judge", _judge),
)
"""What stands in for the engine, by module and name."""


def pytest_configure() -> None:
    """Stage every run of this process."""
    for module, name, value in PATCHES:
        setattr(module, name, value)
