"""The archive of studies: what it holds of a cell, and what of that is not to be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from weighbridge.errors import UsageError
from weighbridge.model import Cell
from weighbridge.scenario import load
from weighbridge.targets.replay import Archive

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture
def archive() -> Archive:
    """The shipped studies."""
    return Archive(SCENARIOS / "studies")


def cell(scenario: str, axes: Mapping[str, str]) -> Cell:
    cells = load(SCENARIOS / f"{scenario}.toml", "study").cells
    return next(c for c in cells if axes.items() <= dict(c.axes).items())


def test_swept_output_stands_for_each_of_its_cells(archive: Archive) -> None:
    """One qperf output holds four message sizes: each of their cells finds it."""
    found = [
        archive.recordings(cell("socket_1c2g", {"runtime": "kata", "placement": "same-node", "message_size": size}))
        for size in ("1B", "256KiB")
    ]

    assert [len(recordings) for recordings in found] == [1, 1]
    assert found[0][0].text == found[1][0].text


def test_cell_nobody_measured_has_no_recording(archive: Archive) -> None:
    """A runtime that the study did not have is not found under another's name."""
    assert archive.recordings(cell("socket_1c2g", {"runtime": "gvisor"})) == []


def test_figure_that_lost_a_digit_is_refuted(archive: Archive) -> None:
    """A printed figure that its neighbours exclude never becomes a number."""
    axes = {"cores": "1", "response_size": "500KiB", "concurrency": "5"}

    refuted = archive.recordings(cell("sidecar_bodies", axes))[0].refuted

    assert set(refuted) == {"throughput"}
    assert archive.recordings(cell("sidecar_bodies", {**axes, "concurrency": "6"}))[0].refuted == {}


def test_runs_of_one_log_are_of_one_round(archive: Archive) -> None:
    """Kata of study 001 was run with the second host and runc runs, and is compared with those."""
    rounds = {
        runtime: [r.round for r in archive.recordings(cell("http_flood", {"runtime": runtime}))]
        for runtime in ("host", "runc", "kata")
    }

    assert rounds == {"host": [0, 1], "runc": [0, 1], "kata": [1]}


def test_line_rate_is_what_the_study_states(archive: Archive) -> None:
    """A physical limit is computed only where somebody wrote the link down."""
    assert archive.stated_link_rate(cell("network_stream", {"network": "flannel"})) == 1e9
    assert archive.stated_link_rate(cell("socket_1c2g", {"runtime": "runc"})) is None


def test_unknown_study_is_named(archive: Archive) -> None:
    """A scenario that repeats a study which is not there says which."""
    with pytest.raises(UsageError, match="no study is called '999'"):
        archive.recordings(replace(cell("sidecar_cores", {}), study="999"))
