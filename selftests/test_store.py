from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from selftests import stored_run
from weighbridge import store
from weighbridge.errors import StoreError
from weighbridge.shell import write_atomically

ROOT = Path(__file__).parents[1]


def test_run_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    """run.json holds the whole run, from its folder or by its own name."""
    run = stored_run.run()
    store.save(tmp_path, run)
    assert store.load(tmp_path) == run
    assert store.load(tmp_path / store.RUN) == run
    assert json.loads((tmp_path / store.RUN).read_text())["schema"] == "weighbridge-run/2"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"schema": "weighbridge-run/9"}, "'weighbridge-run/9', this version reads 'weighbridge-run/1' and"),
        ({"schema": None}, "of schema None"),
        ({"cells": 3}, "cells: Input should be a valid list"),
        ({"colour": "red"}, "colour: Extra inputs"),
        ({"seconds": float("nan")}, "seconds: .*finite"),
    ],
)
def test_other_schemas_are_refused(tmp_path: Path, change: dict[str, Any], names: str) -> None:
    """A run of another version, or one that was edited into nonsense, is named and not guessed at."""
    document = {**json.loads(store.dump(stored_run.run())), **change}
    (tmp_path / store.RUN).write_text(json.dumps(document))
    with pytest.raises(StoreError, match=names):
        store.load(tmp_path)


def test_runs_of_the_first_schema_are_still_read(tmp_path: Path) -> None:
    """A run stored before cells had a link rate and a caveat loses nothing, and nothing is made up for it."""
    document = json.loads(store.dump(stored_run.run())) | {"schema": "weighbridge-run/1"}
    for cell in document["cells"]:
        del cell["caveat"], cell["link_rate"]
    (tmp_path / store.RUN).write_text(json.dumps(document))
    assert {(cell.caveat, cell.link_rate) for cell in store.load(tmp_path).cells} == {(None, None)}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000], ids=repr)
def test_broken_runs_are_refused(tmp_path: Path, content: bytes) -> None:
    """Anything else in its place is no stored run."""
    (tmp_path / store.RUN).write_bytes(content)
    with pytest.raises(StoreError, match="is no stored run"):
        store.load(tmp_path)


def test_missing_run_is_an_error(tmp_path: Path) -> None:
    """A folder without run.json is no stored run."""
    with pytest.raises(StoreError, match="is no stored run"):
        store.load(tmp_path)


def test_summary_leaves_out_what_must_not_be_judged() -> None:
    """Median, lowest and highest are those of the valid samples alone."""
    samples = [
        stored_run.sample("latency_mean", "s", n, v, bad)
        for n, v, bad in (
            (0, 3.0, None),
            (1, 1.0, None),
            (2, 99.0, "saturated"),
            (3, None, "cut short"),
            (4, 2.0, None),
        )
    ]
    (found,) = store.summarise(samples)
    assert (found.n, found.median, found.low, found.high) == (3, 2.0, 1.0, 3.0)


def test_rates_become_seconds_for_pytest_benchmark(tmp_path: Path) -> None:
    """Its compare takes more for worse: a rate is stored as seconds per request, the rate itself beside it."""
    document = store.benchmark_document(stored_run.run())
    rate = next(b for b in document["benchmarks"] if b["name"] == "http-host:request_rate")
    assert rate["stats"]["max"] == 1 / 1000
    assert rate["stats"]["min"] == 1 / 1010
    assert rate["extra_info"] == {"metric": "request_rate", "unit": "1/s", "median": 1005.0}
    latency = next(b for b in document["benchmarks"] if b["name"] == "http-host:latency_p99")
    assert latency["stats"]["mean"] == 1.5e-3
    assert not [b for b in document["benchmarks"] if b["name"] == "http-runc:latency_p99"]


def test_only_main_metrics_are_compared() -> None:
    """Spread and extremes of one run would bury what two runs are compared by."""
    left_out = ("latency_stdev", "latency_min", "latency_max", "round_trip_time_mdev", "connect_time_max")
    kept = ("latency_mean", "latency_p99", "round_trip_time_mean", "connect_time_p50")
    samples = [stored_run.sample(name, "s", 0, 1e-3) for name in (*left_out, *kept)]
    samples.append(stored_run.sample("request_rate_per_thread_mean", "1/s", 0, 10.0))
    document = store.benchmark_document(stored_run.run(cells=[stored_run.cell("host", samples)]))
    assert [entry["extra_info"]["metric"] for entry in document["benchmarks"]] == list(kept)


def test_benchmark_json_is_read_by_the_real_compare_command(tmp_path: Path) -> None:
    """pytest-benchmark's own command line accepts the file and shows both cells."""
    store.save(tmp_path, stored_run.run())
    argv = [sys.executable, "-W", "ignore", "-m", "pytest_benchmark", "compare", str(tmp_path / store.BENCHMARK)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "http-host:request_rate" in done.stdout
    assert "http-runc:request_rate" in done.stdout


WRITE = """
import sys
from pathlib import Path
from weighbridge.shell import write_atomically
path = Path(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in "ab":
        write_atomically(path, letter * 200_000)
"""


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """Readers never see half a run.json, whenever the writer was killed."""
    path, rng = tmp_path / "run.json", random.Random(1)
    write_atomically(path, "a" * 200_000)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, cwd=ROOT) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(rng.randrange(1, 40)):
                assert path.read_text() in ("a" * 200_000, "b" * 200_000)
            os.kill(writer.pid, signal.SIGKILL)
        assert path.read_text() in ("a" * 200_000, "b" * 200_000)


def test_folder_that_cannot_be_written_is_an_error_with_the_truth(tmp_path: Path) -> None:
    """The message says that the journal still holds everything."""
    with pytest.raises(StoreError, match="the journal there is complete"):
        store.save(tmp_path / "nowhere", stored_run.run())


def test_checked_in_schema_is_the_generated_one() -> None:
    """Other programs read run.json by a published schema that cannot grow stale."""
    assert (ROOT / "docs/run.schema.json").read_text() == store.run_schema(), (
        "run: weighbridge schema run > docs/run.schema.json"
    )


def test_schema_names_every_key_of_a_run() -> None:
    """The schema's keys are those that run.json has."""
    schema = json.loads(store.run_schema())
    document = json.loads(store.dump(stored_run.run()))
    assert set(schema["properties"]) == set(schema["required"]) == set(document)
    assert schema["properties"]["schema"] == {"const": "weighbridge-run/2"}
