from __future__ import annotations

import pytest
from hypothesis import given, strategies

from weighbridge.errors import UsageError
from weighbridge.study.interval import Interval, evaluate, exactly, like, printed


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("1.356 ms", 1.3555e-3, 1.3565e-3),
        ("737.31/s", 737.305, 737.315),
        ("963.23 KiB/s", 963.225 * 8192, 963.235 * 8192),
        ("5 ms", 4.5e-3, 5.5e-3),
        ("250 %", 2.495, 2.505),
        ("54255 x", 54254.5, 54255.5),
        ("1.2e2 s", 115.0, 125.0),
    ],
)
def test_printed_figure_stands_for_all_that_rounds_to_it(text: str, low: float, high: float) -> None:
    """Tolerances follow from the printed digits alone, in SI base units."""
    interval = printed(text)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-12)


def test_step_replaces_the_last_digit() -> None:
    """A rate printed to hundreds agrees with what rounds to it, and with nothing else."""
    assert printed("900/s", "100/s").meets(exactly(922.03))
    assert not printed("900/s", "100/s").meets(exactly(951))


@pytest.mark.parametrize(
    ("arithmetic", "middle", "width"),
    [
        ("856918 - 856903", 15, 0),
        ("(5500 - 2000) / 2000", 1.75, 0),
        ("0.200 * 1e-3", 0.0002, 1e-6),
        ("-2 + 3 * 4", 10, 0),
        ("1.5 + 1.5", 3.0, 0.2),
    ],
)
def test_arithmetic_carries_the_rounding_of_decimals(arithmetic: str, middle: float, width: float) -> None:
    """Whole numbers and exponents are exact, figures with a decimal point are rounded ones."""
    result = evaluate(arithmetic)
    assert result.middle == pytest.approx(middle)
    assert result.high - result.low == pytest.approx(width)


@pytest.mark.parametrize(
    "arithmetic",
    [
        "",
        "1 +",
        "2 ** 9",
        "abs(1)",
        "x",
        "__import__('os')",
        "'1'",
        "True",
        "1 / 0",
        "1e308 * 10",
        "1j",
        "(" * 400 + "1",
        "1 / 0.0",
    ],
)
def test_anything_but_arithmetic_is_refused(arithmetic: str) -> None:
    """Study files are data: nothing in them is executed, and no result is infinite."""
    with pytest.raises(UsageError):
        evaluate(arithmetic)


def test_figures_meet_where_their_roundings_touch() -> None:
    """0.58 ms may be a truncated 585 µs, but not 586 µs."""
    assert printed("0.58 ms").meets(evaluate("585 * 1e-6"))
    assert not printed("0.58 ms").meets(evaluate("586 * 1e-6"))


def test_computed_figures_are_written_in_the_printed_unit() -> None:
    """A reader compares like with like."""
    assert like("16 µs", 15e-6) == "15 µs"
    assert like("2000/s", 1999.18) == "1999.18/s"
    assert like("20000 x", 1089.357) == "1089.357"


@given(strategies.text(alphabet="0123456789.+-*/() eExa_'j", max_size=40))
def test_any_text_is_computed_or_refused(text: str) -> None:
    """No text ends in another error, or in a result that is not a finite range."""
    try:
        result = evaluate(text)
    except UsageError:
        return
    assert result.low <= result.high


@given(
    strategies.lists(strategies.tuples(strategies.floats(-1e3, 1e3), strategies.floats(0, 10)), min_size=2, max_size=2)
)
def test_intervals_hold_every_result(ends: list[tuple[float, float]]) -> None:
    """Whatever values lie behind two figures, the computed range holds what they give."""
    one, other = (Interval(low, low + width) for low, width in ends)
    for a in (one.low, one.middle, one.high):
        for b in (other.low, other.middle, other.high):
            for computed, value in ((one + other, a + b), (one - other, a - b), (one * other, a * b)):
                assert computed.meets(exactly(value)) or abs(value) < 1e-6
