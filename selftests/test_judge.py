from __future__ import annotations

import csv
import itertools
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from weighbridge.judge import ALPHA, BETA, hodges_lehmann, judge, median_interval, signed_rank, smallest_effect
from weighbridge.measure import Look
from weighbridge.model import Budget, PhysicalLimit, Status, Verdict
from weighbridge.scenario import LOOKS

SLOWER = Budget("latency_mean", "at_most", "ratio", 1.6, "1", reference={"runtime": "runc"})
RATE = Budget("request_rate", "at_least", "ratio", 0.9, "1", reference={"runtime": "runc"})
LOSS = Budget("packet_loss", "at_most", "absolute", 0.005, "fraction")
LINE = Budget("throughput", "at_least", "limit", 0.95, "fraction")
WIRE = PhysicalLimit(941.48e6, "1000 Mbit/s x 1448 / (1500 + 38)")
NOISE = Path(__file__).parent / "data/noise/two-identical-servers.csv"


def numbered(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def looked(budget: Budget, ratios: list[float], looks: tuple[int, ...], base: float = 1e-5) -> Verdict:
    """The verdict of a measurement that stops at the first look that decides."""
    for number, n in enumerate(looks, start=1):
        figures = {i: base * ratio for i, ratio in enumerate(ratios[:n])}
        verdict = judge(budget, "cell", figures, dict.fromkeys(figures, base), Look(number, len(looks)), by_value=False)
        if verdict is not None:
            return verdict
    raise AssertionError("the last look must decide")


def drawn(rng: random.Random, centre: float, noise: float, n: int) -> list[float]:
    return [centre * math.exp(rng.gauss(0, noise)) for _ in range(n)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-5, 5).filter(lambda v: abs(v) > 1e-6), min_size=2, max_size=30, unique_by=abs))
def test_p_value_is_scipys_where_nothing_is_tied(values: list[float]) -> None:
    """The test is the exact Wilcoxon signed-rank test, not something like it."""
    theirs = wilcoxon(values, alternative="greater", method="exact").pvalue
    assert signed_rank(values) == pytest.approx(theirs, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_p_value_is_exact_with_ties_and_zeros(values: list[int]) -> None:
    """Rounded tool output ties; the p-value still is the share of sign patterns at least as extreme."""
    sizes = sorted(abs(v) for v in values)
    rank = {size: sizes.index(size) + (sizes.count(size) + 1) / 2 for size in sizes}
    other = [rank[abs(v)] for v in values if v]
    above = sum(rank[v] for v in values if v > 0)
    sums = [
        sum(r for r, up in zip(other, signs, strict=True) if up)
        for signs in itertools.product((0, 1), repeat=len(other))
    ]
    assert signed_rank(values) == pytest.approx(sum(total >= above for total in sums) / len(sums))


@pytest.mark.parametrize("n", [6, 8, 12, 20])
def test_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    """A 95 % interval that holds the true ratio in fewer than 95 % of runs would be a wrong number."""
    rng = random.Random(7)
    inside = 0
    for _ in range(1500):
        _, low, high = hodges_lehmann([rng.gauss(0.3, 1) for _ in range(n)])
        inside += low <= 0.3 <= high
    assert inside / 1500 >= 0.94
    assert hodges_lehmann([0.3] * n) == pytest.approx((0.3, 0.3, 0.3))


def test_interval_is_that_of_the_inverted_test() -> None:
    """The bounds are where the two-sided test turns significant, as R's wilcox.test gives them."""
    values = [1.13, 2.21, 0.37, 4.49, 2.57, 3.71, 0.93, 5.83]
    _, low, high = hodges_lehmann(values)
    for shift, kept in ((low + 1e-6, True), (low - 1e-6, False), (high - 1e-6, True), (high + 1e-6, False)):
        p = wilcoxon([v - shift for v in values], method="exact").pvalue
        assert bool(p > 0.05) is kept


@pytest.mark.parametrize("profile", ["quick", "standard"])
@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_budget_met_exactly_hardly_ever_fails(profile: str, noise: float) -> None:
    """The gate's false alarms stay below alpha over all looks together, whatever the noise."""
    rng = random.Random(f"{profile} {noise}")
    found = [looked(SLOWER, drawn(rng, 1.6, noise, 40), LOOKS[profile]).status for _ in range(1000)]
    # Three standard errors above what is promised.
    assert found.count(Status.FAIL) / 1000 <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / 1000)
    assert found.count(Status.PASS) / 1000 <= BETA + 3 * math.sqrt(BETA * (1 - BETA) / 1000)


def test_rounded_figures_do_not_raise_false_alarms() -> None:
    """Tools print few digits; ties and exact hits of the bound must not count as evidence."""
    rng = random.Random(11)
    failed = 0
    for _ in range(1000):
        ratios = [round(ratio, 1) for ratio in drawn(rng, 1.6, 0.1, 40)]
        # Rounding is symmetric on the log scale only around the bound's own grid, so flip signs at random instead.
        logs = [abs(math.log(ratio / 1.6)) * rng.choice((-1, 1)) for ratio in ratios]
        failed += looked(SLOWER, [1.6 * math.exp(v) for v in logs], LOOKS["standard"]).status is Status.FAIL
    assert failed <= 20


def test_true_differences_are_found() -> None:
    """2 x fails a bound of 1.6, 1.3 passes it, and 1.55 under noise stays open instead of being guessed."""
    rng = random.Random(3)
    for _ in range(50):
        assert looked(SLOWER, drawn(rng, 2.0, 0.1, 40), LOOKS["standard"]).status is Status.FAIL
        assert looked(SLOWER, drawn(rng, 1.3, 0.1, 40), LOOKS["standard"]).status is Status.PASS
    close = [looked(SLOWER, drawn(rng, 1.55, 0.3, 40), LOOKS["standard"]).status for _ in range(50)]
    assert close.count(Status.INCONCLUSIVE) >= 35


def test_a_rate_that_falls_fails_and_one_that_rises_passes() -> None:
    """The direction of `at_least` is not that of `at_most`."""
    rng = random.Random(4)
    assert looked(RATE, drawn(rng, 0.5, 0.05, 10), LOOKS["quick"]).status is Status.FAIL
    assert looked(RATE, drawn(rng, 1.0, 0.02, 10), LOOKS["quick"]).status is Status.PASS


@pytest.mark.parametrize("tool", ["wrk", "qperf", "iperf3"])
def test_two_identical_servers_are_not_told_apart(tool: str) -> None:
    """On the recorded noise of two identical servers a budget of 1 x is never called missed."""
    with NOISE.open() as stream:
        pairs = [(float(r["a"]), float(r["b"])) for r in csv.DictReader(stream) if r["tool"] == tool]
    equal = Budget("latency_mean", "at_most", "ratio", 1.0, "1", reference={"runtime": "runc"})
    rng = random.Random(5)
    for _ in range(40):
        chosen = rng.sample(pairs, 40)
        verdict = looked(equal, [b / a for a, b in chosen], LOOKS["standard"])
        assert verdict.status is not Status.FAIL
        assert verdict.ratio == pytest.approx(1.0, abs=0.1)


def test_looks_before_the_last_may_ask_for_more() -> None:
    """Undecided is no verdict while rounds are left, and inconclusive with the smallest visible effect after."""
    values = numbered(1.5, 1.7, 1.62, 1.58, 1.4, 1.8)
    same = dict.fromkeys(values, 1.0)
    assert judge(SLOWER, "cell", values, same, Look(1, 2), by_value=False) is None
    verdict = judge(SLOWER, "cell", values, same, Look(2, 2), by_value=False)
    assert verdict is not None
    assert verdict.status is Status.INCONCLUSIVE
    effect = smallest_effect([math.log(v) for v in values.values()], Look(2, 2))
    assert f"an effect under {effect:.1%} cannot be seen" in verdict.reason


def test_one_round_decides_nothing() -> None:
    """A single live measurement has no interval and no verdict, however far from the bound."""
    verdict = judge(SLOWER, "cell", {0: 9.0}, {0: 1.0}, Look(1, 1), by_value=False)
    assert verdict is not None
    assert (verdict.status, verdict.interval, verdict.n) == (Status.INCONCLUSIVE, None, 1)
    assert "at least 5 rounds" in verdict.reason


@pytest.mark.parametrize(("ratio", "status"), [(1.59, Status.PASS), (1.6, Status.PASS), (1.61, Status.FAIL)])
def test_recordings_are_judged_by_value_and_say_so(ratio: float, status: Status) -> None:
    """A figure recorded once is compared as it is, marked n = 1, without an interval."""
    verdict = judge(SLOWER, "cell", {0: ratio}, {0: 1.0}, Look(1, 1), by_value=True)
    assert verdict is not None
    assert (verdict.status, verdict.interval, verdict.n) == (status, None, 1)
    assert verdict.reason.endswith("by value, n = 1")


def test_only_figures_of_the_same_round_are_compared() -> None:
    """Rounds of one cell without their counterpart say nothing about the ratio."""
    verdict = judge(SLOWER, "cell", {0: 9.0, 1: 1.5}, {1: 1.0, 2: 1.0}, Look(1, 1), by_value=True)
    assert verdict is not None
    assert (verdict.ratio, verdict.n) == (1.5, 1)


def test_no_figures_never_pass() -> None:
    """Missing data is invalid: neither a pass nor a regression."""
    for figures, reference in (({}, {0: 1.0}), ({0: 1.0}, {}), ({0: 1.0}, None)):
        verdict = judge(SLOWER, "cell", figures, reference, Look(1, 1), by_value=True)
        assert verdict is not None
        assert verdict.status is Status.INVALID


def test_unknown_wire_makes_a_limit_budget_invalid() -> None:
    """Without a line rate there is no share of it, and the reason says that."""
    verdict = judge(LINE, "cell", {0: 9e8}, None, Look(1, 1), by_value=True)
    assert verdict is not None
    assert verdict.status is Status.INVALID
    assert "wire" in verdict.reason


def test_throughput_is_judged_against_the_wire() -> None:
    """A share of the physical limit is shown beside the figure and decides."""
    verdict = judge(LINE, "cell", {0: 910e6}, WIRE, Look(1, 1), by_value=True)
    assert verdict is not None
    assert verdict.status is Status.PASS
    assert verdict.reason.startswith("910 Mbit/s = 96.66 % of limit")
    assert verdict.ratio == pytest.approx(0.96656, rel=1e-4)


def test_no_loss_at_all_passes() -> None:
    """Zero has no logarithm but is the best loss there is; it is shown as 0, not as what stands for it."""
    verdict = judge(LOSS, "cell", dict.fromkeys(range(10), 0.0), None, Look(1, 1), by_value=False)
    assert verdict is not None
    assert verdict.status is Status.PASS
    assert verdict.reason.startswith("0 % [95%: 0 % to 0 %]")


def test_loss_with_zeros_among_it_is_told_as_it_was_measured() -> None:
    """What stands for zero in the ranks never gets into a figure: the median and its interval are real losses."""
    measured = numbered(0.00194, 0.0, 0.00312, 0.0, 0.001, 0.0017)
    verdict = judge(LOSS, "cell", measured, None, Look(1, 1), by_value=False)
    assert verdict is not None
    assert verdict.status is Status.PASS
    assert verdict.reason.startswith("0.135 % [95%: 0 % to 0.312 %], n = 6")
    assert verdict.ratio == pytest.approx(0.00135 / 0.005)
    assert verdict.interval == pytest.approx((0.0, 0.00312 / 0.005))


def test_loss_ratio_with_zeros_among_it_is_told_as_it_was_measured() -> None:
    """Loss against none has no end, none against none is equal; neither is told as a number made up for the ranks."""
    budget = Budget("packet_loss", "at_most", "ratio", 2.0, "1", reference={"runtime": "runc"})

    def judged(figures: tuple[float, ...], others: tuple[float, ...]) -> Verdict:
        verdict = judge(budget, "cell", numbered(*figures), numbered(*others), Look(1, 1), by_value=False)
        assert verdict is not None
        return verdict

    mixed = judged((0.0, 0.0, 0.001, 0.003, 0.003, 0.001), (0.001, 0.0, 0.001, 0.001, 0.0, 0.002))
    assert mixed.reason == "1 x [95%: 0 to ∞], n = 6, too few rounds to tell it from the bound"
    assert (mixed.status, mixed.ratio, mixed.interval) == (Status.INCONCLUSIVE, 1.0, None)
    endless = judged((0.001,) * 8, (0.0,) * 8)
    assert endless.reason.startswith("∞ x [95%: ∞ to ∞], n = 8")
    assert (endless.status, endless.ratio, endless.interval) == (Status.FAIL, None, None)
    none = judged((0.0,) * 8, (0.001,) * 8)
    assert none.reason.startswith("0 x [95%: 0 to 0], n = 8")
    assert (none.status, none.ratio, none.interval) == (Status.PASS, 0.0, (0.0, 0.0))


@pytest.mark.parametrize(("n", "cut"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (40, 14)])
def test_interval_of_the_median_is_that_of_the_tables(n: int, cut: int) -> None:
    """The order statistics are those of the sign test's published table (two-sided, 5 %)."""
    assert median_interval(range(1, n + 1)) == ((n + 1) / 2, cut, n + 1 - cut)


@pytest.mark.parametrize(
    ("budget", "figure", "other", "status"),
    [
        (RATE, 0.0, 1000.0, Status.FAIL),
        (RATE, 1000.0, 0.0, Status.INVALID),
        (RATE, 0.0, 0.0, Status.INVALID),
        (SLOWER, 1e-3, 0.0, Status.INVALID),
        (SLOWER, 0.0, 1e-3, Status.INVALID),
    ],
)
def test_zeros_never_help(budget: Budget, figure: float, other: float, status: Status) -> None:
    """A dead server is the worst rate, a dead reference is none, a time of zero is only unresolved."""
    verdict = judge(budget, "cell", {0: figure}, {0: other}, Look(1, 1), by_value=True)
    assert verdict is not None
    assert verdict.status is status


def test_figure_never_reads_like_the_bound_it_misses() -> None:
    """1999.97/s against at least 2000/s shows the digits that made it fail."""
    budget = Budget("request_rate", "at_least", "absolute", 2000.0, "1/s")
    for value, shown in ((1999.97, "1999.97/s"), (2000.0, "2000/s"), (1999.999, "1999.999/s")):
        verdict = judge(budget, "cell", {0: value}, None, Look(1, 1), by_value=True)
        assert verdict is not None
        assert verdict.reason.split(",")[0] == shown
    verdict = judge(SLOWER, "cell", {0: 1.60004}, {0: 1.0}, Look(1, 1), by_value=True)
    assert verdict is not None
    assert verdict.reason.startswith("1.60004 x")


def test_absolute_verdicts_hold_ratio_to_the_bound() -> None:
    """Other programs read `ratio` as figure over bound, and its interval likewise."""
    budget = Budget("request_rate", "at_least", "absolute", 2000.0, "1/s")
    verdict = judge(budget, "cell", dict.fromkeys(range(10), 3000.0), None, Look(1, 1), by_value=False)
    assert verdict is not None
    assert verdict.status is Status.PASS
    assert verdict.ratio == pytest.approx(1.5)
    assert verdict.interval == pytest.approx((1.5, 1.5))
