"""What a qperf command line asks for: how many measurements, and which of their lines."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

_SIZES = {"": 1, "k": 1000, "kb": 1000, "m": 1000**2, "mb": 1000**2, "g": 1000**3, "gb": 1000**3}
_BINARY = {"K": 1024, "kib": 1024, "M": 1024**2, "mib": 1024**2, "G": 1024**3, "gib": 1024**3}
_LOOP = re.compile(r"[a-z_]*:(\d{0,9})([A-Za-z]{0,3}):(\d{1,9})([A-Za-z]{0,3})(?::(\*?)(\d{1,9})([A-Za-z]{0,3}))?$")
_MANY = 10_000


# What each kind of verbosity adds to every latency and bandwidth listing (`show_info()` in qperf.c), by the end of its
# name. Of the CPUs one side may be idle and then goes unprinted.
_STATISTICS = {"-v", "-vs", "-vv", "-vvs", "--verbose", "--verbose_stat", "--verbose_more", "--verbose_more_stat"}
_TIMING = {"-v", "-vt", "-vv", "-vvt", "--verbose", "--verbose_time", "--verbose_more", "--verbose_more_time"}
_USED = {"-v", "-vu", "-vv", "-vvu", "--verbose", "--verbose_used", "--verbose_more", "--verbose_more_used"}
_ADDS = (
    (_STATISTICS, "msg_rate"),
    (_TIMING, "cpus_used"),
    ({"-vv", "-vvs", "--verbose_more", "--verbose_more_stat"}, "recv_bytes"),
    ({"-vv", "-vvu", "--verbose_more", "--verbose_more_used"}, "msg_size"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The number of measurements and the names, by their ends, that each has; nothing where that cannot be told."""

    blocks: int = 0
    names: tuple[str, ...] = ()


def asked(arguments: str, test: str) -> Asked:
    """Read the arguments of qperf; `test` is the pattern of a test's name.

    qperf runs every test once for each value of its loops (`do_loop()` and `parse_loop()` in qperf.c). Output that went
    through a pipe or elsewhere may rightly hold less.
    """
    if any(mark in arguments for mark in "|<>;&`"):
        return Asked()
    words = arguments.split()
    tests = sum(re.fullmatch(rf"{test}|conf|quit", word) is not None for word in words)
    names = {name for options, name in _ADDS if options & set(words)}
    for option, value in itertools.pairwise(words):
        if option in {"-oo", "--loop"}:
            tests *= _times(value.strip("'\""))
        sized = option in {"-m", "--msg_size"} or (option in {"-oo", "--loop"} and "msg_size:" in value)
        names |= {"msg_size"} if sized and _USED & set(words) else set()
    return Asked(tests if tests <= _MANY else 0, tuple(sorted(names)))


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
