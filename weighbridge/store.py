"""A finished run as files: run.json for other programs, benchmark.json for pytest-benchmark's compare.

run.json is schema-versioned; `run_schema()` is its published JSON Schema. Stored values are SI base units.
"""

from __future__ import annotations

import json
import platform
import re
import statistics
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from weighbridge import __version__, metrics
from weighbridge.errors import StoreError
from weighbridge.shell import write_atomically

_BESIDE = re.compile(r"_(stdev|mdev|min|max)\Z|_per_thread_")
"""Metrics that tell how another one is spread; nobody compares runs by them."""

SCHEMA = "weighbridge-run/2"
READABLE = ("weighbridge-run/1", SCHEMA)
"""The first schema had neither `caveat` nor `link_rate`."""
RUN, BENCHMARK = "run.json", "benchmark.json"


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StoredSample(_Stored):
    """One metric of one round; `invalid` says why it must not be judged, `value` is null where there is no figure."""

    metric: str
    unit: str
    round: int
    value: float | None
    invalid: str | None = None


class StoredVerdict(_Stored):
    """The decision on one budget."""

    budget: str
    verdict: str
    ratio: float | None
    interval: tuple[float, float] | None
    n: int
    reason: str


class StoredSummary(_Stored):
    """The valid samples of one metric: their median and range."""

    metric: str
    unit: str
    n: int
    median: float
    low: float
    high: float


class StoredLimit(_Stored):
    """The physical limit of TCP payload, bit/s, and its arithmetic."""

    throughput: float
    formula: str


class StoredCell(_Stored):
    """One cell: what was measured, what proves it, what was decided."""

    id: str
    scenario: str
    study: str | None
    tool: str
    axes: dict[str, str]
    selected: bool
    """False for a cell measured only because another's budget refers to it."""
    status: str
    reason: str
    samples: list[StoredSample]
    summary: list[StoredSummary]
    evidence: dict[str, str]
    limit: StoredLimit | None
    verdicts: list[StoredVerdict]
    caveat: str | None = None
    """Why no verdict rests on its figures although they are true, such as an emulated processor."""
    link_rate: float | Literal["unshaped"] | None = None
    """Line rate (bit/s) that the link was shaped to; null where that is not known, as of a recording."""


class StoredScenario(_Stored):
    """A scenario as it was asked."""

    name: str
    title: str
    digest: str
    study: str | None
    tool: str
    closed_loop: bool
    """True where the tool's percentiles hide stalls of the server."""
    looks: list[int]
    tolerated_errors: float
    omitted: str | None
    load: dict[str, str] = {}
    """What every cell was loaded with, as the scenario writes it; what differs between cells is in their axes."""


class StoredTable(_Stored):
    """A study's own table with, figure by figure, what was printed and what the recordings give."""

    title: str
    headings: list[str]
    rows: list[list[str]]


class StoredDiscrepancy(_Stored):
    """What a study says against itself, and the arithmetic that shows it."""

    where: str
    kind: str
    printed: str
    computed: str
    arithmetic: str
    source: str


class StoredStudy(_Stored):
    """What a replayed study prints."""

    id: str
    environment: dict[str, str]
    tables: list[StoredTable]
    discrepancies: list[StoredDiscrepancy]


class RunFile(_Stored):
    """run.json."""

    schema_: str
    run: str
    weighbridge: str
    started: str
    seconds: float
    target: str
    profile: str
    seed: int
    complete: bool
    environment: dict[str, str]
    scenarios: list[StoredScenario]
    cells: list[StoredCell]
    studies: list[StoredStudy]


def dump(run: RunFile) -> str:
    """The text of run.json."""
    document = run.model_dump(mode="json")
    return json.dumps({"schema": document.pop("schema_"), **document}, indent=1, allow_nan=False) + "\n"


def load(folder: Path) -> RunFile:
    """Read a run directory (or a run.json) back.

    Raises StoreError when it is missing, broken or of another schema version.
    """
    path = folder / RUN if folder.is_dir() else folder
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} is no stored run: {error}") from error
    if not isinstance(document, dict):
        raise StoreError(f"{path} is no stored run: it holds no object")
    found = document.pop("schema", None)
    if found not in READABLE:
        raise StoreError(f"{path} is of schema {found!r}, this version reads {' and '.join(map(repr, READABLE))}")
    try:
        return RunFile.model_validate({"schema_": found, **document})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path} does not fit its schema: {where}: {first['msg']}") from error


def run_schema() -> str:
    """The JSON Schema of run.json."""
    document = RunFile.model_json_schema()
    document["properties"] = {"schema": {"const": SCHEMA}, **document["properties"]}
    del document["properties"]["schema_"]
    document["required"] = ["schema" if name == "schema_" else name for name in document["required"]]
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(document, indent=2) + "\n"


def summarise(samples: list[StoredSample]) -> list[StoredSummary]:
    """Median and range of the valid samples, metric by metric, in the order met."""
    found: dict[str, list[StoredSample]] = {}
    for sample in samples:
        if sample.invalid is None and sample.value is not None:
            found.setdefault(sample.metric, []).append(sample)
    summaries = []
    for name, kept in found.items():
        values = [sample.value for sample in kept if sample.value is not None]
        middle = statistics.median(values)
        summaries.append(
            StoredSummary(
                metric=name, unit=kept[0].unit, n=len(values), median=middle, low=min(values), high=max(values)
            )
        )
    return summaries


def save(folder: Path, run: RunFile) -> None:
    """Write run.json and benchmark.json.

    Raises StoreError when the disk refuses.
    """
    try:
        write_atomically(folder / RUN, dump(run))
        write_atomically(folder / BENCHMARK, json.dumps(benchmark_document(run), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}; the journal there is complete") from error


_UNFIT = ("invalid", "infra-error", "not-run")
"""What became of cells whose figures, if any, are not to be compared."""


def benchmark_document(run: RunFile) -> dict[str, Any]:
    """The run in pytest-benchmark's schema.

    Metrics of spread are left out. Its compare command takes larger for worse, in seconds; so a rate is
    stored as seconds per unit, and the rate itself stands in `extra_info`.
    """
    from pytest_benchmark.stats import Stats  # noqa: PLC0415 - pulls the whole plugin in

    benchmarks = []
    for cell in run.cells:
        if cell.status in _UNFIT:
            continue
        for summary in cell.summary:
            better = metrics.metric(summary.metric).better
            if not better or summary.unit not in ("s", "1/s", "bit/s") or _BESIDE.search(summary.metric):
                continue
            found = [s.value for s in cell.samples if s.metric == summary.metric and s.invalid is None]
            values = [value for value in found if value]
            # A rate of zero has no time per unit, and the others without it would tell of a better server.
            if not values or len(values) < len(found):
                continue
            stats: Any = Stats()  # type: ignore[no-untyped-call]  # pytest-benchmark has no types
            for value in values:
                stats.update(value if summary.unit == "s" else 1 / value)
            benchmarks.append(
                {
                    "group": cell.scenario,
                    "name": f"{cell.id}:{summary.metric}",
                    "fullname": f"{cell.scenario}::{cell.id}:{summary.metric}",
                    "params": cell.axes,
                    "param": cell.id,
                    "extra_info": {
                        "metric": summary.metric,
                        "unit": summary.unit,
                        "median": summary.median,
                        **({"caveat": cell.caveat} if cell.caveat else {}),
                    },
                    "options": {
                        "disable_gc": False,
                        "timer": cell.tool,
                        "min_rounds": 1,
                        "max_time": 0.0,
                        "min_time": 0.0,
                        "warmup": False,
                    },
                    "stats": {**stats.as_dict(), "iterations": 1},
                }
            )
    return {
        "machine_info": {
            "node": platform.node(),
            "machine": platform.machine(),
            "system": platform.system(),
            "release": platform.release(),
            "python_version": platform.python_version(),
            "python_implementation": platform.python_implementation(),
            "cpu": {"brand_raw": run.environment.get("processor", "")},
        },
        "commit_info": {"id": "unversioned", "time": None, "dirty": False, "branch": "unknown"},
        "benchmarks": benchmarks,
        "datetime": run.started,
        "version": f"weighbridge {__version__}",
    }


def stamp(seconds: float) -> str:
    """A point in time as other programs read it (ISO 8601, UTC)."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(seconds))
