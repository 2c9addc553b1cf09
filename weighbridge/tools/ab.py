"""ab, ApacheBench: a fixed number of HTTP requests, at most `concurrency` in flight.

Units are those of `support/ab.c`: a Kbyte is 1024 bytes (1000 in ab 1.3, which divides bytes by
milliseconds); "kb/s" means Kbytes too; times of the tables are whole ms, rounded; the time taken has
three decimals, except that 2.0.40-dev prints its microseconds without leading zeros ("10.203" is
10.000203 s), so there the request rate decides between the readings. 2.0 also drops the remainder of
the division by 1024 in "received".

`latency_mean` is "Time per request (mean)", which is concurrency ÷ request rate; minimum and standard
deviation come from the Total row, the maximum from the longest request. `throughput` is the transfer rate
received, headers included, as bit/s; `bytes_sent` is "Total body sent", which counts whole requests with
their headers (`write_request` adds every byte written). Length errors are recorded but are no failure by
themselves: ab compares each document with the first, and dynamic pages vary. "Write errors" and
"Non-2xx responses" are zero where ab prints no such line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from weighbridge import tools
from weighbridge.errors import ContradictionError, ParseError
from weighbridge.metrics import percentile
from weighbridge.tools import Endpoint, Result, _ab
from weighbridge.tools._http import FileName, Headers, header_options, url
from weighbridge.tools._interval import Interval, agree, exact, printed
from weighbridge.units import Count, Duration

PROGRAMS = ("ab",)
PACKAGE: str | None = "apache2-utils"
CLOSED_LOOP = True
CUSTOMARY = {"latency": "ms", "throughput": "KiB/s"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""
METRICS = (
    "request_rate",
    "latency_*",
    "throughput",
    "requests",
    "keep_alive_requests",
    "duration",
    "bytes_*",
    "errors_*",
    "connect_time_*",
    "processing_time_*",
    "waiting_time_*",
)
"""What it may print, as patterns of metric names; a budget on anything else is refused."""

_KBYTE = 1024.0
_SINGLE_PRECISION = 3e-7
"""ab before 2.3 computes in `float`: three roundings of 2^-24 each, with room for a fourth."""
_PREFIXES = {
    "Connect": "connect_time",
    "Processing": "processing_time",
    "Waiting": "waiting_time",
    "Total": "latency",
}
_GUESSED_RATE = 5000.0
"""Requests per second that `planned` assumes; a slower server only stretches the run."""

_ERROR = re.compile(
    r"apr_[a-z_]+(?:\(\)[a-z0-9. _:-]*)?: .*|Total of [0-9]+ requests completed|Test aborted after.*"
    r"|SSL (?:read|write|handshake) failed.*|SSL not compiled in.*|^(?:\S*/)?ab: .*|\bab: (?:command )?not found"
    r"|^socket: .*|^select: .*"
)


class Load(tools.Load):
    """`requests` in all, `concurrency` at a time; `duration` ends the run early; `body_file` is POSTed."""

    requests: Count = Field(ge=1)
    concurrency: Count = Field(ge=1)
    keep_alive: bool = False
    body_file: FileName | None = None
    headers: Headers = Field(default_factory=dict)
    duration: Duration | None = None

    @model_validator(mode="after")
    def _possible(self) -> Load:
        if self.concurrency > self.requests:
            raise ValueError(f"{self.requests} requests cannot be {self.concurrency} at a time")
        if self.duration is not None and (self.duration < 1 or self.duration != int(self.duration)):
            raise ValueError(f"ab is limited in whole seconds, not {self.duration:g} s")
        return self


def argv(program: str, load: Any, server: Endpoint) -> list[str]:
    """Return the command line; `-t` comes before `-n` because it sets the number of requests to 50000."""
    return [
        program,
        "-q",
        *(["-t", f"{load.duration:.0f}"] if load.duration is not None else []),
        "-n",
        str(load.requests),
        "-c",
        str(load.concurrency),
        *(["-k"] if load.keep_alive else []),
        *(["-p", load.body_file] if load.body_file is not None else []),
        *header_options(load.headers),
        url(server),
    ]


def planned(load: Any) -> float:
    """Return the time limit, else the seconds the requests take at 5000 per second."""
    return float(load.duration) if load.duration is not None else max(load.requests / _GUESSED_RATE, 1.0)


def parse(text: str) -> tuple[Result, ...]:
    """Return one result per report in the text.

    Raises ParseError when a report is missing, cut short, without a successful request or beside an
    error message; ContradictionError when its figures exclude each other.
    """
    for line in text.split("\n"):
        if match := _ERROR.search(line[:400].strip()):
            raise ParseError(f"ab failed: {match[0][:200]}", text)
    if "<table" in text and "</th><td" in text:
        raise ParseError("ab printed HTML tables (-w); its plain text is needed", text)
    found = list(_ab.reports(text))
    if not found:
        raise ParseError("no ab output: it holds no report", text)
    try:
        metrics = [_metrics(report, text) for report in found]
    except ContradictionError:
        raise
    except ParseError as error:
        raise ParseError(error.reason, text) from error
    return tuple(Result({"run": index} if len(found) > 1 else {}, figures) for index, figures in enumerate(metrics))


def select(results: Sequence[Result], load: Any) -> Mapping[str, float]:
    """Return the figures of the only run; ParseError unless there is one, with the requests asked for."""
    if len(results) != 1:
        raise ParseError(f"{len(results)} ab results where one run was made")
    metrics = results[0].metrics
    if load.duration is None and metrics["requests"] < load.requests:
        raise ParseError(f"ab completed {metrics['requests']:g} of {load.requests} requests")
    return metrics


def _metrics(report: _ab.Report, text: str) -> Mapping[str, float]:
    complete = report.number("complete")
    if complete == 0:
        raise ParseError("no request completed: Complete requests: 0")
    errors = _errors(report, complete)
    seconds = _seconds(report, complete)
    kbyte = 1000.0 if report.version.startswith("1.3") or "Broken" in report.fields.get("write", [""])[0] else _KBYTE
    _check(report, seconds, kbyte, text)
    metrics: dict[str, float] = {
        "requests": complete,
        "duration": seconds[0],
        "request_rate": float(report.text("rate")),
        "latency_mean": _ms(report.text("time")),
        "throughput": round(8 * kbyte * float(report.text("transfer")), 3),
        "bytes_received": report.number("received"),
        "bytes_received_body": report.number("body"),
        **errors,
    }
    for name, key in (("sent", "bytes_sent"), ("keep_alive", "keep_alive_requests")):
        value = report.optional(name)
        if value is not None:
            metrics[key] = value
    return metrics | _times(report, text) | _percentiles(report, complete, text)


def _ms(text: str) -> float:
    """Return milliseconds as printed, in seconds, without the noise of a binary division."""
    return float(f"{text}e-3")


def _errors(report: _ab.Report, complete: int) -> dict[str, float]:
    failed = report.number("failed")
    received = report.number("received")
    counts: dict[str, float] = {
        "errors_write": report.optional("write") or 0,
        "errors_http": report.optional("status") or 0,
    }
    causes = report.fields.get("causes")
    if failed and causes is None:
        raise ParseError(f"truncated: {failed} failed requests without their causes")
    names = ("errors_connect", "errors_read", "errors_length", "errors_exception")
    values = [int(value) if value is not None else None for value in causes.groups()] if causes is not None else [0] * 4
    known = sum(value for value in values if value is not None)
    if known > failed:
        raise ContradictionError(f"connect + receive + length + exceptions = {known}, but {failed} requests failed")
    if values[1] is None and known == failed:  # ab before 2.3 had no count of its own for receive errors
        values[1] = 0
    counts |= {name: value for name, value in zip(names, values, strict=True) if value is not None}
    if counts["errors_http"] > complete:
        raise ContradictionError(f"{counts['errors_http']} Non-2xx responses, but only {complete} complete requests")
    if counts["errors_http"] == complete:
        raise ParseError(f"every response was an error: {complete} Non-2xx responses of {complete}")
    worst = max(counts.get(name, 0) for name in ("errors_connect", "errors_read", "errors_exception", "errors_write"))
    if worst >= complete or received == 0:
        reason = f"every request failed: {failed} failures, {complete} complete, {received} bytes received"
        raise ParseError(reason)
    return counts


def _seconds(report: _ab.Report, complete: int) -> tuple[float, Interval]:
    """Return the time taken and its range; of 2.0's two readings, the one that the rate agrees with."""
    shown = report.text("seconds")
    whole, _, fraction = shown.partition(".")
    readings = [(float(shown), printed(shown))]
    if report.version.startswith("2.0") or len(fraction) > 3:
        microseconds = f"{whole}.{int(fraction):06d}"
        readings.insert(0, (float(microseconds), printed(microseconds)))
    rate = _slack(printed(report.text("rate")), report)
    return next((reading for reading in readings if (exact(complete) / reading[1]).meets(rate)), readings[0])


def _slack(interval: Interval, report: _ab.Report) -> Interval:
    return interval if report.version.startswith("2.3") else interval.widened(_SINGLE_PRECISION * interval.high)


def _check(report: _ab.Report, seconds: tuple[float, Interval], kbyte: float, text: str) -> None:
    complete, concurrency = report.number("complete"), report.number("concurrency")
    received, sent = report.number("received"), report.optional("sent")
    value, elapsed = seconds
    rate = printed(report.text("rate"))

    def same(what: str, computed: Interval, name: str, scale: float, unit: str) -> None:
        agree(what, _slack(computed, report), printed(report.text(name), scale), unit, text)

    same(f"requests ÷ time = {complete} ÷ {value:g} s", exact(complete) / elapsed, "rate", 1, "1/s")
    same(f"concurrency ÷ rate = {concurrency} ÷ {report.text('rate')}/s", exact(concurrency) / rate, "time", 1e-3, "s")
    same(f"1 ÷ rate = 1 ÷ {report.text('rate')}/s", exact(1) / rate, "time_across", 1e-3, "s")
    per_request = exact(concurrency) * elapsed / exact(complete)
    same(f"concurrency × time ÷ requests = {concurrency} × {value:g} s ÷ {complete}", per_request, "time", 1e-3, "s")
    low = received // 1024 * 1024 if not report.version.startswith(("1.3", "2.3")) else received
    same(f"bytes ÷ time = {received} ÷ {value:g} s", Interval(low, received) / elapsed, "transfer", kbyte, "byte/s")
    if "transfer_sent" in report.fields and sent is not None:
        same(f"bytes sent ÷ time = {sent} ÷ {value:g} s", exact(sent) / elapsed, "transfer_sent", kbyte, "byte/s")
        both = Interval(low, received + sent) if low < received else exact(received + sent)
        what = f"bytes both ways ÷ time = {received + sent} ÷ {value:g} s"
        same(what, both / elapsed, "transfer_total", kbyte, "byte/s")
    if report.number("body") > received:
        raise ContradictionError(f"{report.number('body')} bytes of HTML in {received} bytes transferred", text)
    _check_length(report, complete, concurrency, text)


def _check_length(report: _ab.Report, complete: int, concurrency: int, text: str) -> None:
    """Refuse documents of another length than the first; each client may have read one more by the end."""
    length, body = report.optional("length"), report.number("body")
    if length is None or report.number("failed"):
        return
    if not length * complete <= body <= length * (complete + concurrency):
        product = f"{length} × {complete} = {length * complete}"
        raise ContradictionError(f"document length × requests = {product} bytes, but {body} of HTML are printed", text)


def _times(report: _ab.Report, text: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for row, prefix in _PREFIXES.items():
        if row == "Waiting" and row not in report.rows and "avg" in report.fields["columns"][0]:
            continue
        low, mean, stdev, median, high = _ab.rows_of(report, row)
        if not int(low) <= int(mean) <= int(high) or (median is not None and not int(low) <= int(median) <= int(high)):
            raise ContradictionError(f"{row}: min {low}, mean {mean}, median {median}, max {high} ms do not rise", text)
        metrics[f"{prefix}_min"], metrics[f"{prefix}_max"] = _ms(low), _ms(high)
        if stdev is not None:
            metrics[f"{prefix}_stdev"] = _ms(stdev)
        if row != "Total":
            metrics[f"{prefix}_mean"] = _ms(mean)
            if median is not None:
                metrics[f"{prefix}_p50"] = _ms(median)
    return metrics


def _percentiles(report: _ab.Report, complete: int, text: str) -> dict[str, float]:
    if "served" not in report.fields:
        low, mean, _, median, high = _ab.rows_of(report, "Total")
        if complete > 1:
            if not (re.search(r"\bab\s(?:.*\s)?-[a-zA-Z]*d\b", text) and report.whole_last_line):
                raise ParseError("truncated: the ab report has no percentages")
        elif {low, mean, median or low, high} != {low}:
            raise ContradictionError(f"one request took min {low}, mean {mean}, median {median}, max {high} ms", text)
        return {}
    if tuple(report.served) != _ab.PERCENTS:
        raise ParseError("truncated: the ab report lacks some of its percentages")
    values = list(report.served.values())
    if values != sorted(values):
        raise ContradictionError(f"percentiles fall: {', '.join(str(value) for value in values)} ms", text)
    longest = _ab.rows_of(report, "Total")[4]
    if int(longest) != values[-1]:
        raise ContradictionError(f"longest request {values[-1]} ms, but the Total row's max is {longest} ms", text)
    return {percentile(str(percent)): _ms(str(value)) for percent, value in report.served.items() if percent < 100}
