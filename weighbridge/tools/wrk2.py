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

from pydantic import Field, field_validator, model_validator

from weighbridge import tools
from weighbridge.tools import Endpoint, Result, _wrk
from weighbridge.tools._http import FileName, Headers, header_options, url
from weighbridge.units import Count, Duration, Rate

PROGRAMS = ("wrk2",)
PACKAGE: str | None = None
CLOSED_LOOP = False
CUSTOMARY = {"throughput": "MiB/s"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""


class Load(tools.Load):
    """`rate` requests per second in total, from `threads` over `connections`, for `duration` (whole seconds)."""

    threads: Count = Field(ge=1)
    connections: Count = Field(ge=1)
    duration: Duration
    rate: Rate
    latency: bool = True
    headers: Headers = Field(default_factory=dict)
    script: FileName | None = None

    _whole_seconds = field_validator("duration")(_wrk.whole_seconds)

    @field_validator("rate")
    @classmethod
    def _whole_rate(cls, value: float) -> float:
        if value < 1 or value != int(value):
            raise ValueError(f"wrk2 takes whole requests per second, not {value:g}")
        return value

    @model_validator(mode="after")
    def _each_thread_has_a_connection(self) -> Load:
        if self.connections < self.threads:
            raise ValueError(f"{self.connections} connections cannot serve {self.threads} threads")
        return self


def argv(program: str, load: Any, server: Endpoint) -> list[str]:
    """Return the command line."""
    return [
        program,
        f"-t{load.threads}",
        f"-c{load.connections}",
        f"-d{load.duration:.0f}s",
        f"-R{load.rate:.0f}",
        *(["--latency"] if load.latency else []),
        *(["-s", load.script] if load.script else []),
        *header_options(load.headers),
        url(server),
    ]


def planned(load: Any) -> float:
    """Return the seconds one run should take."""
    return float(load.duration)


def parse(text: str) -> tuple[Result, ...]:
    """Return one result per run (or per URL) in the text.

    Raises ParseError when a run is missing, cut short, without an answered request or an error
    message; ContradictionError when its figures exclude each other.
    """
    return _wrk.parse("wrk2", text)


def select(results: Sequence[Result], load: Any) -> Mapping[str, float]:
    """Return the figures of the only run, with percentiles if the load asks for them; ParseError otherwise."""
    return _wrk.select("wrk2", results, percentiles=load.latency)
