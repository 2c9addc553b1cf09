"""Quantities with units: text in, SI base units inside, customary units out.

Prefixes follow the standards: k, M, G are powers of ten, Ki, Mi, Gi powers of two (IEC 80000-13).
A quantity without its unit is refused: "2" may be seconds, minutes or a count.
pint is not used because importing it costs more than the whole start-up budget of the plugin.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from weighbridge.errors import UnitError

SECOND, BYTE, BIT_RATE, RATE, COUNT, FRACTION = "s", "byte", "bit/s", "1/s", "1", "fraction"

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

_UNITS: dict[str, tuple[str, float]] = {
    "ns": (SECOND, 1e-9),
    "us": (SECOND, 1e-6),
    "µs": (SECOND, 1e-6),
    "ms": (SECOND, 1e-3),
    "s": (SECOND, 1.0),
    "min": (SECOND, 60.0),
    "m": (SECOND, 60.0),
    "h": (SECOND, 3600.0),
    "/s": (RATE, 1.0),
    "k/s": (RATE, 1e3),
    "%": (FRACTION, 0.01),
    "x": (COUNT, 1.0),
    "s/Gbit": ("s/Gbit", 1.0),
    **{f"{prefix}B": (BYTE, factor) for prefix, factor in {**_DECIMAL, **_BINARY}.items()},
    **{f"{prefix}bit/s": (BIT_RATE, factor) for prefix, factor in _DECIMAL.items()},
    **{f"{prefix}B/s": (BIT_RATE, 8 * factor) for prefix, factor in {**_DECIMAL, **_BINARY}.items()},
}

_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*\Z")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in the SI base unit of its dimension (`s`, `byte`, `bit/s`, `1/s`, `1`)."""

    value: float
    unit: str


def parse(text: str) -> Quantity:
    """Read `"2 s"`, `"4KiB"`, `"1 Gbit/s"` or `"2000/s"`.

    Raises UnitError when the text is no number, or its unit is missing or unknown.
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise UnitError(f"{text!r} is no quantity: write a number and a unit, such as '2 s' or '64 B'")
    number, unit = match.groups()
    if not unit:
        raise UnitError(f"{text!r} has no unit: write for example '{number} s', '{number} B' or '{number}/s'")
    if unit not in _UNITS:
        near = [name for name in _UNITS if name.lower() == unit.lower()]
        near = near or difflib.get_close_matches(unit, _UNITS, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f"; units are {', '.join(_UNITS)}"
        raise UnitError(f"{text!r}: {unit!r} is no unit{hint}")
    dimension, factor = _UNITS[unit]
    value = float(number) * factor
    if not math.isfinite(value):
        raise UnitError(f"{text!r} is not a finite quantity")
    return Quantity(value, dimension)


def parse_as(text: str, unit: str) -> float:
    """Read a quantity that has to be of dimension `unit`; the value in that base unit."""
    quantity = parse(text)
    if quantity.unit != unit:
        raise UnitError(f"{text!r} is in {quantity.unit}, but {unit} is wanted here")
    return quantity.value


def _validator(unit: str) -> BeforeValidator:
    def read(value: Any) -> float:
        if isinstance(value, str):
            try:
                return parse_as(value, unit)
            except UnitError as error:
                raise ValueError(str(error)) from error
        raise ValueError(f"{value!r} has no unit: write it as text, such as '{value} {_EXAMPLE[unit]}'")

    return BeforeValidator(read, json_schema_input_type=str)


_EXAMPLE = {SECOND: "s", BYTE: "B", BIT_RATE: "Mbit/s", RATE: "/s", FRACTION: "%"}

Duration = Annotated[float, _validator(SECOND)]
"""A pydantic field in seconds, written with its unit."""
Size = Annotated[float, _validator(BYTE)]
"""A pydantic field in bytes, written with its unit."""
BitRate = Annotated[float, _validator(BIT_RATE)]
"""A pydantic field in bit/s, written with its unit."""
Rate = Annotated[float, _validator(RATE)]
"""A pydantic field in 1/s, written with its unit."""
Fraction = Annotated[float, _validator(FRACTION)]
"""A pydantic field that is a share of one, written in %."""


def _count(value: Any) -> int:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, str) and value.isdecimal())):
        raise ValueError(f"{value!r} is no whole number")
    return int(value)


Count = Annotated[int, BeforeValidator(_count, json_schema_input_type=int | str)]
"""A pydantic field that is a whole number, also when an axis wrote it as text."""

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    SECOND: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    BIT_RATE: ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    BYTE: ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    RATE: ((1.0, "/s"),),
}


def show(value: float, unit: str, wanted: str = "", digits: int = 5) -> str:
    """A figure as people write it: `1.26e-05, "s"` becomes `12.6 µs`; `wanted` names the unit to write it in.

    `digits` significant digits, more where the whole part has more.
    Raises UnitError when `wanted` is no unit of `unit`.
    """
    if unit == FRACTION:
        return f"{_digits(value * 100, digits)} %"
    if wanted:
        dimension, factor = _UNITS.get(wanted, ("", 1.0))
        if dimension != unit:
            raise UnitError(f"{wanted!r} is no unit of {unit}")
        return f"{_digits(value / factor, digits)} {wanted}"
    for scale, name in _SCALES.get(unit, ()):
        # What rounds up to the next unit is written in it: 1 ms, never 1000 µs.
        rounded = float(f"{value / scale:.{digits - 1}e}")
        if abs(rounded) >= 1 or scale == _SCALES[unit][-1][0]:
            return f"{_digits(value / scale, digits)}{'' if name.startswith('/') else ' '}{name}"
    return _digits(value, digits) + ("" if unit == COUNT else f" {unit}")


def _digits(value: float, digits: int) -> str:
    """The significant digits, without an exponent where that is readable; a whole part is never rounded away."""
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    text = f"{value:.0f}" if abs(value) >= 10.0**digits else f"{value:.{digits}g}"
    # %g turns to an exponent when rounding adds a digit.
    text = f"{value:.0f}" if "e" in text else text
    return "0" if text == "-0" else text
