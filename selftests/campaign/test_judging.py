"""The verdicts of a group."""

from __future__ import annotations

import pytest

from weighbridge.campaign.judging import Judging
from weighbridge.measure import Group, Look, Measured, Slot
from weighbridge.model import Budget, Cell, Sample, Status
from weighbridge.tools import wrk

LOAD = wrk.Load.model_validate({"threads": 1, "connections": 16, "duration": "2s"})
BUDGET = Budget("latency_p99", "at_most", "ratio", 1.6, "s", reference={"runtime": "runc"})


def measured(runtime: str, values: list[float | None], caveat: str | None = None) -> Measured:
    cell = Cell("http", {"runtime": runtime}, "wrk", "nginx", LOAD, budgets=(BUDGET,) if runtime == "kata" else ())
    samples = [
        Sample("latency_p99", "s", number, value, None if value else "saturated: 10/s of 20/s reached")
        for number, value in enumerate(values)
    ]
    return Measured(cell, samples, caveat=caveat)


def verdict(kata: Measured, runc: Measured, *, live: bool = True) -> tuple[Status, str]:
    group = Group("http", (Slot((kata.cell,)), Slot((runc.cell,))), (10,))
    judging = Judging(group, "lab", live, {kata.cell.id}, {})
    known = {m.cell.id: m for m in (kata, runc)}
    assert judging.decided(Look(1, 1), known)
    (found,) = judging.final(kata, known)
    return found.status, found.reason


def test_good_rounds_alone_do_not_pass_a_saturated_cell() -> None:
    """The rounds in which a server did not keep up count against it; without them nothing is judged."""
    good = measured("runc", [0.01 + 0.0001 * number for number in range(10)])

    status, reason = verdict(measured("kata", [0.01] * 6 + [None] * 4), good)

    assert status is Status.INVALID
    assert reason == "4 of 10 rounds have no figure: saturated: 10/s of 20/s reached"
    assert verdict(measured("kata", [0.01 + 0.0002 * n for n in range(10)]), good)[0] is Status.PASS
    status, reason = verdict(measured("kata", [0.01] * 10), measured("runc", [0.01] * 6 + [None] * 4))
    assert status is Status.INVALID
    assert reason.startswith("http-runc: 4 of 10 rounds")


@pytest.mark.parametrize("whose", ["kata", "runc"])
def test_figures_with_a_caveat_decide_nothing(whose: str) -> None:
    """Figures of a stand-in neither pass nor fail, on whichever side of the ratio they stand; they are still told."""
    rounds: list[float | None] = [0.01 + 0.0001 * number for number in range(10)]
    kata = measured("kata", rounds, "emulated CPU" if whose == "kata" else None)
    runc = measured("runc", rounds, "emulated CPU" if whose == "runc" else None)

    status, reason = verdict(kata, runc)

    assert status is Status.INCONCLUSIVE
    assert reason.startswith("emulated CPU; 1 x")
