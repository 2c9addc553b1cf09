"""What a printed decimal can have been before it was rounded, and arithmetic on such ranges.

A tool rounds each figure when it prints it. Two figures contradict each other when no pair of
unrounded values could have produced both; that needs ranges, not a guessed tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weighbridge.errors import ContradictionError

_BINARY_NOISE = 1e-12
"""Relative slack for decimals that a binary float cannot hold."""


@dataclass(frozen=True, slots=True)
class Interval:
    """All values from `low` to `high`; both are non-negative."""

    low: float
    high: float

    def __mul__(self, other: Interval) -> Interval:
        """Return every product of two members."""
        return Interval(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Interval) -> Interval:
        """Return every quotient of two members; the upper end is infinite where the divisor can be zero."""
        high = self.high / other.low if other.low > 0 else math.inf
        return Interval(self.low / other.high if other.high > 0 else 0.0, high)

    def widened(self, amount: float) -> Interval:
        """Return the range with `amount` more at either end."""
        return Interval(max(self.low - amount, 0.0), self.high + amount)

    def meets(self, other: Interval) -> bool:
        """Tell whether a common value exists."""
        slack = _BINARY_NOISE * max(abs(self.low), abs(other.low), 1e-300)
        return self.low <= other.high + slack and other.low <= self.high + slack


def exact(value: float) -> Interval:
    """Return a value that was not rounded, such as a count."""
    return Interval(value, value)


def printed(text: str, scale: float = 1.0) -> Interval:
    """Return the range that prints as `text`: half a unit of its last digit to either side, times `scale`."""
    decimals = len(text.partition(".")[2])
    half = 0.5 * 10.0**-decimals
    value = float(text)
    return Interval(max(value - half, 0.0) * scale, (value + half) * scale)


def agree(what: str, computed: Interval, shown: Interval, unit: str, output: str) -> None:
    """Raise ContradictionError, with both figures, unless one value can explain both ranges."""
    if not computed.meets(shown):
        raise ContradictionError(f"{what} = {_middle(computed)} {unit}, but {_middle(shown)} {unit} is printed", output)


def in_order(what: str, smaller: Interval, larger: Interval, unit: str, output: str) -> None:
    """Raise ContradictionError when `smaller` must exceed `larger` however they were rounded."""
    if smaller.low > larger.high * (1 + _BINARY_NOISE):
        raise ContradictionError(f"{what}: {_middle(smaller)} {unit} exceeds {larger.high:.7g} {unit}", output)


def _middle(interval: Interval) -> str:
    if math.isinf(interval.high):
        return f"at least {interval.low:.7g}"
    return f"{(interval.low + interval.high) / 2:.7g}"
