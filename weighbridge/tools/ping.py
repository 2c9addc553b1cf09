"""ping: round-trip time and loss of ICMP echo.

Units: every ping of the iputils, busybox, BSD and GNU families prints round-trip times in milliseconds (decimal) and
`time 2003ms`, the time from the first to the last request, in milliseconds. iputils truncates its mean to whole
microseconds (`finish()` in ping_common.c: `tsum / total` in integers), busybox and old iputils truncate the loss to
whole percent, newer iputils prints it with `%g`, BSD with `%.1f`. `packet_loss` is therefore taken from the two
counts beside it, which are exact; the printed percentage is a cross-check.

`round_trip_time_mdev` is iputils' mdev, which despite its name is the standard deviation, and the stddev (std-dev) of
BSD and GNU; busybox prints none. `packets_received` counts no duplicates; where none are mentioned there were none.
A run whose requests were too small to carry a time stamp has counts only. Errors that routers reported
(`+2 errors`) are part of the loss.

An open loop: a request leaves on schedule whether or not the one before was answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

import weighbridge.tools
from weighbridge.errors import ParseError, UsageError
from weighbridge.tools import Endpoint, Result
from weighbridge.tools._ping_text import read
from weighbridge.units import Count, Duration, Size

PROGRAMS: tuple[str, ...] = ("ping",)
PACKAGE: str | None = "iputils-ping"
CLOSED_LOOP = False
CUSTOMARY = {"round_trip_time": "ms"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""
METRICS = ("round_trip_time_*", "packet_loss", "packets_*", "duration")
"""What it may print, as patterns of metric names; a budget on anything else is refused."""

LARGEST = 65507
"""The largest payload of an IPv4 echo request: 65535 bytes less 20 of IP and 8 of ICMP header."""


class Load(weighbridge.tools.Load):
    """How many requests, how far apart and how large."""

    count: Annotated[Count, Field(ge=1, le=10_000_000)] = 20
    interval: Annotated[Duration, Field(ge=0.001, le=3600)] = 0.2
    size: Annotated[Size, Field(ge=0, le=LARGEST)] | None = None
    """Payload in bytes; ping's default is 56. Below 16 there is no room for a time stamp, hence no round-trip time."""


def needs(load: Load) -> tuple[str, ...]:  # noqa: ARG001 - every load of it
    """It has no port that a service could translate."""
    return ("icmp",)


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """One line per reply, so that the summary can be checked against them; addresses are never looked up."""
    if server.host.startswith("-"):
        raise UsageError(f"{server.host!r} is no host name")
    size = [] if load.size is None else ["-s", str(int(load.size))]
    interval = f"{load.interval:.6f}".rstrip("0").rstrip(".")
    return [program, "-n", "-c", str(load.count), "-i", interval, *size, server.host]


def planned(load: Load) -> float:
    """One interval per request; the last one is the wait for the last answer."""
    return load.count * load.interval


def parse(text: str) -> tuple[Result, ...]:
    """One result per ping run, labelled `run` only when there are several.

    Raises ParseError for errors, for a listing without its statistics and when nothing was answered;
    ContradictionError when counts, percentage, minimum, mean, maximum and the reply lines exclude each other.
    """
    runs = read(text)
    return tuple(
        Result(labels={"run": number} if len(runs) > 1 else {}, metrics=metrics) for number, metrics in enumerate(runs)
    )


def select(results: Sequence[Result], load: Load) -> Mapping[str, float]:  # noqa: ARG001
    """The only run's figures; raises ParseError when there is none, several, or one without a round-trip time."""
    if len(results) != 1:
        raise ParseError(f"one ping run is wanted, the output holds {len(results)}")
    metrics = results[0].metrics
    if not math.isfinite(metrics.get("round_trip_time_mean", math.nan)):
        raise ParseError("the output holds no round-trip time")
    return metrics
