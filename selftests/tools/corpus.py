"""Recorded outputs and what each must give: data/<tool>/*.txt with <name>.json beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weighbridge.errors import ParseError
from weighbridge.metrics import metric

DATA = Path(__file__).parents[1] / "data"


def cases(tool: str) -> list[Any]:
    """Every recorded output of a tool as a pytest parameter named after its file."""
    return [pytest.param(path, id=path.stem) for path in sorted((DATA / tool).glob("*.txt"))]


def check(tool_module: Any, path: Path) -> None:
    """Assert that the output gives exactly the results, or the error, written beside it."""
    text = path.read_bytes().decode("utf-8", "replace")
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            tool_module.parse(text)
        assert expected["error"] in caught.value.reason
        return
    results = tool_module.parse(text)
    assert [dict(result.labels) for result in results] == [result["labels"] for result in expected["results"]]
    for result, wanted in zip(results, expected["results"], strict=True):
        assert result.metrics == pytest.approx(wanted["metrics"], rel=1e-9, abs=1e-15)
        assert all(metric(name) for name in result.metrics)
