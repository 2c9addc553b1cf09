from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from selftests.staged import REPOSITORY
from weighbridge import doctor, registry
from weighbridge.cli import main
from weighbridge.doctor import Finding, examine, install_command
from weighbridge.errors import MissingToolError
from weighbridge.shell import LocalShell


def test_everything_is_looked_for() -> None:
    """Every target, tool, server, network and runtime of the folders has a line."""
    found = {(finding.kind, finding.name) for finding in examine()}
    for kind in ("targets", "tools", "servers"):
        assert {(kind[:-1], key) for key in registry.keys(kind)} <= found
    assert {kind for kind, _ in found} >= {"network", "python", "lab"}


def test_one_command_installs_all() -> None:
    """Packages are named once, in one command; what no package brings is left out."""
    found = [
        Finding("tool", "qperf", False, "not installed", ("qperf",)),
        Finding("server", "qperf", False, "not installed", ("qperf",)),
        Finding("tool", "ab", True, "/usr/bin/ab", ("apache2-utils",)),
        Finding("tool", "wrk2", False, "not installed, and no package brings it"),
    ]
    assert install_command(found) == "apt-get install --no-install-recommends qperf"
    assert install_command(found[2:]) is None


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool that is not installed is told with the command that brings it; the lab is usable all the same."""
    real = LocalShell.which
    monkeypatch.setattr(LocalShell, "which", lambda self, name: None if name == "qperf" else real(self, name))
    lab = next(finding for finding in examine() if finding.kind == "target" and finding.name == "lab")
    assert main(["doctor"]) == (0 if lab.usable else 6)
    out = capsys.readouterr().out
    assert "install what is missing with:\n  apt-get install --no-install-recommends " in out
    assert "qperf" in out.rpartition("install")[2]


def test_fetch_asks_every_runtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One runtime that cannot be served is told, and the others get what they need all the same."""

    def refuse() -> None:
        raise MissingToolError("go is not installed;\n get it")

    for key in registry.keys("runtimes"):
        monkeypatch.setattr(registry.find("runtimes", key), "fetch", lambda: None)
    monkeypatch.setattr(registry.find("runtimes", "gvisor"), "fetch", refuse)
    monkeypatch.setattr(registry.find("runtimes", "runc"), "fetch", lambda: "something")
    assert list(doctor.fetch()) == ["gvisor: not fetched: go is not installed; get it", "runc: something"]


def test_fetch_goes_on_after_a_file_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache that one runtime cannot write is told with its name, and the others get what they need."""
    (tmp_path / "weighbridge").touch()

    def refuse() -> None:
        (tmp_path / "weighbridge/building").mkdir()

    for key in registry.keys("runtimes"):
        monkeypatch.setattr(registry.find("runtimes", key), "fetch", lambda: None)
    monkeypatch.setattr(registry.find("runtimes", "gvisor"), "fetch", refuse)
    monkeypatch.setattr(registry.find("runtimes", "runc"), "fetch", lambda: "something")
    refused = f"gvisor: not fetched: {tmp_path}/weighbridge/building: Not a directory"
    assert list(doctor.fetch()) == [refused, "runc: something"]


def test_machine_that_can_make_no_lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without namespaces the exit code is 6 and the reason is told."""
    lab = registry.find("targets", "lab")
    monkeypatch.setattr(lab, "unavailable", lambda: "namespaces cannot be made here")
    assert main(["doctor"]) == 6
    assert "namespaces cannot be made here" in capsys.readouterr().out


def test_interpreter_that_a_lab_cannot_execute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lab that does not start is a reason in the list with its remedy, not the end of the list."""
    if registry.find("targets", "lab").unavailable():
        pytest.skip("no lab can be made here")
    interpreter = tmp_path / "python"
    interpreter.touch(mode=0o644)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    assert main(["doctor"]) == 6
    out = capsys.readouterr().out
    assert "tool     ab" in out
    assert re.search(
        r"^target +lab +no .*failed to execute .*this user may not read the interpreter", out, re.MULTILINE
    )
    assert re.search(r"^runtime +all +no +no lab to probe in", out, re.MULTILINE)


def test_permission_is_no_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed and may not be used is not told to be installed."""
    if registry.find("targets", "lab").unavailable():
        pytest.skip("no lab can be made here")
    runc = registry.find("runtimes", "runc")
    monkeypatch.setattr(runc, "unavailable", lambda _: "no cgroup may be written by this user; run as root")
    found = [finding for finding in doctor.examine() if finding.name == "runc" and finding.kind == "runtime"]
    assert not found[0].usable
    assert "runc" not in (install_command(found) or "")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_without_root() -> None:
    """An ordinary user gets the same list; what needs root says so."""
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable]

    def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
        # From the root folder, so that neither the probe nor the command finds the checkout by its cwd alone.
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        command = [*become, *arguments]
        return subprocess.run(
            command, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    if as_nobody("-c", "import pydantic, weighbridge.cli").returncode:
        pytest.skip("another user cannot read this checkout or its interpreter")
    done = as_nobody("-m", "weighbridge.cli", "doctor")
    assert done.returncode in (0, 6)
    assert "Traceback" not in done.stderr
    assert "runtime  runc" in done.stdout or "no lab to probe in" in done.stdout
