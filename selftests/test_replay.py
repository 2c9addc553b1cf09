"""The whole of `pytest --target replay`: five published studies, judged and told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selftests.staged import REPOSITORY
from selftests.study_folder import STUDIES
from weighbridge.study import Table, load

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Replayed:
    """How a whole replay ended: exit code, terminal output, run.json and report."""

    code: int
    output: str
    run: Mapping[str, Any]
    report: str


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("replay") / "run"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--target", "replay", f"--run-dir={folder}"],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return Replayed(done.returncode, done.stdout, run, (folder / "report.md").read_text(encoding="utf-8"))


def expected(name: str) -> dict[str, list[str]]:
    """Read a file of lines under [headings]."""
    found: dict[str, list[str]] = {}
    for line in (DATA / "replay" / name).read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            found[line.strip("[]")] = []
        elif line:
            found[list(found)[-1]].append(line)
    return found


def test_exit_code_and_outcomes(replayed: Replayed) -> None:
    """Exactly these cells of the studies fail, are invalid or have no recording; others pass; the run ends with 1."""
    assert replayed.code == 1, replayed.output
    given: dict[str, list[str]] = {}
    for cell in replayed.run["cells"]:
        if cell["selected"] and cell["study"] and cell["status"] != "pass":
            given.setdefault(cell["status"], []).append(cell["id"])
    assert {status: sorted(ids) for status, ids in given.items()} == expected("outcomes.txt")


def test_every_invalid_cell_says_why(replayed: Replayed) -> None:
    """What is not judged has a reason in run.json and in the report."""
    for cell in replayed.run["cells"]:
        if cell["status"] == "invalid":
            assert len(cell["reason"]) > 20


def test_discrepancies(replayed: Replayed) -> None:
    """What the studies say against themselves is told whole: the same keys as the audit's own list."""
    given = [
        f"{study['id'][:3]} {found['kind']}: {found['where']}"
        for study in replayed.run["studies"]
        for found in study["discrepancies"]
    ]
    audited = [
        line
        for name in ("with_parsers.txt", "without_parsers.txt")
        for line in (DATA / "audit" / name).read_text(encoding="utf-8").splitlines()
    ]
    assert sorted(given) == sorted(audited)


@pytest.mark.parametrize(
    ("study", "name"),
    [(path.parent.parent.name, path.stem) for path in sorted(STUDIES.glob("*/tables/*.toml"))],
)
def test_report_repeats_every_table(replayed: Replayed, study: str, name: str) -> None:
    """Row by row, every figure that a study prints stands in the report's table of the same title."""
    table = load(STUDIES / study).tables[name]
    told = _table_below(replayed.report, study, table.title)
    assert len(told) == len(table.claims or table.rows)
    for cells, printed in zip(told, _printed(table), strict=True):
        missing = [text for text in printed if not any(_starts(cell, text) for cell in cells)]
        assert not missing, (missing, cells)


def _printed(table: Table) -> list[list[str]]:
    if table.claims:
        return [[claim.what, claim.printed] for claim in table.claims]
    return [[*row.labels.values(), *row.axes.values(), *(text for text in row.printed if text)] for row in table.rows]


def _starts(cell: str, text: str) -> bool:
    """Whether a cell shows this text, alone or with its unit or its output's figure after it."""
    flat = " ".join(text.split())
    return cell == flat or cell.startswith((f"{flat} ", f"{flat}("))


def _table_below(report: str, study: str, title: str) -> list[list[str]]:
    """Take the body of the Markdown table under a title, its escapes undone; each search goes on from the last."""
    lines = iter(_unescaped(report).split("\n"))
    assert f"## Study {study}: its own tables" in lines
    assert any(line == f"### {title}" or line.startswith(f"### {title} (") for line in lines)
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.split("|")[1:-1]])
        elif rows:
            break
    return rows[2:]


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\\|`*_\[\]<>])", r"\1", text)
