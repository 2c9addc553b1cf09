from __future__ import annotations

import itertools

import pytest

from weighbridge.model import Budget, Cell, Status, Verdict, cell_id, worst

RATIO = Budget("latency_mean", "at_most", "ratio", 1.6, "1", {}, {"runtime": "runc"})


def cell(**axes: str) -> Cell:
    return Cell("http", axes, "wrk", "nginx", None)


def test_cell_names_say_what_bare_numbers_mean() -> None:
    """A number alone is no name; a rate's slash makes no folder."""
    assert cell(runtime="runc", connections="16", rate="5000/s").id == "http-runc-connections=16-5000-per-s"
    assert cell_id("http", {"runtime": "runc"}) == "http-runc"


def test_stands_are_shared_by_what_is_stood_up_not_by_load() -> None:
    """Cells that differ in their load alone use one server; another runtime gets its own."""
    few, many, other = cell(runtime="runc", c="1"), cell(runtime="runc", c="2"), cell(runtime="kata", c="1")
    assert few.stand_key == many.stand_key != other.stand_key
    assert few.slot_key != many.slot_key


def test_budget_never_compares_a_cell_with_itself() -> None:
    """The reference cell is not under the ratio budget that names it."""
    budget = Budget("request_rate", "at_least", "ratio", 0.9, "1", {}, {"runtime": "runc"})
    assert budget.matches({"runtime": "kata"})
    assert not budget.matches({"runtime": "runc"})


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (RATIO, "latency_mean at most 1.6 x runtime=runc"),
        (Budget("throughput", "at_least", "limit", 0.95, "fraction"), "throughput at least 95 % of limit"),
        (Budget("request_rate", "at_least", "absolute", 2000.0, "1/s"), "request_rate at least 2000/s"),
        (Budget("packet_loss", "at_most", "absolute", 0.005, "fraction"), "packet_loss at most 0.5 %"),
    ],
)
def test_budgets_read_as_one_phrase(budget: Budget, text: str) -> None:
    """Its phrase is what a reader sees and what a verdict is found by."""
    assert budget.text == text


def test_worst_verdict_stands_for_a_cell() -> None:
    """A failure is never hidden by anything else, a pass hides nothing, and no budget passes."""
    order = [Status.FAIL, Status.INVALID, Status.INFRA_ERROR, Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASS]
    for one, other in itertools.combinations(order, 2):
        verdicts = tuple(Verdict("c", "b", status, "") for status in (other, one))
        assert worst(verdicts) is one
    assert worst(()) is Status.PASS
