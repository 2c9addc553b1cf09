"""wrk: closed-loop HTTP load from a few threads over many connections.

Units are those of wrk's own `src/units.c`: times in us, ms, s, m, h (steps of 1000, then of 60);
Req/Sec in k, M, … = 10^3, 10^6, …; bytes in KB, MB, … = 2^10, 2^20, … . A unit changes at 85 % of
the next one, so 900 µs prints as `0.90ms` and 51 s as `0.85m`. Everything has two decimals.

`throughput` is Transfer/sec, the bytes of whole responses with their headers, as bit/s. wrk prints
"Socket errors" and "Non-2xx or 3xx responses" only when there are some; without the line they are zero.
"Non-2xx or 3xx" counts statuses above 399 (`src/wrk.c`). "+/- Stdev" has no metric and is only checked.
Statistics hold requests that were answered: a stalled server sends wrk no new ones (closed loop).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weighbridge.tools import Endpoint, Result, _wrk, _wrk_command
from weighbridge.tools._wrk_command import Load, planned

__all__ = ["CLOSED_LOOP", "CUSTOMARY", "METRICS", "PACKAGE", "PROGRAMS", "Load", "argv", "parse", "planned", "select"]

PROGRAMS = ("wrk",)
PACKAGE: str | None = "wrk"
CLOSED_LOOP = True
CUSTOMARY = {"throughput": "MiB/s"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""
METRICS = (
    "request_rate",
    "request_rate_per_thread_*",
    "latency_*",
    "throughput",
    "requests",
    "duration",
    "bytes_received",
    "errors_*",
)
"""What it may print, as patterns of metric names; a budget on anything else is refused."""


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """Return the command line."""
    return _wrk_command.argv(program, load, server)


def parse(text: str) -> tuple[Result, ...]:
    """Return one result per run in the text.

    Raises ParseError when a run is missing, cut short, without an answered request or an error
    message; ContradictionError when its figures exclude each other.
    """
    return _wrk.parse("wrk", text)


def select(results: Sequence[Result], load: Any) -> Mapping[str, float]:
    """Return the figures of the only run, with percentiles if the load asks for them; ParseError otherwise."""
    return _wrk.select("wrk", results, percentiles=load.latency)
