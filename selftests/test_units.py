from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from weighbridge.errors import UnitError
from weighbridge.units import BIT_RATE, BYTE, COUNT, FRACTION, RATE, SECOND, Count, Duration, parse, parse_as, show

DIMENSIONS = (SECOND, BYTE, BIT_RATE, RATE, FRACTION, "s/Gbit")


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("2s", 2.0, "s"),
        (" 2 s ", 2.0, "s"),
        ("1.5 ms", 1.5e-3, "s"),
        ("12 us", 12e-6, "s"),
        ("12 µs", 12e-6, "s"),
        ("3min", 180.0, "s"),
        ("64B", 64.0, "byte"),
        ("4KiB", 4096.0, "byte"),
        ("4kB", 4000.0, "byte"),
        ("1 Gbit/s", 1e9, "bit/s"),
        ("1 MB/s", 8e6, "bit/s"),
        ("1 MiB/s", 8 * 2.0**20, "bit/s"),
        ("2000/s", 2000.0, "1/s"),
        ("0.5 %", 0.005, "fraction"),
        ("1e3 B", 1000.0, "byte"),
    ],
)
def test_quantities_become_si_base_units(text: str, value: float, unit: str) -> None:
    """k, M, G are powers of ten, Ki, Mi, Gi powers of two, and B/s is eight bit/s."""
    quantity = parse(text)
    assert quantity.value == pytest.approx(value, rel=1e-12)
    assert quantity.unit == unit


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2", "'2' has no unit: write for example '2 s'"),
        ("2 sec", "'sec' is no unit"),
        ("2 Kib", "did you mean 'KiB'"),
        ("2 mbit/s", "did you mean 'Mbit/s'"),
        ("", "is no quantity"),
        ("s", "is no quantity"),
        ("nan s", "is no quantity"),
        ("inf s", "is no quantity"),
        ("1e999 s", "not a finite quantity"),
        ("1,5 s", "is no quantity"),
        ("1 500 s", "is no quantity"),
        ("1.2.3 s", "is no quantity"),
        ("2 s\n3 s", "is no quantity"),
        ("٢ s", "is no quantity"),
    ],
)
def test_what_is_no_quantity_is_refused_with_a_hint(text: str, says: str) -> None:
    """A missing or unknown unit, a decimal comma and NaN are errors that lead to the right writing."""
    with pytest.raises(UnitError, match=says):
        parse(text)


def test_dimensions_are_not_mixed() -> None:
    """Bytes are no seconds and bits per second no bytes."""
    assert parse_as("1 KiB", BYTE) == 1024
    with pytest.raises(UnitError, match="'1 Gbit/s' is in bit/s, but byte is wanted here"):
        parse_as("1 Gbit/s", BYTE)


@given(st.floats(1e-9, 1e12), st.sampled_from(DIMENSIONS))
def test_shown_figures_can_be_read_back(value: float, unit: str) -> None:
    """What is shown is the value to its last shown digit, in any dimension."""
    assert parse_as(show(value, unit), unit) == pytest.approx(value, rel=6e-5)


@given(st.floats(1e-9, 1e12), st.sampled_from(DIMENSIONS), st.integers(3, 10))
def test_more_digits_are_closer(value: float, unit: str, digits: int) -> None:
    """As many digits as asked for are right."""
    assert parse_as(show(value, unit, digits=digits), unit) == pytest.approx(value, rel=6 * 10.0**-digits)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.26e-05, SECOND, "12.6 µs"),
        (999.9996e-6, SECOND, "1 ms"),
        (0.9999996, SECOND, "1 s"),
        (0.99996, SECOND, "999.96 ms"),
        (1e-9, SECOND, "0.001 µs"),
        (0.0, SECOND, "0 µs"),
        (180.0, SECOND, "180 s"),
        (941.48e6, BIT_RATE, "941.48 Mbit/s"),
        (999.9999e6, BIT_RATE, "1 Gbit/s"),
        (2.0**20, BYTE, "1 MiB"),
        (2.0**20 - 1, BYTE, "1 MiB"),
        (1023.0, BYTE, "1023 B"),
        (1999.62, RATE, "1999.6/s"),
        (235282.32, RATE, "235282/s"),
        (99999.9, RATE, "100000/s"),
        (1.5e6, RATE, "1500000/s"),
        (0.00138, FRACTION, "0.138 %"),
        (0.0, FRACTION, "0 %"),
        (-0.0, FRACTION, "0 %"),
        (1434651.0, COUNT, "1434651"),
        (0.25, "s/Gbit", "0.25 s/Gbit"),
    ],
)
def test_figures_are_written_as_people_do(value: float, unit: str, text: str) -> None:
    """No exponent, no '1000 µs', no rounded whole part, no lost zero."""
    assert show(value, unit) == text


def test_a_tools_own_unit_can_be_asked_for() -> None:
    """Reports write figures as their tool does, and never in another dimension."""
    assert show(8 * 27.56 * 2**20, BIT_RATE, "MiB/s") == "27.56 MiB/s"
    assert show(1.5e-5, SECOND, "us") == "15 us"
    assert show(0.0002, SECOND, "ms") == "0.2 ms"
    with pytest.raises(UnitError, match="'ms' is no unit of bit/s"):
        show(1.0, BIT_RATE, "ms")


class Loaded(BaseModel):
    """A load with a duration and a count."""

    duration: Duration
    threads: Count


@pytest.mark.parametrize("threads", [3, "3"], ids=repr)
def test_fields_take_text_with_units_and_whole_numbers(threads: object) -> None:
    """An axis writes numbers as text; both are the same count."""
    found = Loaded.model_validate({"duration": "1.5 min", "threads": threads})
    assert (found.duration, found.threads) == (90.0, 3)


@pytest.mark.parametrize(
    "content",
    [
        {"duration": 90, "threads": 3},
        {"duration": "90", "threads": 3},
        {"duration": "90 B", "threads": 3},
        {"duration": "90 s", "threads": 3.5},
        {"duration": "90 s", "threads": "-3"},
        {"duration": "90 s", "threads": True},
        {"duration": "90 s", "threads": "³"},
    ],
)
def test_fields_refuse_bare_numbers_and_fractions(content: dict[str, object]) -> None:
    """A load never guesses what a number means."""
    with pytest.raises(ValidationError):
        Loaded.model_validate(content)


@given(st.text(max_size=20))
def test_any_text_gives_a_finite_quantity_or_an_error(text: str) -> None:
    """Parsing has no third outcome."""
    try:
        assert math.isfinite(parse(text).value)
    except UnitError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
