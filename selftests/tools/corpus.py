"""Recorded tool outputs and what each has to become: `data/<tool>/<name>.txt` beside `<name>.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from weighbridge.errors import ParseError
from weighbridge.metrics import metric

DATA = Path(__file__).parent.parent / "data"


def cases(tool: str) -> list[ParameterSet]:
    """All recorded outputs of a tool, as pytest parameters."""
    return [pytest.param(path, id=path.stem) for path in sorted((DATA / tool).glob("*.txt"))]


def read(path: Path) -> str:
    """Return the output as it was captured, with its own line ends."""
    return path.read_bytes().decode(errors="replace")


def check(tool: Any, path: Path) -> None:
    """Parse the output and compare it with the JSON beside it, names of metrics included."""
    expected = json.loads(path.with_suffix(".json").read_text())
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            tool.parse(read(path))
        assert expected["error"] in str(caught.value)
        return
    found = [{"labels": dict(result.labels), "metrics": dict(result.metrics)} for result in tool.parse(read(path))]
    assert [result["labels"] for result in found] == [result["labels"] for result in expected["results"]]
    for result, wanted in zip(found, expected["results"], strict=True):
        assert {metric(name).name for name in result["metrics"]} == wanted["metrics"].keys()
        assert result["metrics"] == pytest.approx(wanted["metrics"], rel=1e-9, abs=1e-12)
