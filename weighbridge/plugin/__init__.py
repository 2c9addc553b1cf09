"""The pytest plugin: options, marks, cells as tests, exit codes.

Nothing heavy is imported until a test asks for a `cell`, so that a plain pytest run pays nothing and
is not touched. The fixtures that tests use are in `fixtures/`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.plugin import usage

if TYPE_CHECKING:
    from weighbridge.campaign import Campaign
    from weighbridge.errors import WeighbridgeError
    from weighbridge.interrupt import Interrupts
    from weighbridge.model import Cell, Status

CAMPAIGN: pytest.StashKey[Campaign] = pytest.StashKey()
VERDICT: pytest.StashKey[Status] = pytest.StashKey()
"""What came of the cell of a test item, once that is known."""
FAILED_WITH: pytest.StashKey[int] = pytest.StashKey()
"""The exit code that an error of this package asks for."""
_REFUSED: pytest.StashKey[WeighbridgeError] = pytest.StashKey()
_SELECTED: pytest.StashKey[bool] = pytest.StashKey()
_INTERRUPTS: pytest.StashKey[Interrupts] = pytest.StashKey()
_FAILURES: pytest.StashKey[set[str]] = pytest.StashKey()

_MISSED, _USAGE, _INVALID, _INFRASTRUCTURE = 1, 2, 4, 6


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    usage.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark that gives a test cells of its own choice; refuse a folder that pytest took for its root."""
    if taken := usage.foreign_root(config):
        config.stash[FAILED_WITH] = _USAGE
        raise pytest.UsageError(taken)
    config.addinivalue_line("markers", "cells(scenario, axis=value): the cells of a scenario that this test is given")
    if config.option.markers and (config.rootpath / "scenarios").is_dir():
        from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

        try:
            for scenario in campaign_of(config).scenarios.values():
                for cell in scenario.cells:
                    _marks(config, cell)
        except WeighbridgeError as error:
            raise _refusal(config, error) from error


def campaign_of(config: pytest.Config) -> Campaign:
    """The run that the options ask for, made when it is first needed.

    Raises UsageError when they ask for something that does not exist.
    """
    if CAMPAIGN not in config.stash:
        from weighbridge.campaign import Campaign, Settings, default_runs  # noqa: PLC0415

        def path(option: str) -> Path | None:
            text = config.getoption(option)
            return (config.invocation_params.dir / text).resolve() if text else None

        config.stash[CAMPAIGN] = Campaign(
            Settings(
                scenarios=path("--scenarios") or config.rootpath / "scenarios",
                runs=default_runs(config.rootpath),
                target=config.getoption("--target"),
                profile=config.getoption("--profile") or None,
                names=tuple(config.getoption("--scenario")),
                run_dir=path("--run-dir"),
                resume=path("--resume"),
                seed=config.getoption("--seed"),
                link_rate=config.getoption("--link-rate"),
            )
        )
    return config.stash[CAMPAIGN]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `cell` every cell whose scenario names its module as the claim."""
    if "cell" not in metafunc.fixturenames:
        return
    config = metafunc.config
    if hasattr(config, "workerinput"):
        raise pytest.Collector.CollectError(
            "measuring under pytest-xdist would load one machine from several sides; run without -n"
        )
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

    try:
        found = _cells_for(metafunc) if _REFUSED not in config.stash else []
    except WeighbridgeError as error:
        # An error raised here would become one collection error per module; it is told once, after collection.
        config.stash[_REFUSED] = error
        found = []
    metafunc.parametrize("cell", [pytest.param(cell, id=cell.id, marks=_marks(config, cell)) for cell in found])


def _cells_for(metafunc: pytest.Metafunc) -> Iterable[Cell]:
    campaign = campaign_of(metafunc.config)
    chosen = metafunc.definition.get_closest_marker("cells")
    if chosen is not None:
        return campaign.cells_where(*chosen.args, **chosen.kwargs)
    return campaign.cells(metafunc.module.__name__.rpartition(".")[2].removeprefix("test_"))


def _marks(config: pytest.Config, cell: Cell) -> list[pytest.MarkDecorator]:
    """The exact marks of a cell: `scenario_…`, `tool_…` and one per axis value, such as `runtime_kata`."""
    marks = []
    for axis, value in {"scenario": cell.scenario, "tool": cell.tool, **cell.axes}.items():
        name = re.sub(r"\W+", "_", f"{axis}_{value}".replace("/", "_per_"))
        if not any(line.startswith(f"{name}:") for line in config.getini("markers")):
            config.addinivalue_line("markers", f"{name}: cells whose {axis} is {value}")
        marks.append(getattr(pytest.mark, name))
    return marks


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Leave out what pytest collects for a module that claims none of the chosen scenarios."""
    if _REFUSED in config.stash:
        raise _refusal(config, config.stash[_REFUSED])
    if CAMPAIGN in config.stash:
        items[:] = [item for item in items if not _is_parametrized(item) or _cell(item) is not None]
        asked = {cell.scenario for cell in map(_cell, items) if cell is not None}
        if unclaimed := usage.unclaimed(config, config.stash[CAMPAIGN].scenarios.values(), asked):
            config.stash[FAILED_WITH] = _USAGE
            raise pytest.UsageError(unclaimed)
    yield
    # pytest tells the end of collection also after a mistyped -k or -m, when nothing may be opened.
    config.stash[_SELECTED] = True


def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan the run from the selected cells, and open its directory."""
    config = session.config
    if CAMPAIGN not in config.stash or _SELECTED not in config.stash:
        return
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415
    from weighbridge.interrupt import Interrupts  # noqa: PLC0415

    campaign = config.stash[CAMPAIGN]
    judged = [item for item in session.items if "outcome" in getattr(item, "fixturenames", ())]
    campaign.select(cell for cell in map(_cell, judged) if cell is not None)
    if config.option.collectonly or not any(map(_cell, session.items)):
        return
    config.stash[_INTERRUPTS] = Interrupts()
    config.stash[_INTERRUPTS].install()
    try:
        if campaign.selected and not config.getoption("--plan"):
            campaign.open_folder()
    except WeighbridgeError as error:
        raise _refusal(config, error) from error


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With --plan, show the plan instead of running anything."""
    config = session.config
    if CAMPAIGN not in config.stash or not config.getoption("--plan") or config.option.collectonly:
        return None
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415
    from weighbridge.plan import show_plan  # noqa: PLC0415

    try:
        show_plan(config.stash[CAMPAIGN], sys.stdout)
    except WeighbridgeError as error:
        raise _refusal(config, error) from error
    return True


def _refusal(config: pytest.Config, error: WeighbridgeError) -> pytest.UsageError:
    """The error as pytest tells it, in one line; its exit code is kept for the end."""
    config.stash[FAILED_WITH] = error.exit_code
    return pytest.UsageError(" ".join(str(error).split()))


def _is_parametrized(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and "cell" in item.callspec.params


def _cell(item: pytest.Item) -> Cell | None:
    from weighbridge.model import Cell  # noqa: PLC0415

    found = item.callspec.params["cell"] if _is_parametrized(item) else None  # type: ignore[attr-defined]
    return found if isinstance(found, Cell) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a verdict as its one line instead of a traceback through the engine."""
    report = yield
    verdict = str(item.stash.get(VERDICT, ""))
    if report.when == "setup" and verdict in ("invalid", "infra-error", "inconclusive") and not report.passed:
        report.__dict__["verdict"] = verdict
        if verdict != "inconclusive" and call.excinfo is not None:
            report.longrepr = f"{verdict}: {call.excinfo.value}"
    elif verdict == "fail" and call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
        report.longrepr = f"fail: {str(call.excinfo.value).partition(chr(10))[0]}"
    if report.failed and CAMPAIGN in item.config.stash:
        reason = verdict if getattr(report, "verdict", None) else "failed"
        item.config.stash.setdefault(_FAILURES, set()).add(reason)
    elif verdict == "inconclusive" and report.when == "setup":
        item.config.stash.setdefault(_FAILURES, set()).add(verdict)
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Give inconclusive, invalid and infra-error words of their own."""
    verdict = getattr(report, "verdict", None)
    if verdict == "inconclusive":
        return "inconclusive", "I", "INCONCLUSIVE"
    if verdict in ("invalid", "infra-error"):
        return "error", "E", str(verdict).upper()
    return None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Undo the site, write the run down, and set the exit code from the verdicts."""
    config = session.config
    if CAMPAIGN not in config.stash:
        return
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

    campaign = config.stash[CAMPAIGN]
    if _INTERRUPTS in config.stash:
        config.stash[_INTERRUPTS].defer()
    try:
        campaign.close()
        if campaign.folder is not None:
            from weighbridge.finish import write_run  # noqa: PLC0415

            write_run(campaign, config.rootpath)
    except WeighbridgeError as error:
        config.stash[FAILED_WITH] = error.exit_code
        print(f"\n{error}", file=sys.stderr)  # noqa: T201 - the terminal reporter has closed its session by now
    session.exitstatus = _exit_code(config, campaign, exitstatus)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the signals back."""
    if _INTERRUPTS in config.stash:
        config.stash[_INTERRUPTS].restore()


def _exit_code(config: pytest.Config, campaign: Campaign, exitstatus: int) -> int:
    """What decides, first to last: a signal, what ended the run, a failed test, the machine, invalid figures."""
    interrupts = config.stash.get(_INTERRUPTS, None)
    if interrupts is not None and interrupts.exit_code is not None:
        return interrupts.exit_code
    if FAILED_WITH in config.stash:
        return config.stash[FAILED_WITH]
    if exitstatus == pytest.ExitCode.INTERNAL_ERROR:
        return int(exitstatus)
    codes = {"failed": _MISSED, "infra-error": _INFRASTRUCTURE, "invalid": _INVALID}
    if config.getoption("--strict-verdicts"):
        if campaign.outcomes and all(outcome.status == "not-run" for outcome in campaign.outcomes.values()):
            return _INVALID
        codes["inconclusive"] = _INVALID
    found = config.stash.get(_FAILURES, set())
    return next((code for reason, code in codes.items() if reason in found), int(exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the verdict table, worst first, and where the report is."""
    campaign = config.stash.get(CAMPAIGN, None)
    if campaign is None or campaign.folder is None:
        return
    from weighbridge.summary import summary, whereabouts  # noqa: PLC0415

    judged = [campaign.outcomes[cell.id] for cell in campaign.selected if cell.id in campaign.outcomes]
    terminalreporter.section("verdicts, worst first" if judged else "no verdict yet")
    for line in summary(judged, terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line)
    for line in whereabouts(campaign.folder, complete=len(judged) == len(campaign.selected)):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """End with the exit code of this package's own usage errors, instead of pytest's 4."""
    try:
        return (yield)
    except pytest.UsageError as error:
        if FAILED_WITH not in config.stash and CAMPAIGN not in config.stash:
            raise
        print(f"ERROR: {error}", file=sys.stderr)  # noqa: T201 - as pytest tells its own
        return config.stash.get(FAILED_WITH, _USAGE)
