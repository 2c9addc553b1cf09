"""Ranges of printed decimals: the tolerance of every cross-check comes from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import ContradictionError
from weighbridge.tools._interval import Interval, agree, exact, in_order, printed


@given(value=st.floats(0, 1e9), decimals=st.integers(0, 4))
def test_a_rounded_value_lies_in_its_own_range(value: float, decimals: int) -> None:
    """Whatever a tool rounded can be found again, so that no genuine output is refused for rounding."""
    assert exact(value).meets(printed(f"{value:.{decimals}f}"))


@given(requests=st.integers(1, 10**9), seconds=st.floats(1e-4, 1e5))
def test_a_genuine_rate_is_never_a_contradiction(requests: int, seconds: float) -> None:
    """Rate and duration rounded from the same run agree, also where the duration prints as 0.000."""
    rate, shown = printed(f"{requests / seconds:.2f}"), printed(f"{seconds:.3f}")
    agree("requests ÷ time", exact(requests) / shown, rate, "1/s", "")


def test_a_contradiction_names_both_figures() -> None:
    """The message holds the arithmetic, printed and computed, in one line."""
    with pytest.raises(ContradictionError, match="90 ÷ 3 = 30 1/s, but 31 1/s is printed") as caught:
        agree("90 ÷ 3", exact(30), printed("31.00"), "1/s", "the output")
    assert caught.value.output == "the output"


def test_order_allows_for_rounding_only() -> None:
    """1.0 may be below 1.0, not above 1.2: half a unit of the last digit is all that rounding explains."""
    in_order("mean beside max", printed("1.1"), printed("1.0"), "s", "")
    with pytest.raises(ContradictionError, match=r"mean beside max: 1\.2 s exceeds 1\.05 s"):
        in_order("mean beside max", printed("1.2"), printed("1.0"), "s", "")


def test_a_quotient_by_a_possible_zero_has_no_upper_end() -> None:
    """A duration printed as 0.000 bounds a rate from below only."""
    assert Interval(1, 1) / printed("0.0") == Interval(20, float("inf"))
