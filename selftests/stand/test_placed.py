"""What a machine can meet of a cell's wishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weighbridge.model import Cell, Limits
from weighbridge.scenario import load
from weighbridge.stand.placed import Placement, place, scaled, unavailable
from weighbridge.targets import Capacity

SMALL = Capacity((0, 1), 16 * 2**30)
CELL = load(Path(__file__).parents[2] / "scenarios/http_rate.toml").cells[0]


def asked(cpus: Any) -> Cell:
    return replace(CELL, cpus=cpus)


@pytest.mark.parametrize(
    ("cpus", "processors", "placement"),
    [
        ("free", (0, 1), Placement()),
        ("shared", (0, 1), Placement("1", "1")),
        ("split", (0, 1), Placement("0", "1")),
        ("split", (0, 1, 2), Placement("0", "1,2")),
        ("split", (2, 3, 6, 7), Placement("2,3", "6,7")),
        ("shared", (5,), Placement("5", "5")),
    ],
)
def test_client_and_server_are_placed_on_what_there_is(
    cpus: str, processors: tuple[int, ...], placement: Placement
) -> None:
    """Processors are named by their numbers, so a machine that gives the suite 2, 3, 6 and 7 is not asked for 0."""
    assert place(asked(cpus), Capacity(processors, 2**30)) == placement


def test_one_processor_cannot_be_split() -> None:
    """A placement that the machine cannot give is a skip with its reason, never another placement under its name."""
    assert "needs two processors" in str(unavailable(asked("split"), Capacity((0,), 2**30)))
    assert unavailable(asked("shared"), Capacity((0,), 2**30)) is None
    assert unavailable(asked("split"), SMALL) is None


def test_limits_are_no_larger_than_the_machine() -> None:
    """A limit of 60 CPUs and 240 GiB on two CPUs and 16 GiB is two CPUs and 16 GiB; smaller limits stay."""
    found = scaled(Limits(cpu=60.0, memory=240.0 * 2**30, request_cpu=1.0, request_memory=2.0 * 2**30), SMALL)

    assert found == Limits(cpu=2, memory=16 * 2**30, request_cpu=1.0, request_memory=2.0 * 2**30)
    assert scaled(Limits(), SMALL) == Limits()
