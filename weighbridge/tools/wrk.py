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

from pydantic import Field, field_validator, model_validator

from weighbridge import tools
from weighbridge.tools import Endpoint, Result, _wrk
from weighbridge.tools._http import FileName, Headers, header_options, url
from weighbridge.units import Count, Duration

PROGRAMS = ("wrk",)
PACKAGE: str | None = "wrk"
CLOSED_LOOP = True
CUSTOMARY = {"throughput": "MiB/s"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""


class Load(tools.Load):
    """`threads` that share `connections` for `duration` (whole seconds); `latency` asks for percentiles."""

    threads: Count = Field(ge=1)
    connections: Count = Field(ge=1)
    duration: Duration
    latency: bool = True
    headers: Headers = Field(default_factory=dict)
    script: FileName | None = None

    _whole_seconds = field_validator("duration")(_wrk.whole_seconds)

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
        *(["--latency"] if load.latency else []),
        *(["-s", load.script] if load.script else []),
        *header_options(load.headers),
        url(server),
    ]


def planned(load: Any) -> float:
    """Return the seconds one run should take."""
    return float(load.duration)


def parse(text: str) -> tuple[Result, ...]:
    """Return one result per run in the text.

    Raises ParseError when a run is missing, cut short, without an answered request or an error
    message; ContradictionError when its figures exclude each other.
    """
    return _wrk.parse("wrk", text)


def select(results: Sequence[Result], load: Any) -> Mapping[str, float]:
    """Return the figures of the only run, with percentiles if the load asks for them; ParseError otherwise."""
    return _wrk.select("wrk", results, percentiles=load.latency)
