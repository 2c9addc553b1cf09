from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weighbridge import finish
from weighbridge.campaign import Outcome
from weighbridge.measure import Measured
from weighbridge.model import Cell, Sample
from weighbridge.scenario import load_all

ROOT = Path(__file__).parents[1]


def stored_rate(cell: Cell, samples: list[Sample], *, live: bool) -> float | str | None:
    outcome = Outcome(cell, Measured(cell, samples), ())
    return finish._cell(outcome, selected=True, live=live).link_rate


@pytest.mark.parametrize(("rate", "stored"), [(1e8, 1e8), (None, "unshaped")])
def test_link_rate_is_kept_of_what_was_measured_over_it(rate: float | None, stored: float | str) -> None:
    """Nothing is said of the link that a recording went over, or of one that nothing crossed."""
    scenario = load_all(ROOT / "scenarios", "quick", ("network_stream",))[0]
    cell = replace(scenario.cells[0], link_rate=rate)
    sample = Sample("throughput", "bit/s", 0, 9e7)
    assert stored_rate(cell, [sample], live=True) == stored
    assert stored_rate(cell, [sample], live=False) is None
    assert stored_rate(cell, [], live=True) is None
