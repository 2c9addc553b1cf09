"""Figures with their rounding, and arithmetic over them.

A printed figure stands for every value that rounds to it: half a unit of its last digit to either
side. Arithmetic carries both ends along (interval arithmetic), so two figures contradict each other
only when no values behind them could agree.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from decimal import Decimal

from weighbridge import units
from weighbridge.errors import UsageError

_BINARY_ERROR = 1e-9
"""Relative error of decimal figures kept as binary floats, with room for a dozen operations."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ROUNDED = re.compile(r"\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Interval:
    """All values between `low` and `high`, both included."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The value in the middle."""
        return (self.low + self.high) / 2

    def meets(self, other: Interval) -> bool:
        """Whether some value lies in both."""
        return self.low <= other.high + other.margin and other.low <= self.high + self.margin

    @property
    def margin(self) -> float:
        """What binary floats may be off at this size."""
        return _BINARY_ERROR * max(abs(self.low), abs(self.high))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            raise UsageError("a figure is divided by one that may be zero")
        return self * Interval(1 / other.high, 1 / other.low)


def exactly(value: float) -> Interval:
    """Stand for one value without rounding."""
    return Interval(value, value)


def printed(text: str, step: str | None = None) -> Interval:
    """Read a quantity with its rounding, in its SI base unit; `step` where it is coarser than the last digit."""
    quantity = units.parse(text)
    digits = text.removesuffix(unit_of(text)).strip()
    half = (units.parse(step).value if step else _last_digit(digits) * scale_of(text)) / 2
    return Interval(quantity.value - half, quantity.value + half)


def scale_of(text: str) -> float:
    """Give the size of a quantity's unit in its SI base unit: 0.001 for `"1.356 ms"`."""
    return units.parse(f"1 {unit_of(text)}").value


def unit_of(text: str) -> str:
    """Give the unit of a quantity as written: `"ms"` of `"1.356 ms"`."""
    return re.sub(r"\A\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?\s*", "", text)


def like(text: str, value: float) -> str:
    """Write `value`, given in the SI base unit, in the unit of the quantity `text`."""
    unit = unit_of(text)
    shown = f"{value / scale_of(text):.7g}"
    return shown if unit == "x" else f"{shown}{unit}" if unit.startswith("/") else f"{shown} {unit}"


def evaluate(arithmetic: str) -> Interval:
    """Compute numbers, `+ - * /` and parentheses; numbers with a decimal point are rounded figures, others exact.

    Raises UsageError when it holds anything else, or divides by zero.
    """
    try:
        tree = ast.parse(arithmetic, mode="eval")
        result = _value(tree.body, arithmetic)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise UsageError(f"{arithmetic!r} is no arithmetic: {error}") from error
    if not (math.isfinite(result.low) and math.isfinite(result.high)):
        raise UsageError(f"{arithmetic!r} has no finite result")
    return result


def _value(node: ast.expr, source: str) -> Interval:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            text = ast.get_source_segment(source, node) or ""
            if not _NUMBER.fullmatch(text):
                raise UsageError(f"{text!r} is no plain number")
            half = _last_digit(text) / 2 if _ROUNDED.fullmatch(text) else 0.0
            return Interval(number - half, number + half)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return exactly(0) - _value(operand, source)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, source) + _value(right, source)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, source) - _value(right, source)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, source) * _value(right, source)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left, source) / _value(right, source)
    raise UsageError(f"{source!r} holds more than numbers and + - * / ( )")


def _last_digit(number: str) -> float:
    """Give what one step of the last digit is worth: 0.01 in `1.36`, 10 in `1.2e2`."""
    return 10.0 ** int(Decimal(number).as_tuple().exponent)
