"""How many measurements a qperf command line asks for."""

from __future__ import annotations

import itertools
import re

_SIZES = {"": 1, "k": 1000, "kb": 1000, "m": 1000**2, "mb": 1000**2, "g": 1000**3, "gb": 1000**3}
_BINARY = {"K": 1024, "kib": 1024, "M": 1024**2, "mib": 1024**2, "G": 1024**3, "gib": 1024**3}
_LOOP = re.compile(r"[a-z_]*:(\d{0,9})([A-Za-z]{0,3}):(\d{1,9})([A-Za-z]{0,3})(?::(\*?)(\d{1,9})([A-Za-z]{0,3}))?$")
_MANY = 10_000


def blocks_asked(arguments: str, test: str) -> int:
    """The measurements that the arguments ask for, 0 where that cannot be told.

    qperf runs every test once for each value of its loops (`do_loop()` and `parse_loop()` in qperf.c); `test` is the
    pattern of a test's name. Output that went through a pipe or elsewhere may rightly hold less.
    """
    if any(mark in arguments for mark in "|<>;&`"):
        return 0
    words = arguments.split()
    tests = sum(re.fullmatch(rf"{test}|conf|quit", word) is not None for word in words)
    for option, value in itertools.pairwise(words):
        if option in {"-oo", "--loop"}:
            tests *= _times(value.strip("'\""))
    return tests if tests <= _MANY else 0


def _times(loop: str) -> int:
    match = _LOOP.match(loop)
    if match is None:
        return 0
    start, start_unit, last, last_unit, star, step, step_unit = match.groups()
    units = _SIZES | _BINARY
    if {start_unit, last_unit, step_unit or ""} - set(units):
        return 0
    by = int(step or 0) * units[step_unit or ""]
    value = int(start) * units[start_unit] if start else (1 if star else 0)
    end = int(last) * units[last_unit]
    if by < (2 if star else 1) or (star and value < 1):
        return 0
    if not star:
        return (end - value) // by + 1 if value <= end else 0
    count = 0
    while value <= end:
        count, value = count + 1, value * by
    return count
