"""The pytest plugin: options, marks, cells as tests, verdicts as outcomes, exit codes.

Nothing heavy is imported until a test asks for a `cell`, so that a plain pytest run pays nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import FrameType

    from weighbridge.campaign import Campaign, Outcome
    from weighbridge.model import Cell

CAMPAIGN: pytest.StashKey[Campaign] = pytest.StashKey()
_FAILED_WITH: pytest.StashKey[int] = pytest.StashKey()
_INTERRUPTED_BY: pytest.StashKey[int] = pytest.StashKey()

_USAGE, _INVALID, _INFRASTRUCTURE, _CTRL_C, _SIGTERM = 2, 4, 6, 130, 143


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    group = parser.getgroup("weighbridge", "performance of container runtimes, networks and sidecars")
    group.addoption("--target", default="lab", help="where to measure: lab (default), replay, kubernetes, ssh")
    group.addoption("--profile", help="smoke, quick (default), standard or study (default in replay)")
    group.addoption(
        "--scenario", action="append", default=[], metavar="NAME", help="only this scenario; may be repeated"
    )
    group.addoption("--scenarios", metavar="DIR", help="folder of scenario files (default: scenarios/)")
    group.addoption("--run-dir", metavar="DIR", help="where to write this run (default: reports/runs/<run id>)")
    group.addoption("--resume", metavar="RUN", help="go on with an interrupted run directory")
    group.addoption("--seed", type=int, help="what shuffles the rounds (default: random, recorded)")
    group.addoption("--plan", action="store_true", help="list cells, commands and predicted time; measure nothing")
    group.addoption("--strict-verdicts", action="store_true", help="exit 4 when a verdict is inconclusive")


@contextmanager
def _as_usage(config: pytest.Config) -> Iterator[None]:
    """Turn this package's errors into pytest's usage errors, remembering the exit code they ask for."""
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415

    try:
        yield
    except WeighbridgeError as error:
        config.stash[_FAILED_WITH] = error.exit_code
        raise pytest.UsageError(str(error)) from error


def _campaign(config: pytest.Config) -> Campaign:
    if CAMPAIGN not in config.stash:
        from weighbridge.campaign import Campaign, Settings, default_runs  # noqa: PLC0415

        def path(option: str) -> Path | None:
            text = config.getoption(option)
            return (config.invocation_params.dir / text).resolve() if text else None

        with _as_usage(config):
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
                )
            )
    return config.stash[CAMPAIGN]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `cell` every cell whose scenario names its module as the claim."""
    if "cell" not in metafunc.fixturenames:
        return
    campaign = _campaign(metafunc.config)
    claim = metafunc.module.__name__.rpartition(".")[2].removeprefix("test_")
    cells = []
    for cell in campaign.cells(claim):
        names = [f"scenario_{cell.scenario}", f"tool_{cell.tool}"] + [
            f"{axis}_{value}" for axis, value in cell.axes.items()
        ]
        marks = []
        for text in names:
            name = text.replace("-", "_").replace("/", "_per_").replace(".", "_")
            metafunc.config.addinivalue_line("markers", f"{name}: axis value")
            marks.append(getattr(pytest.mark, name))
        cells.append(pytest.param(cell, id=cell.id, marks=marks))
    metafunc.parametrize("cell", cells)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what pytest collects for a module that claims none of the chosen scenarios."""
    if CAMPAIGN in config.stash:
        empty = [item for item in items if _is_parametrized(item) and _cell(item) is None]
        items[:] = [item for item in items if item not in empty]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan the run from the selected cells; with --plan print the plan and stop."""
    config = session.config
    if CAMPAIGN not in config.stash:
        return
    campaign = config.stash[CAMPAIGN]
    cells = [cell for cell in map(_cell, session.items) if cell is not None]
    campaign.select(cells)
    if not cells or config.option.collectonly:
        return
    if config.getoption("--plan"):
        from weighbridge.plan import show_plan  # noqa: PLC0415

        with _as_usage(config):
            show_plan(campaign, sys.stdout)
        campaign.close()
        session.items.clear()
        session.testscollected = len(cells)
        return
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None):
        raise pytest.UsageError("measuring under xdist would load one machine from several sides; run without -n")
    with _as_usage(config):
        campaign.open_folder()


def _is_parametrized(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and "cell" in item.callspec.params


def _cell(item: pytest.Item) -> Cell | None:
    from weighbridge.model import Cell  # noqa: PLC0415

    found = item.callspec.params["cell"] if _is_parametrized(item) else None  # type: ignore[attr-defined]
    return found if isinstance(found, Cell) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Turn SIGTERM into an orderly end, so that what was measured is reported."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal handler's signature
        session.config.stash[_INTERRUPTED_BY] = _SIGTERM
        pytest.exit("terminated", returncode=_SIGTERM)

    if not hasattr(session.config, "workerinput"):
        signal.signal(signal.SIGTERM, end)


@pytest.fixture
def outcome(cell: Any, request: pytest.FixtureRequest) -> Outcome:
    """What came of the cell: measured now, or together with its group before.

    Skips a cell that cannot run here, errors where there are no valid figures.
    """
    from weighbridge.errors import InfrastructureError, ParseError, WeighbridgeError  # noqa: PLC0415
    from weighbridge.model import Status  # noqa: PLC0415

    config = request.config
    campaign = config.stash[CAMPAIGN]
    try:
        with _watching(config, campaign, cell):
            found = campaign.outcome(cell)
    except WeighbridgeError as error:
        config.stash[_FAILED_WITH] = error.exit_code
        pytest.exit(str(error), returncode=error.exit_code)
    request.node.user_properties.append(("verdict", str(found.status)))
    if found.status is Status.NOT_RUN:
        pytest.skip(found.reason)
    if found.status is Status.INCONCLUSIVE:
        pytest.skip(f"inconclusive: {found.reason}")
    if found.status is Status.INVALID:
        raise ParseError(found.reason)
    if found.status is Status.INFRA_ERROR:
        raise InfrastructureError(found.reason)
    return found


@contextmanager
def _watching(config: pytest.Config, campaign: Campaign, cell: Cell) -> Iterator[None]:
    """Show progress on the real terminal while a group is measured."""
    from weighbridge.progress import LiveProgress, PlainProgress, on_terminal  # noqa: PLC0415

    capture = config.pluginmanager.getplugin("capturemanager")
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if cell.id in campaign.outcomes or not campaign.target.LIVE or capture is None or terminal is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        terminal.ensure_newline()
        if on_terminal(sys.stdout):
            live = LiveProgress()
            campaign.watcher = live
            with live.shown():
                yield
        else:
            campaign.watcher = campaign.watcher or PlainProgress()
            yield


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Give inconclusive, invalid and infra-error words of their own."""
    if report.when != "setup" or report.passed:
        return None
    verdict = dict(getattr(report, "user_properties", ())).get("verdict")
    if verdict == "inconclusive":
        return "inconclusive", "I", "INCONCLUSIVE"
    if verdict in ("invalid", "infra-error"):
        return "error", "E", str(verdict).upper()
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a verdict as its one line instead of a traceback through the engine."""
    report = yield
    verdict = dict(item.user_properties).get("verdict")
    if verdict in ("invalid", "infra-error") and call.excinfo is not None and report.when == "setup":
        report.longrepr = f"{verdict}: {call.excinfo.value}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Undo the site, write the run down, and set the exit code from the verdicts."""
    config = session.config
    if CAMPAIGN not in config.stash:
        return
    campaign = config.stash[CAMPAIGN]
    if campaign.folder is None or config.getoption("--plan"):
        campaign.close()
        return
    from weighbridge.errors import WeighbridgeError  # noqa: PLC0415
    from weighbridge.finish import write_run  # noqa: PLC0415

    try:
        campaign.close()
        write_run(campaign, config.rootpath)
    except WeighbridgeError as error:
        config.stash[_FAILED_WITH] = error.exit_code
        print(f"\n{error}", file=sys.stderr)  # noqa: T201 - the terminal reporter has closed its session by now
    session.exitstatus = _exit_code(config, campaign, exitstatus)


def _exit_code(config: pytest.Config, campaign: Campaign, exitstatus: int) -> int:
    from weighbridge.model import Status  # noqa: PLC0415

    if _INTERRUPTED_BY in config.stash:
        return config.stash[_INTERRUPTED_BY]
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        return _CTRL_C
    if _FAILED_WITH in config.stash:
        return config.stash[_FAILED_WITH]
    codes = {Status.FAIL: 1, Status.INFRA_ERROR: _INFRASTRUCTURE, Status.INVALID: _INVALID}
    if config.getoption("--strict-verdicts"):
        codes[Status.INCONCLUSIVE] = _INVALID
    found = {outcome.status for outcome in campaign.outcomes.values() if outcome.cell in campaign.selected}
    return next((code for status, code in codes.items() if status in found), int(exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the verdict table, worst first, and where the report is."""
    campaign = config.stash.get(CAMPAIGN, None)
    if campaign is None or campaign.folder is None or not campaign.outcomes:
        return
    from weighbridge.finish import verdict_table  # noqa: PLC0415

    terminalreporter.section("verdicts, worst first")
    terminalreporter.write_line(verdict_table(campaign))
    for line in (f"report: {campaign.folder / 'report.md'}", f"journal: {campaign.folder / 'journal.jsonl'}"):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Translate pytest's own exit codes for usage errors and Ctrl-C of a run into this suite's."""
    code = yield
    if code == pytest.ExitCode.USAGE_ERROR and (CAMPAIGN in config.stash or _FAILED_WITH in config.stash):
        return config.stash.get(_FAILED_WITH, _USAGE)
    return code
