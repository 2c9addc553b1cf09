from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from selftests import staged
from selftests.plugin_runs import RUN, Checkout, ignore_ctrl_c
from weighbridge import registry

pytest_plugins = ["pytester"]

ENDS = ("passes", "fails", "invalid", "infra_error", "inconclusive", "not_run")


@pytest.fixture
def checkout(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(pytester, monkeypatch)


def test_options_are_in_the_help(checkout: Checkout) -> None:
    """Every option of a run is told by --help, in a group of its own."""
    text = checkout.run("--help").stdout.str()
    for option in ("--target", "--profile", "--scenario", "--scenarios", "--run-dir", "--resume", "--seed", "--plan"):
        assert re.search(rf"^  {option}\b", text, re.MULTILINE), option
    assert f"where to measure: {', '.join(registry.keys('targets'))} (default:" in " ".join(text.split())


def test_every_verdict_has_its_own_status(checkout: Checkout) -> None:
    """Each verdict is a status of its own in pytest's output, and errors are one line, without a traceback."""
    checkout.stage(*ENDS)
    result = checkout.run("-v", "-rA")
    for name, word in {
        "fails": "FAILED",
        "inconclusive": "INCONCLUSIVE",
        "infra_error": "INFRA-ERROR",
        "invalid": "INVALID",
        "not_run": "SKIPPED",
        "passes": "PASSED",
    }.items():
        result.stdout.fnmatch_lines(f"tests/test_staged.py::test_keeps_its_budgets[[]{name}-host[]] {word}*")
    result.stdout.fnmatch_lines(["infra-error: the server did not come up", "invalid: 2 + 2 = 5 was printed"])
    result.stdout.no_fnmatch_line("*campaign.py:*")
    result.stdout.fnmatch_lines("*1 failed, 1 passed, 1 skipped, 2 errors, 1 inconclusive in*")


def test_cell_that_is_a_reference_too_counts_as_selected(checkout: Checkout) -> None:
    """A cell that pytest ran is selected in run.json and counted in the report, also as another's reference."""
    budget = staged.BUDGET.replace("1 ms", "1.6 x runtime=host")
    checkout.stage(sidecar=staged.scenario(runtimes=("runc", "host"), budgets=budget))
    shutil.copytree(staged.REPOSITORY / "reports/templates", checkout.path / "reports/templates")
    checkout.run().assert_outcomes(passed=2)
    assert [cell["selected"] for cell in checkout.stored["cells"]] == [True, True]
    assert "**✅ 2 pass**" in (checkout.path / RUN / "report.md").read_text()


def test_inconclusive_has_its_own_letter(checkout: Checkout) -> None:
    """The short output shows an undecided cell as I, not as the s of a skip."""
    checkout.stage("inconclusive", "not_run")
    result = checkout.run()
    result.stdout.fnmatch_lines("tests/test_staged.py Is*")


def test_skip_tells_its_reason(checkout: Checkout) -> None:
    """A cell that cannot run here says why."""
    checkout.stage("not_run")
    checkout.run("-rs").stdout.fnmatch_lines("SKIPPED*there is no such machine")


def test_cell_without_a_budget_passes(checkout: Checkout) -> None:
    """What is only recorded passes, and is in run.json."""
    checkout.stage(passes=staged.scenario(budgets="budgets = []"))
    assert checkout.run().ret == 0
    (cell,) = checkout.stored["cells"]
    assert (cell["status"], cell["reason"], cell["verdicts"]) == ("pass", "measured, no budget", [])


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("passes",), 0),
        (("passes", "not_run", "inconclusive"), 0),
        (("fails",), 1),
        (("invalid", "passes"), 4),
        (("infra_error", "passes"), 6),
        (("invalid", "infra_error"), 6),
        (("fails", "invalid", "infra_error"), 1),
        (("breaks", "fails"), 6),
    ],
)
def test_exit_code_follows_the_verdicts(checkout: Checkout, names: tuple[str, ...], code: int) -> None:
    """A missed budget outranks the machine, the machine invalid figures, and an error that ends the run all."""
    checkout.stage(*names)
    assert checkout.run().ret == code


@pytest.mark.parametrize(("names", "code"), [(("inconclusive",), 4), (("not_run",), 4), (("passes", "not_run"), 0)])
def test_strict_verdicts(checkout: Checkout, names: tuple[str, ...], code: int) -> None:
    """With --strict-verdicts an undecided cell, and a run that measured nothing, end with 4."""
    checkout.stage(*names)
    assert checkout.run("--strict-verdicts").ret == code


def test_another_test_that_fails_counts(checkout: Checkout) -> None:
    """A failing test beside an invalid cell ends with 1: it failed by itself."""
    checkout.stage("invalid")
    checkout.write("tests/test_other.py", "def test_fails(): assert False\n")
    assert checkout.run().ret == 1


def test_expected_failure_is_none(checkout: Checkout) -> None:
    """A claim marked xfail that misses its budget does not fail the run."""
    checkout.stage("fails")
    checkout.write("tests/test_staged.py", "import pytest\npytestmark = pytest.mark.xfail\n" + staged.CLAIM)
    assert checkout.run().ret == 0


def test_error_that_ends_the_run_is_one_line(checkout: Checkout) -> None:
    """When nothing can be measured the run stops at once, says why, and what was measured is kept."""
    checkout.stage("breaks", "passes")
    result = checkout.run()
    result.stdout.fnmatch_lines("*Exit: the machine is on fire*")
    assert checkout.stored["complete"] is False


def test_error_nobody_foresaw_is_a_test_error(checkout: Checkout) -> None:
    """A defect of the engine is a test error with its traceback and exit code 1, not a verdict."""
    checkout.stage("stumbles", "passes")
    result = checkout.run()
    result.stdout.fnmatch_lines("E *ZeroDivisionError: nobody foresaw this")
    assert result.ret == 1


def test_internal_error_of_pytest_stays(checkout: Checkout) -> None:
    """Exit code 3 of pytest itself is passed on."""
    checkout.stage("fails")
    hook = "\ndef pytest_runtest_logreport(report):\n    raise RuntimeError('broken plugin')\n"
    checkout.write("conftest.py", (checkout.path / "conftest.py").read_text() + hook)
    assert checkout.run().ret == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "kubernets"), "no target is called 'kubernets'*"),
        (("--scenario", "pases"), "no scenario is called 'pases' in */scenarios; did you mean 'passes'[?]"),
        (("--profile", "smoky"), "no profile is called 'smoky'; did you mean 'smoke'[?]"),
        (("--scenarios", "tests"), "*/tests holds no scenario files*"),
        (("--resume=nowhere",), "*/nowhere holds no run to go on with"),
    ],
)
def test_usage_errors_are_one_line(checkout: Checkout, arguments: tuple[str, ...], message: str) -> None:
    """What does not exist ends with 2 and one line on stderr that names the remedy."""
    checkout.stage("passes")
    result = checkout.run(*arguments)
    assert result.ret == 2
    lines = [line for line in result.errlines if line]
    assert len(lines) == 1
    result.stderr.fnmatch_lines(f"ERROR: {message}")
    result.stdout.no_fnmatch_line("*Traceback*")
    assert not (checkout.path / RUN).exists()


def test_target_that_is_not_built_in_names_those_there_are(checkout: Checkout) -> None:
    """A target of another version ends with 2 and the list of this one's."""
    checkout.stage("passes")
    result = checkout.run(target="mainframe")
    assert result.ret == 2
    result.stderr.fnmatch_lines("ERROR: no target is called 'mainframe'; there are: *lab*replay*")


@pytest.mark.parametrize("option", ["--scenarios", "--run-dir", "--resume"])
def test_option_in_two_words_does_not_move_the_root(
    checkout: Checkout, option: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A folder that pytest takes for its root is refused in one line, and nothing is collected there."""
    checkout.stage("passes")
    outside = tmp_path_factory.mktemp("outside")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "weighbridge.plugin", "--target", "replay", option, str(outside)],
        cwd=checkout.path,
        env={**os.environ, "PYTHONPATH": str(staged.REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == f"ERROR: pytest took {outside} for its root; write {option}={outside}, in one word\n"
    assert not list(outside.iterdir())
    inside = checkout.path / "scenarios"
    assert checkout.run("--scenarios", str(inside)).ret == 0


def test_broken_scenario_is_a_usage_error(checkout: Checkout) -> None:
    """A file that is no TOML is named."""
    checkout.stage(passes="title = \n")
    result = checkout.run()
    assert result.ret == 2
    result.stderr.fnmatch_lines("ERROR: */scenarios/passes.toml: cannot be read as TOML:*")


def test_nothing_selected(checkout: Checkout) -> None:
    """A selection that matches nothing ends with pytest's own 5 and leaves no run directory."""
    checkout.stage("passes")
    assert checkout.run("-k", "nothing").ret == 5
    assert not (checkout.path / RUN).exists()


@pytest.mark.parametrize(("option", "text"), [("-m", "runtime_hots"), ("-m", "("), ("-k", "(")])
def test_mistyped_selection(checkout: Checkout, option: str, text: str) -> None:
    """A selection that pytest refuses is a usage error of one line that leaves no run directory."""
    checkout.stage("passes")
    result = checkout.run(option, text)
    assert result.ret == 2
    assert [line[:7] for line in result.errlines if line] == ["ERROR: "]
    assert not (checkout.path / RUN).exists()


def test_scenario_that_no_test_claims(checkout: Checkout) -> None:
    """A mistyped claim is a usage error that names the nearest test; cells asked for by mark need no claim."""
    mistyped = staged.scenario().replace('claim = "staged"', 'claim = "stage"')
    checkout.stage("passes", mine=mistyped)
    message = "ERROR: scenario mine claims 'stage', but there is no tests/test_stage.py; did you mean 'staged'[?]"
    for arguments in ((), ("--scenario", "mine"), ("tests/test_staged.py", "--scenario=mine"), ("-k", "passes")):
        result = checkout.run(*arguments)
        assert result.ret == 2
        result.stderr.fnmatch_lines(message)
        assert not (checkout.path / RUN).exists()
    assert checkout.run("tests/test_staged.py", "--collect-only").ret == 0
    assert checkout.run("--scenario", "passes", "--collect-only").ret == 0
    checkout.write("tests/test_mine.py", "import pytest\n@pytest.mark.cells('mine')\ndef test_mine(cell): ...\n")
    assert checkout.run("--collect-only").ret == 0


def test_interrupt_of_collection_keeps_its_usage_code(checkout: Checkout) -> None:
    """Stopping after the first failure is no interrupt by a person."""
    checkout.stage("fails", "passes")
    assert checkout.run("-x").ret == 1
    assert checkout.stored["complete"] is False


@pytest.mark.parametrize(("name", "code"), [("interrupted", 130), ("terminated", 143), ("twice", 130)])
def test_signals(checkout: Checkout, name: str, code: int) -> None:
    """Ctrl-C ends with 130 and SIGTERM with 143, the report of what was measured is written."""
    checkout.stage(name, "a_fails", "fails")
    done = checkout.apart()
    assert done.returncode == code, done.stdout + done.stderr
    assert [(c["scenario"], c["status"]) for c in checkout.stored["cells"]] == [("a_fails", "pass"), ("fails", "fail")]
    assert checkout.stored["complete"] is False
    assert "Traceback" not in done.stderr
    assert (checkout.path / "undone").exists() == (name == "twice")


def test_ctrl_c_in_the_background(checkout: Checkout) -> None:
    """A run that a shell started in the background, with SIGINT ignored, is interrupted all the same."""
    checkout.stage("interrupted")
    assert checkout.apart(prepare=ignore_ctrl_c).returncode == 130


def test_plan_measures_nothing(checkout: Checkout) -> None:
    """--plan lists the cells and ends with 0, without a run directory."""
    checkout.stage("breaks")
    result = checkout.run("--plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*breaks-host*", "1 cells, 1 groups, nothing is measured"])
    assert not (checkout.path / RUN).exists()


def test_collect_only(checkout: Checkout) -> None:
    """--collect-only lists the cells as test ids and leaves nothing behind."""
    checkout.stage("breaks")
    result = checkout.run("--collect-only", "-q")
    result.stdout.fnmatch_lines("tests/test_staged.py::test_keeps_its_budgets[[]breaks-host[]]")
    assert result.ret == 0
    assert not (checkout.path / RUN).exists()


@pytest.mark.parametrize("arguments", [("-p", "no:terminal"), ("-s",), ("-q", "-q"), ("-p", "no:capture")])
def test_other_ways_to_run(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    """Without terminal reporter or capture the verdicts and the exit code are the same."""
    checkout.stage("fails", "passes")
    assert checkout.run(*arguments).ret == 1
    assert [cell["status"] for cell in checkout.stored["cells"]] == ["fail", "pass"]


def test_junit_holds_the_verdict(checkout: Checkout) -> None:
    """Every case of JUnit XML has its verdict as a property."""
    checkout.stage(*ENDS)
    checkout.run("--junitxml", "junit.xml")
    root = ET.parse(checkout.path / "junit.xml").getroot()  # noqa: S314 - written a moment ago
    found = {p.get("value") for p in root.iter("property") if p.get("name") == "verdict"}
    assert found == {"pass", "fail", "invalid", "infra-error", "inconclusive", "not-run"}


def test_tests_of_others_are_untouched(checkout: Checkout) -> None:
    """A plain pytest run with the plugin installed has its own exit codes and output."""
    test = "import signal\ndef test_x(record_property):\n    record_property('verdict', 'invalid')\n"
    test += "    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
    checkout.write("tests/test_others.py", test + "def test_y(): assert 0\n")
    result = checkout.run("--target", "unheard-of")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*verdict*")
    assert checkout.run("tests/nowhere").ret == 4
    assert checkout.run("-k", "x").ret == 0
    assert not (checkout.path / RUN).exists()


def test_plain_run_pays_nothing(checkout: Checkout) -> None:
    """Without a test that asks for a cell nothing of the engine is imported."""
    heavy = "('pydantic', 'scipy', 'jinja2', 'rich', 'weighbridge.campaign', 'weighbridge.errors')"
    test = f"import sys\ndef test_x():\n    assert not [name for name in {heavy} if name in sys.modules]\n"
    checkout.write("tests/test_others.py", test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=checkout.path,
        env={**os.environ, "PYTHONPATH": str(staged.REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_xdist_is_refused(checkout: Checkout) -> None:
    """A worker of pytest-xdist refuses to measure, in one line."""
    checkout.stage("passes")
    checkout.write("conftest.py", CONFTEST_OF_A_WORKER)
    result = checkout.run()
    result.stdout.fnmatch_lines("measuring under pytest-xdist would load one machine from several sides; *")
    result.stdout.no_fnmatch_line("*Traceback*")
    assert result.ret == 2


CONFTEST_OF_A_WORKER = """
pytest_plugins = ["weighbridge.plugin", "fixtures.outcomes"]
def pytest_configure(config):
    config.workerinput = {}
"""


def test_kata_selects_exactly_its_cells(checkout: Checkout) -> None:
    """`-k kata` runs the kata cells and no other, and measures the runc cells their budgets refer to."""
    checkout.real()
    checkout.run("-k", "kata")
    cells = checkout.stored["cells"]
    assert {c["axes"]["runtime"] for c in cells if c["selected"]} == {"kata"}
    assert {c["axes"]["runtime"] for c in cells if not c["selected"]} == {"runc"}
    ids = checkout.run("--collect-only", "-q").outlines
    every = {line.rpartition("[")[2].rstrip("]") for line in ids if "[" in line and "kata" in line}
    assert {c["id"] for c in cells if c["selected"]} == every


def test_every_axis_value_is_an_exact_mark(checkout: Checkout) -> None:
    """Marks select exactly under strict markers, also for values that are no identifiers."""
    checkout.real()

    def count(expression: str) -> int:
        lines = checkout.run("--collect-only", "-q", "-m", expression).outlines
        return sum("::" in line for line in lines)

    assert count("runtime_kata and scenario_socket_1c2g") == 8
    assert count("runtime_kata and tool_qperf") > 8
    assert count("tool_wrk and scenario_http_flood") == 3
    assert count("rate_50000_per_s and runtime_host") == 1
    assert count("placement_cross_node and network_ovs and tool_ab") == 1
    assert count("runtime_kata and tool_iperf") == 0
    lines = checkout.run("--markers").outlines
    assert "@pytest.mark.runtime_kata: cells whose runtime is kata" in lines
    assert "@pytest.mark.scenario_http_flood: cells whose scenario is http_flood" in lines


def test_cells_and_stands_for_tests_of_ones_own(checkout: Checkout) -> None:
    """A test names its cells with a mark and may ask for their server only; it is no claim, so no run is written."""
    checkout.real()
    test = """
import pytest
@pytest.mark.cells("network_stream", network="ovs")
def test_mine(cell, stand):
    assert "iperf" in stand.evidence()["recorded"] and cell.axes["network"] == "ovs"
"""
    checkout.write("tests/test_mine.py", test)
    result = checkout.run("tests/test_mine.py")
    result.assert_outcomes(passed=1)
    assert not (checkout.path / RUN).exists()


def test_cells_of_an_unknown_scenario(checkout: Checkout) -> None:
    """A mark that names no scenario is a usage error."""
    checkout.stage("passes")
    checkout.write("tests/test_mine.py", "import pytest\n@pytest.mark.cells('nope')\ndef test_mine(cell): ...\n")
    result = checkout.run()
    assert result.ret == 2
    result.stderr.fnmatch_lines("ERROR: no scenario is called 'nope'; there are: passes")
