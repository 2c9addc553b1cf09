"""Budgets × samples → verdicts.

The unit of analysis is one round's log-ratio d = ±ln(figure ÷ reference ÷ bound), signed so that worse
is positive: rounds are the repetitions, requests are not. Measured rounds are tested with the exact
one-sided Wilcoxon signed-rank test at planned looks, alpha and beta divided by their number (union
bound): fail when proven worse than the bound, pass when proven better, else more rounds; at the last
look inconclusive, with the smallest effect that could have been seen. Recorded figures (few rounds,
no coin decided their order) are judged by value and say so.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import NormalDist, median, stdev

from weighbridge import metrics
from weighbridge.measure import Look
from weighbridge.model import Budget, PhysicalLimit, Status, Verdict
from weighbridge.units import SECOND, show

ALPHA = 0.01
"""Chance of calling a budget missed that is met exactly, over all looks of one budget."""
BETA = 0.05
"""Chance of calling a budget met that is missed just so, over all looks of one budget."""
POWER = 0.9
"""With which the smallest detectable effect would have been seen."""
CONFIDENCE = 0.95

_RANK_EFFICIENCY = 3 / math.pi
"""Asymptotic efficiency of the signed-rank test against the t-test for normal data (Hodges & Lehmann 1956)."""

_NOTHING = 1e-12
"""Stands for a ratio of zero on the log scale, its inverse for one without end: enough for signs and ranks.

No figure is ever made from it.
"""


def judge(
    budget: Budget,
    cell: str,
    figures: Mapping[int, float],
    reference: Mapping[int, float] | PhysicalLimit | None,
    look: Look,
    *,
    by_value: bool,
) -> Verdict | None:
    """The verdict on one budget, or None when more rounds are needed.

    `figures` are the valid samples by round. `reference` holds the other cell's for a ratio budget, or
    the physical limit; it is None for an absolute bound. `by_value` compares medians instead of testing.
    """
    if budget.kind == "limit" and not isinstance(reference, PhysicalLimit):
        return Verdict(cell, budget.text, Status.INVALID, "what the wire can carry is not known here")
    ratios = _ratios(budget, figures, reference)
    if not ratios:
        return Verdict(cell, budget.text, Status.INVALID, f"no valid {budget.metric} to judge")
    if by_value:
        return _by_value(budget, cell, ratios, figures)
    return _tested(budget, cell, ratios, figures, look)


def _ratios(
    budget: Budget, figures: Mapping[int, float], reference: Mapping[int, float] | PhysicalLimit | None
) -> list[float]:
    """Each round's figure over what the bound is a multiple of."""
    if budget.kind == "ratio":
        others = reference if isinstance(reference, Mapping) else {}
        pairs = [_pair(budget, value, others[number]) for number, value in figures.items() if number in others]
        return [ratio for ratio in pairs if ratio is not None]
    base = reference.throughput if isinstance(reference, PhysicalLimit) and budget.kind == "limit" else 1.0
    return [value / base for value in figures.values()]


def _pair(budget: Budget, value: float, reference: float) -> float | None:
    """The ratio of one round, None where there is none.

    A rate of zero is the worst there is, but none can be measured against it; no loss is the best, any
    is endlessly more than none, and none on both sides is the same. A time of zero is only too short
    for the tool's resolution and says nothing.
    """
    if budget.bound == "at_least":
        return value / reference if reference > 0 else None
    if metrics.metric(budget.metric).unit == SECOND and min(value, reference) <= 0:
        return None
    if reference > 0:
        return value / reference
    return math.inf if value > 0 else 1.0


def _by_value(budget: Budget, cell: str, ratios: Sequence[float], figures: Mapping[int, float]) -> Verdict:
    ratio = median(ratios)
    met = ratio <= budget.value if budget.bound == "at_most" else ratio >= budget.value
    reason = f"{_statement(budget, ratio, figures)}, by value, n = {len(ratios)}"
    return Verdict(
        cell, budget.text, Status.PASS if met else Status.FAIL, reason, _stored(budget, ratio), None, len(ratios)
    )


def _tested(
    budget: Budget, cell: str, ratios: Sequence[float], figures: Mapping[int, float], look: Look
) -> Verdict | None:
    sign = 1.0 if budget.bound == "at_most" else -1.0
    logs = [_log(ratio) for ratio in ratios]
    # Rounding keeps the ties that equal tool output makes from being broken by floating point noise.
    worse = [round(sign * (value - math.log(budget.value)), 12) for value in logs]
    n = len(worse)
    zeros = any(ratio in (0, math.inf) for ratio in ratios)
    # Averages of logs with a stand-in among them mean nothing; order statistics are the same on either scale.
    ratio, low, high = median_interval(ratios) if zeros else (math.exp(v) for v in hodges_lehmann(logs))
    interval = low, high

    def verdict(status: Status, why: str) -> Verdict:
        bounds = _stored(budget, low), _stored(budget, high)
        spread = f" [{CONFIDENCE:.0%}: {_bounds(budget, interval)}]" if n > 1 else ""
        return Verdict(
            cell,
            budget.text,
            status,
            f"{_statement(budget, ratio, figures)}{spread}, {why}",
            _stored(budget, ratio),
            (bounds[0], bounds[1]) if n > 1 and bounds[0] is not None and bounds[1] is not None else None,
            n,
        )

    if n > 1:
        missed, met = signed_rank(worse), signed_rank([-value for value in worse])
        if missed <= ALPHA / look.planned:
            return verdict(Status.FAIL, f"n = {n}, p = {missed:.2g}")
        if met <= BETA / look.planned:
            return verdict(Status.PASS, f"n = {n}, p = {met:.2g}")
    if not look.last:
        return None
    needed = math.ceil(math.log2(look.planned / BETA))
    if n < needed:
        return verdict(Status.INCONCLUSIVE, f"n = {n}, at least {needed} rounds are needed to decide")
    if zeros:
        return verdict(Status.INCONCLUSIVE, f"n = {n}, too few rounds to tell it from the bound")
    return verdict(Status.INCONCLUSIVE, f"n = {n}, an effect under {smallest_effect(logs, look):.1%} cannot be seen")


def signed_rank(values: Sequence[float]) -> float:
    """The p-value of the one-sided Wilcoxon signed-rank test that the values lie above zero.

    Exact also where values are tied or zero, as tools that round make them: all sign patterns of the
    average ranks at hand are counted (Pratt 1959 for the zeros). scipy's exact method looks ties up in
    the distribution without them.
    """
    sizes = sorted(abs(value) for value in values)
    # Twice the average rank, so that it is whole: the first position plus the last one, counted from one.
    ranks = [bisect_left(sizes, abs(value)) + bisect_right(sizes, abs(value)) + 1 for value in values]
    above = sum(rank for rank, value in zip(ranks, values, strict=True) if value > 0)
    ways = _ways([rank for rank, value in zip(ranks, values, strict=True) if value])
    return sum(ways[above:]) / sum(ways)


def hodges_lehmann(values: Sequence[float]) -> tuple[float, float, float]:
    """The Hodges-Lehmann centre and its confidence interval by inverting the signed-rank test.

    The centre is the median of the Walsh averages. With `cut` the number of smallest rank sums that together
    have at most half the error left by the confidence, the bounds are the `cut`-th averages from either end
    (Hollander & Wolfe, Nonparametric Statistical Methods, 3.2-3.3). With too few values for the
    confidence asked (under six), the interval is the whole range of the averages.
    """
    n = len(values)
    walsh = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    allowed = (1 - CONFIDENCE) / 2 * 2**n
    ways, below, cut = _ways(range(1, n + 1)), 0, 0
    while below + ways[cut] <= allowed:
        below += ways[cut]
        cut += 1
    outermost = max(cut - 1, 0)
    return median(walsh), walsh[outermost], walsh[len(walsh) - 1 - outermost]


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its confidence interval by inverting the sign test.

    With `cut` the largest number for which fewer than `cut` of n fair coins fall heads with at most half the
    error left by the confidence, the bounds are the `cut`-th values from either end (Hollander & Wolfe,
    3.6). With too few values for the confidence asked (under six), the interval is their whole range.
    """
    ordered, n = sorted(values), len(values)
    allowed = (1 - CONFIDENCE) / 2 * 2**n
    below, cut = 0, 0
    while below + math.comb(n, cut) <= allowed:
        below += math.comb(n, cut)
        cut += 1
    outermost = max(cut - 1, 0)
    return median(ordered), ordered[outermost], ordered[n - 1 - outermost]


def _ways(ranks: Sequence[int]) -> list[int]:
    """How many sets of these ranks sum to 0, 1, 2 and so on: the coefficients of the product of (1 + x^rank).

    One long integer holds the polynomial, a fixed number of bytes for each coefficient.
    """
    size = len(ranks) // 8 + 1
    polynomial = 1
    for rank in ranks:
        polynomial += polynomial << (8 * size * rank)
    held = polynomial.to_bytes((sum(ranks) + 1) * size, "little")
    return [int.from_bytes(held[at : at + size], "little") for at in range(0, len(held), size)]


def smallest_effect(logs: Sequence[float], look: Look) -> float:
    """The relative change that these rounds would have shown with 90 % power.

    (z(1 - alpha ÷ looks) + z(power)) × sd ÷ √(n × 3/π), back from the log scale.
    """
    normal = NormalDist()
    z = normal.inv_cdf(1 - ALPHA / look.planned) + normal.inv_cdf(POWER)
    return math.expm1(z * stdev(logs) / math.sqrt(len(logs) * _RANK_EFFICIENCY))


def _log(ratio: float) -> float:
    return math.log(min(ratio, 1 / _NOTHING) or _NOTHING)


def _stored(budget: Budget, ratio: float) -> float | None:
    """A verdict's ratio: to the reference cell, the limit or the absolute bound; None for one without end."""
    if ratio == math.inf:
        return None
    return ratio / budget.value if budget.kind == "absolute" else ratio


def _statement(budget: Budget, ratio: float, figures: Mapping[int, float]) -> str:
    if budget.kind == "ratio":
        return f"{_apart(ratio, budget.value)} x"
    if budget.kind == "limit":
        value = show(median(figures.values()), metrics.metric(budget.metric).unit)
        return f"{value} = {_apart(ratio * 100, budget.value * 100)} % of limit"
    bound = show(budget.value, budget.unit)
    digits = next((n for n in range(5, 12) if show(ratio, budget.unit, digits=n) != bound), 5)
    return show(ratio, budget.unit, digits=digits)


def _apart(value: float, bound: float) -> str:
    """Four digits, and more where the figure would otherwise read like the bound that it misses or meets."""
    if value == math.inf:
        return "∞"
    digits = next((n for n in range(4, 12) if f"{value:.{n}g}" != f"{bound:.{n}g}"), 4)
    return f"{value:.{digits}g}"


def _bounds(budget: Budget, interval: tuple[float, float]) -> str:
    if budget.kind == "absolute":
        return " to ".join(show(value, budget.unit) for value in interval)
    factor = 100 if budget.kind == "limit" else 1
    return " to ".join("∞" if value == math.inf else f"{value * factor:.4g}" for value in interval)
