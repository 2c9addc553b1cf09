"""The metrics: their names, SI base units and which direction is better.

A parser may print only names from this table; a budget may ask only for those with a direction.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from weighbridge.errors import UsageError

Better = Literal["lower", "higher", ""]


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured quantity: SI base unit, and which direction is better ('' = neither)."""

    name: str
    unit: str
    better: Better


def _table(*rows: tuple[str, str, Better]) -> dict[str, Metric]:
    return {name: Metric(name, unit, better) for names, unit, better in rows for name in names.split()}


METRICS = _table(
    ("latency_mean latency_stdev latency_min latency_max", "s", "lower"),
    ("round_trip_time_min round_trip_time_mean round_trip_time_max round_trip_time_mdev", "s", "lower"),
    ("throughput", "bit/s", "higher"),
    ("request_rate request_rate_per_core message_rate packet_rate", "1/s", "higher"),
    ("cpu_cores cpu_cores_local cpu_cores_remote", "1", "lower"),
    ("cores_per_gbit cores_per_gbit_local cores_per_gbit_remote", "s/Gbit", "lower"),
    ("memory_peak", "byte", "lower"),
    ("request_rate_per_thread_mean request_rate_per_thread_max", "1/s", "higher"),
    ("request_rate_per_thread_stdev", "1/s", "lower"),
    ("connect_time_min connect_time_mean connect_time_stdev connect_time_p50 connect_time_max", "s", "lower"),
    (
        "processing_time_min processing_time_mean processing_time_stdev processing_time_p50 processing_time_max",
        "s",
        "lower",
    ),
    ("waiting_time_min waiting_time_mean waiting_time_stdev waiting_time_p50 waiting_time_max", "s", "lower"),
    ("requests messages keep_alive_requests", "1", ""),
    ("bytes_received bytes_received_body bytes_sent bytes_sent_body congestion_window", "byte", ""),
    ("duration", "s", ""),
    ("errors_connect errors_read errors_write errors_timeout errors_http errors_length errors_exception", "1", "lower"),
    ("packets_sent packets_received", "1", ""),
    ("packets_lost packets_duplicated packets_out_of_order retransmits", "1", "lower"),
    ("packet_loss", "fraction", "lower"),
    ("jitter", "s", "lower"),
    ("start_up_time", "s", "lower"),
    ("memory_footprint", "byte", "lower"),
    ("cpu_steal", "fraction", ""),
)

OF_THE_STAND = {"start_up_time": "ms", "memory_footprint": "MiB"}
"""Metrics that are taken of a server that was just started, whatever loads it, with the unit that reports show."""

_PERCENTILE = re.compile(r"latency_p\d{1,2}(_\d+)?\Z")


def metric(name: str) -> Metric:
    """The metric called `name`; `latency_p<n>[_<digits>]` is any percentile of latency.

    Raises UsageError, with the nearest known name, when there is none.
    """
    if name in METRICS:
        return METRICS[name]
    if _PERCENTILE.match(name):
        return Metric(name, "s", "lower")
    meant = re.fullmatch(r"latency_?(?:p_?)?(\d{1,2}(?:[._]\d+)?)", name)
    if meant:
        raise UsageError(f"{name!r} is no metric; did you mean {percentile(meant[1].replace('_', '.'))!r}?")
    near = difflib.get_close_matches(name, METRICS, n=1)
    raise UsageError(
        f"{name!r} is no metric" + (f"; did you mean {near[0]!r}?" if near else f"; metrics are {', '.join(METRICS)}")
    )


def percentile(percent: str) -> str:
    """The metric name of a percentile as tools print it: `"99.9"` → `latency_p99_9`, `"50.000"` → `latency_p50`."""
    whole, _, fraction = percent.strip().partition(".")
    fraction = fraction.rstrip("0")
    return f"latency_p{int(whole)}" + (f"_{fraction}" if fraction else "")
