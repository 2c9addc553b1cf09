from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from selftests.study_folder import STUDIES
from weighbridge import units
from weighbridge.errors import ParseError
from weighbridge.study import Study, load
from weighbridge.study.audit import Lookup, audit

EXPECTED = Path(__file__).parents[1] / "data" / "audit"


def studies() -> list[Study]:
    """Read the five studies in their order."""
    return [load(folder) for folder in sorted(STUDIES.iterdir())]


def keys(name: str) -> list[str]:
    """Read the expected discrepancies of one file, as study number and key."""
    return sorted((EXPECTED / name).read_text(encoding="utf-8").splitlines())


def test_five_studies_without_parsers() -> None:
    """What needs no parser: exactly these, no more and no fewer."""
    every = studies()
    given = [f"{s.name[:3]} {item.key}" for n, s in enumerate(every) for item in audit(s, earlier=every[:n])]
    assert sorted(given) == keys("without_parsers.txt")


TOOLS = {
    "socket_1c2g": "qperf",
    "socket_60c240g": "qperf",
    "http_ladder": "wrk2",
    "http_flood": "wrk",
    "gateway": "wrk",
    "network_stream": "iperf",
    "network_datagram": "iperf",
    "network_http": "ab",
}
MISSING = [
    tool for tool in sorted(set(TOOLS.values())) if importlib.util.find_spec(f"weighbridge.tools.{tool}") is None
]


def parsed(study: Study) -> tuple[Lookup, dict[str, str]]:
    """Read every output of a study: a lookup of its figures, and why some were refused."""
    results, refused = {}, {}
    for one in study.recordings:
        try:
            results[one.file] = importlib.import_module(f"weighbridge.tools.{TOOLS[one.scenario]}").parse(
                study.texts[one.file]
            )
        except ParseError as error:
            refused[one.file] = error.reason

    def figure(file: str, axes: Mapping[str, str], name: str) -> float:
        size = units.parse_as(axes["message_size"], units.BYTE) if "message_size" in axes else None
        for result in results.get(file, ()):
            datagrams_as_sent = result.labels.get("test") == "udp" and result.labels.get("direction") != "receiver"
            if name in result.metrics and not datagrams_as_sent and result.labels.get("message_size") == size:
                return float(result.metrics[name])
        return math.nan

    return lambda scenario, axes, name: [
        figure(r.file, axes, name) for r in study.recordings_of(scenario, axes)
    ], refused


@pytest.mark.skipif(bool(MISSING), reason=f"no parser yet: {', '.join(MISSING)}")
def test_five_studies_with_parsers() -> None:
    """With every output read, exactly these discrepancies come on top."""
    every = studies()
    given = []
    for number, study in enumerate(every):
        given += [f"{study.name[:3]} {item.key}" for item in audit(study, *parsed(study), earlier=every[:number])]
    assert sorted(given) == sorted(keys("without_parsers.txt") + keys("with_parsers.txt"))
