"""Runs of pytest inside pytest, for the self-tests of the plugin."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

# What an inner run would import first is imported here: pytester forgets it afterwards, and numpy loads only once.
import pytest_benchmark.stats
import scipy.stats

import weighbridge.cli
import weighbridge.finish
import weighbridge.interrupt
import weighbridge.plan
import weighbridge.progress
import weighbridge.summary
from selftests import staged
from weighbridge import registry

PRELOADED = (
    pytest_benchmark.stats,
    scipy.stats,
    weighbridge.interrupt,
    weighbridge.cli,
    weighbridge.finish,
    weighbridge.plan,
    weighbridge.progress,
    weighbridge.summary,
    *(registry.find(kind, key) for kind in registry.KINDS for key in registry.keys(kind)),
)

SETTINGS = """
[tool.pytest]
strict = true
addopts = ["--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:hypothesispytest"]
testpaths = ["tests"]
filterwarnings = ["error", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
"""
CONFTEST = 'pytest_plugins = ["weighbridge.plugin", "fixtures.outcomes", "fixtures.stands"]\n'
RUN = "run"
"""Where the runs made here write, below the folder of the test."""


class Checkout:
    """A small checkout in a folder of its own: settings, conftest, claims, scenarios."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.monkeypatch, self.path = pytester, monkeypatch, pytester.path
        (self.path / "tests").mkdir()
        (self.path / "scenarios").mkdir()
        self.write("pyproject.toml", SETTINGS)
        self.write("conftest.py", CONFTEST)

    def write(self, name: str, text: str) -> None:
        """Write a file of the checkout."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def stage(self, *names: str, **scenarios: str) -> None:
        """Lay out staged scenarios and the claim they share."""
        self.write("tests/test_staged.py", staged.CLAIM)
        for name, text in {**{name: staged.scenario() for name in names}, **scenarios}.items():
            self.write(f"scenarios/{name}.toml", text)
        for module, name, value in staged.PATCHES:
            self.monkeypatch.setattr(module, name, value)

    def real(self) -> None:
        """Take the claims and scenarios of this repository."""
        shutil.copytree(
            staged.REPOSITORY / "tests",
            self.path / "tests",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (self.path / "scenarios").rmdir()
        (self.path / "scenarios").symlink_to(staged.REPOSITORY / "scenarios")

    def run(self, *arguments: str, target: str = "replay") -> pytest.RunResult:
        """Run pytest in this process."""
        return self.pytester.runpytest_inprocess("--target", target, f"--run-dir={self.path / RUN}", *arguments)

    def apart(
        self, *arguments: str, prepare: Callable[[], None] | None = None, python: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run staged pytest in a process of its own."""
        command = [sys.executable, *python, "-m", "pytest", "-p", "selftests.staged", "--target", "replay"]
        return subprocess.run(
            [*command, f"--run-dir={self.path / RUN}", *arguments],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": str(staged.REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=prepare,
        )

    @property
    def stored(self) -> Mapping[str, Any]:
        """run.json of the run made here."""
        document = json.loads((self.path / RUN / "run.json").read_text())
        assert isinstance(document, dict)
        return document


def ignore_ctrl_c() -> None:
    """What a shell without job control does to a command that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def folder_of(checkout: Checkout) -> Path:
    """The run directory."""
    return checkout.path / RUN
