from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from selftests import staged
from selftests.plugin_runs import CONFTEST, RUN, SETTINGS, Checkout
from weighbridge import campaign, journal
from weighbridge.campaign.earlier import Earlier
from weighbridge.shell import Deadline
from weighbridge.targets import lab

pytest_plugins = ["pytester"]

NO_LAB = lab.unavailable()


@pytest.fixture
def checkout(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(pytester, monkeypatch)


def resumed(checkout: Checkout, *arguments: str) -> pytest.RunResult:
    """Go on with the run made in this checkout."""
    return checkout.pytester.runpytest_inprocess("--target", "replay", f"--resume={checkout.path / RUN}", *arguments)


def without_clock(run: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of a run but how long it took."""
    return {key: value for key, value in run.items() if key != "seconds"}


@pytest.mark.parametrize("seed", range(4))
def test_resume_after_a_stop_anywhere(checkout: Checkout, seed: int) -> None:
    """Whatever byte of the journal was written last, the resumed run ends as if it had never stopped."""
    checkout.real()
    checkout.run("-k", "kata or network_http or sidecar_cores")
    before = checkout.stored
    folder = checkout.path / RUN
    path = folder / journal.NAME
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[: random.Random(seed).randrange(first, len(whole))])
    (folder / "run.json").unlink()
    result = resumed(checkout, "-k", "kata or network_http or sidecar_cores")
    assert result.ret == 1
    assert without_clock(checkout.stored) == without_clock(before)


def test_finished_groups_are_not_measured_again(checkout: Checkout) -> None:
    """Resuming a finished run stands nothing up and gives the same verdicts."""
    checkout.stage("passes", "fails", "invalid", "infra_error", "not_run", "inconclusive", "emulated")
    checkout.run()
    before = checkout.stored
    assert [cell["scenario"] for cell in before["cells"] if cell["caveat"]] == ["emulated"]

    def measure(*_: Any, **__: Any) -> Any:
        raise AssertionError("measured again")

    checkout.monkeypatch.setattr("weighbridge.campaign.measure", measure)
    assert resumed(checkout).ret == 1
    assert without_clock(checkout.stored) == without_clock(before)


def test_references_alone_are_not_measured(checkout: Checkout) -> None:
    """Where no selected cell of a group can run, nothing is measured for it, and a resumed run says the same."""
    budget = '[[budgets]]\nmetric = "latency_mean"\nwhere = { runtime = "runc" }\nat_most = "2 x runtime=host"\n'
    checkout.stage(compared=staged.scenario(runtimes=("host", "runc"), budgets=budget))

    def unavailable(_: Any, cell: Any) -> str | None:
        return "there is no such machine" if cell.axes["runtime"] == "runc" else None

    def measure(*_: Any, **__: Any) -> Any:
        raise AssertionError("measured")

    checkout.monkeypatch.setattr("weighbridge.campaign.unavailable", unavailable)
    checkout.monkeypatch.setattr("weighbridge.campaign.measure", measure)
    for again in (checkout.run, lambda *given: resumed(checkout, *given)):
        assert again("-m", "runtime_runc").ret == 0
        found = {cell["id"]: (cell["status"], cell["reason"], cell["selected"]) for cell in checkout.stored["cells"]}
        assert found == {
            "compared-host": ("not-run", "no cell that refers to it can run here", False),
            "compared-runc": ("not-run", "there is no such machine", True),
        }


def test_finished_rounds_are_not_measured_again(checkout: Checkout) -> None:
    """A group that was interrupted goes on after its last whole round."""
    checkout.stage("interrupted", "passes")
    group, cell = "interrupted-host", "interrupted-host"
    checkout.run("--collect-only")
    sample = {"metric": "latency_mean", "unit": "s", "round": 0, "value": 5e-4, "invalid": None}
    assert checkout.apart().returncode == 130
    written = journal.Journal(checkout.path / RUN)
    written.append("round", {"group": group, "number": 0, "samples": {cell: [sample]}})
    written.append("round", {"group": group, "number": 2, "samples": {cell: [sample]}})
    written.close()
    seen: list[Any] = []

    def measure(*arguments: Any, done: Any, **options: Any) -> Any:
        seen.append(sorted(done))
        return staged.measure(*arguments, done=done, **options)

    checkout.monkeypatch.setattr("weighbridge.campaign.measure", measure)
    checkout.monkeypatch.setattr("selftests.staged.os.kill", lambda *_: None)
    assert resumed(checkout).ret == 0
    assert seen == [[0], []]
    assert checkout.stored["complete"] is True


def test_changed_scenario_is_refused(checkout: Checkout) -> None:
    """A run cannot go on with another question."""
    checkout.stage("passes")
    checkout.run()
    checkout.stage(passes=staged.scenario().replace("1s", "2s"))
    result = resumed(checkout)
    assert result.ret == 2
    result.stderr.fnmatch_lines("ERROR: passes changed since */run was started; start a new run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "smoke"), "*was made with --profile study, not smoke*"),
        (("-k", "fails"), "*was started with another selection (2 cells, not these 1)*"),
    ],
)
def test_resume_with_other_options_is_refused(checkout: Checkout, arguments: tuple[str, ...], message: str) -> None:
    """Profile and selection must be those of the run that is resumed."""
    checkout.stage("passes", "fails")
    checkout.run()
    result = resumed(checkout, *arguments)
    assert result.ret == 2
    result.stderr.fnmatch_lines(f"ERROR: {message}")


def test_directory_that_holds_a_run_is_refused(checkout: Checkout) -> None:
    """A new run never writes over an old one."""
    checkout.stage("passes")
    checkout.run()
    before = (checkout.path / RUN / journal.NAME).read_bytes()
    result = checkout.run()
    assert result.ret == 2
    result.stderr.fnmatch_lines("ERROR: */run holds a run already; go on with --resume=*/run or choose another *")
    assert (checkout.path / RUN / journal.NAME).read_bytes() == before


def test_corrupt_journal(checkout: Checkout) -> None:
    """A broken line in the middle ends with 6 and one line that names it."""
    checkout.stage("passes", "fails")
    checkout.run()
    path = checkout.path / RUN / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"0", b"1"), *lines[2:]]))
    result = resumed(checkout)
    assert result.ret == 6
    result.stderr.fnmatch_lines("ERROR: *journal.jsonl is corrupt at line 2; *")
    assert len([line for line in result.errlines if line]) == 1


def test_run_that_never_started(checkout: Checkout) -> None:
    """A journal whose first line is torn holds no run."""
    checkout.stage("passes")
    checkout.write(f"{RUN}/{journal.NAME}", '1234 {"ev')
    result = resumed(checkout)
    assert result.ret == 6
    result.stderr.fnmatch_lines("ERROR: */run holds no run that was started")


def test_directory_that_cannot_be_made(checkout: Checkout) -> None:
    """An impossible --run-dir ends with 6 before anything is measured."""
    checkout.stage("breaks")
    result = checkout.pytester.runpytest_inprocess("--target", "replay", "--run-dir", "pyproject.toml/run")
    assert result.ret == 6
    result.stderr.fnmatch_lines("ERROR: */pyproject.toml/run cannot be made: Not a directory; choose another --run-dir")


def no_large_files() -> None:
    """Let a disk be full: a file that grows past 1500 bytes is refused."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))


def test_full_disk(checkout: Checkout) -> None:
    """What the disk refuses ends the run with 6 and one line; with room again the run goes on where it stopped."""
    checkout.stage("a_passes", "b_passes", "c_passes", "passes", "passes_too")
    done = checkout.apart(prepare=no_large_files, python=("-B",))
    assert done.returncode == 6, done.stdout + done.stderr
    assert "journal.jsonl cannot be written: File too large; make room" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert resumed(checkout).ret == 0
    assert checkout.stored["complete"] is True


SMALL = """
title = "Small"
claim = "small"
tool = "qperf"
server = "qperf"
budgets = []
rounds = [3]
[axes]
runtime = ["host"]
network = ["host"]
[load]
tests = ["tcp_lat"]
duration = "1s"
"""


def lab_run(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a lab run of three rounds in a process of its own."""
    command = [sys.executable, "-m", "pytest", "--target", "lab", "--profile", "smoke", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(staged.REPOSITORY)}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def left_behind(run: str) -> list[str]:
    """Every process of this machine whose command line names the run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"/run/weighbridge/{run}" in line:
            found.append(line)
    return found


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkout whose only scenario takes three rounds of a second in the lab; gives the run directory to use."""
    for name, text in {
        "pyproject.toml": SETTINGS,
        "conftest.py": CONFTEST,
        "tests/test_small.py": staged.CLAIM,
        "scenarios/small.toml": SMALL,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / f"{tmp_path.name}-{os.getpid()}"


@pytest.mark.skipif(NO_LAB is not None, reason=str(NO_LAB))
def test_lab_run_survives_sigkill(small: Path) -> None:
    """Killed in the middle of a round, a lab leaves nothing, and its finished rounds are not measured again."""
    path = small / journal.NAME
    first = lab_run(small.parent, f"--run-dir={small}")
    Deadline(30).until(lambda: path.exists() and b'"round"' in path.read_bytes(), "the first round")
    first.kill()
    first.wait()
    Deadline(5).until(lambda: not left_behind(small.name), "the kernel to undo the lab")
    assert lab_run(small.parent, f"--resume={small}").wait(60) == 0
    rounds = Counter(event["number"] for event in journal.read(small) if event["event"] == "round")
    assert rounds == {0: 1, 1: 1, 2: 1}
    stored = json.loads((small / "run.json").read_text())
    assert stored["complete"] is True
    assert [s["n"] for s in stored["cells"][0]["summary"] if s["metric"] == "latency_mean"] == [3]
    assert not left_behind(small.name)


@pytest.mark.skipif(NO_LAB is not None, reason=str(NO_LAB))
def test_impatient_ctrl_c_leaves_nothing(small: Path) -> None:
    """Ctrl-C again and again while a lab is undone ends with 130, nothing is left and the run is written."""
    path = small / journal.NAME
    run = lab_run(small.parent, f"--run-dir={small}")
    Deadline(30).until(lambda: path.exists() and b'"site"' in path.read_bytes(), "the lab to stand")
    deadline = Deadline(20)
    while run.poll() is None and not deadline.expired:
        run.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            run.wait(0.05)
    assert run.wait(1) in (130, -signal.SIGINT)
    assert not left_behind(small.name)
    assert json.loads((small / "run.json").read_text())["complete"] is False


def test_runs_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """Two runs that write to folders of the same name tag what they make differently, whatever the name is."""
    folders = [tmp_path / "a" / "my run", tmp_path / "b" / "my run"]

    tags = [campaign._tag(folder) for folder in folders]

    assert len(set(tags)) == 2
    assert all(re.fullmatch(r"my_run-[0-9a-f]{4}", tag) for tag in tags)
    assert len(campaign._tag(tmp_path / ("x" * 200))) < 60
    generated = campaign.new_run_id()
    assert campaign._tag(tmp_path / generated) == generated


def test_run_is_not_resumed_on_another_machine() -> None:
    """Rounds measured under another kernel are never judged together with today's."""
    earlier = Earlier(environment={"kernel": "6.1", "processor": "A"})

    assert earlier.unlike({"kernel": "6.1", "processor": "A"}) is None
    assert earlier.unlike({"kernel": "6.2", "processor": "A"}) == "kernel was 6.1, is 6.2"
    assert Earlier().unlike({"kernel": "6.2"}) is None
