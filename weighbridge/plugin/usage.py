"""The options of a run, and what is refused before anything is measured.

As everything that a plain pytest run loads, it imports nothing of the engine.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from weighbridge.scenario import Scenario


def add_options(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    group = parser.getgroup("weighbridge", "performance of container runtimes, networks and sidecars")
    # The registry would import the engine for it.
    targets = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent.parent / "targets")]))
    group.addoption("--target", default="lab", help=f"where to measure: {', '.join(targets)} (default: lab)")
    group.addoption("--profile", help="smoke, quick (default), standard or study (default in replay)")
    group.addoption(
        "--scenario", action="append", default=[], metavar="NAME", help="only this scenario; may be repeated"
    )
    for option, metavar, text in (
        ("--scenarios", "DIR", "folder of scenario files (default: scenarios/)"),
        ("--run-dir", "DIR", "where to write this run (default: reports/runs/<run id>)"),
        ("--resume", "RUN", "go on with an interrupted run directory"),
    ):
        group.addoption(option, metavar=metavar, help=f"{text}; write {option}={metavar}, in one word")
    group.addoption(
        "--link-rate", metavar="RATE", help="line rate of the lab's link in every scenario: '10 Gbit/s', 'unshaped'"
    )
    group.addoption("--seed", type=int, help="what shuffles the rounds (default: random, recorded)")
    group.addoption("--plan", action="store_true", help="list cells, commands and predicted time; measure nothing")
    group.addoption(
        "--strict-verdicts",
        action="store_true",
        help="exit 4 when a verdict is inconclusive or no cell could be measured",
    )


def foreign_root(config: pytest.Config) -> str | None:
    """Tell when the rootdir comes from an option's value; None when it does not.

    pytest chooses its rootdir before it knows the options of a conftest.py, so it takes the second word of
    `--run-dir DIR` for a test folder when DIR exists; settings, claims and scenarios would be those of DIR.
    """
    start = config.invocation_params.dir
    if config.option.rootdir or config.option.inifilename:
        return None
    if config.inipath is not None and start.is_relative_to(config.inipath.parent):
        return None
    for option in ("--scenarios", "--run-dir", "--resume"):
        value = config.getoption(option)
        if value and value in config.invocation_params.args and (start / value).exists():
            return f"pytest took {value} for its root; write {option}={value}, in one word"
    return None


def unclaimed(config: pytest.Config, scenarios: Iterable[Scenario], asked: Collection[str]) -> str | None:
    """Name a scenario that no test judges: its claim is mistyped, and it would silently measure nothing.

    `asked` are the scenarios of which some collected test has cells.
    """
    tests = config.rootpath / "tests"
    # Whoever names test files leaves out the claims of the others on purpose.
    narrowed = config.args_source is pytest.Config.ArgsSource.ARGS and not config.getoption("--scenario")
    if narrowed or not tests.is_dir():
        return None

    claims = {path.stem.removeprefix("test_") for path in tests.rglob("test_*.py")}
    for scenario in scenarios:
        if scenario.claim not in claims and scenario.name not in asked:
            near = difflib.get_close_matches(scenario.claim, claims, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            wanted = f"tests/test_{scenario.claim}.py"
            return f"scenario {scenario.name} claims {scenario.claim!r}, but there is no {wanted}{hint}"
    return None
