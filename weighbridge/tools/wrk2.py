"""wrk2: HTTP load at a constant rate, with latency counted from when each request was due.

wrk2 is wrk's fork by Gil Tene and shares its units (see `weighbridge.tools.wrk`). Latencies live in
an HdrHistogram of three significant digits over 1 µs … 24 h: a percentile prints the upper end of its
bucket, `#[Max` and the Max column the lower end, so `100.000%` may show 15.01s beside a maximum of
15.00s. The spectrum and its `#[…]` footer are in ms (`hdr_percentiles_print` with scale 1000).

Statistics start after the threads' calibration (10 s), requests and bytes count from the beginning.
`-R` is the total rate of all threads. The uncorrected block of `-U` is checked but not a result: its
percentiles hide stalls, and they would carry the names of the corrected ones. In the fork of
DeathStarBench the third column is headed `99%` and is that percentile, not the maximum; with several
URLs it prints one block each (label `test` is the URL) and an overall one (`stream` is `SUM`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import field_validator

from weighbridge.tools import Endpoint, Result, _wrk, _wrk_command
from weighbridge.tools._wrk_command import planned
from weighbridge.units import Rate

__all__ = ["CLOSED_LOOP", "CUSTOMARY", "METRICS", "PACKAGE", "PROGRAMS", "Load", "argv", "parse", "planned", "select"]

PROGRAMS = ("wrk2",)
PACKAGE: str | None = None
CLOSED_LOOP = False
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


class Load(_wrk_command.Load):
    """As for wrk, and `rate` requests per second in total."""

    rate: Rate

    @field_validator("rate")
    @classmethod
    def _whole_rate(cls, value: float) -> float:
        if value < 1 or value != int(value):
            raise ValueError(f"wrk2 takes whole requests per second, not {value:g}")
        return value


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """Return the command line."""
    return _wrk_command.argv(program, load, server, f"-R{load.rate:.0f}")


def parse(text: str) -> tuple[Result, ...]:
    """Return one result per run (or per URL) in the text.

    Raises ParseError when a run is missing, cut short, without an answered request or an error
    message; ContradictionError when its figures exclude each other.
    """
    return _wrk.parse("wrk2", text)


def select(results: Sequence[Result], load: Any) -> Mapping[str, float]:
    """Return the figures of the only run, with percentiles if the load asks for them; ParseError otherwise."""
    return _wrk.select("wrk2", results, percentiles=load.latency)
