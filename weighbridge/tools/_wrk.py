"""The output that wrk and wrk2 share: one report per run, from `Thread Stats` to `Transfer/sec`.

Lines before and after a report (prompts, calibration, what a Lua script prints) are not read; inside
it every line must be one that wrk prints, because a garbled "Socket errors" would else count as zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.metrics import percentile
from weighbridge.tools import Label, Result
from weighbridge.tools._hdr import Spectrum, bucket
from weighbridge.tools._interval import Interval, agree, exact, in_order, printed

_TIME_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_METRIC_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY_UNITS = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}

_FIXED = r"([0-9]{1,12}\.[0-9]{2})"
_TIME = _FIXED + r"(us|ms|s|m|h)"
_METRIC = _FIXED + r"([kMGTP]?)"
_BYTES = _FIXED + r"([KMGTP]?)B"
_COUNT = r"([0-9]{1,18})"

_RUNNING = re.compile(r"Running [0-9]{1,9}[smh] test @ \S+\Z")
_URL = re.compile(r"Test Results @ (\S+)\Z")
_HEADER = re.compile(r"Thread Stats\s+Avg\s+Stdev\s+(Max|99%)\s+\+/-\s*Stdev\Z")
_LATENCY = re.compile(rf"Latency\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+{_FIXED}%\Z")
_RATES = re.compile(rf"Req/Sec\s+{_METRIC}\s+{_METRIC}\s+{_METRIC}\s+{_FIXED}%\Z")
_NAN = re.compile(r"(Latency|Req/Sec)\b.*\b(nan|inf)\b", re.IGNORECASE)
_DISTRIBUTION = re.compile(r"Latency Distribution(?: \(HdrHistogram - (.+)\))?\Z")
_PERCENTILE = re.compile(rf"([0-9]{{1,3}}(?:\.[0-9]{{1,3}})?)%\s+{_TIME}\Z")
_REQUESTS = re.compile(rf"(Overall )?{_COUNT} requests in {_TIME}, {_BYTES} read\Z")
_SOCKET = re.compile(rf"Socket errors: connect {_COUNT}, read {_COUNT}, write {_COUNT}, timeout {_COUNT}\Z")
_STATUS = re.compile(rf"Non-2xx or 3xx responses: {_COUNT}\Z")
_RATE = re.compile(rf"Requests/sec:\s+{_FIXED}\Z")
_TRANSFER = re.compile(rf"Transfer/sec:\s+{_BYTES}\Z")
_RULE = re.compile(r"-{10,}\Z")

_ERROR = re.compile(
    r"unable to (?:connect|resolve|create|initialize|record)\b|invalid URL\b|number of connections must be\b"
    r"|Throughput MUST be specified|PANIC: |We are about to crash|.*\bwrk2?: (?:command )?not found"
    r"|\S+: cannot open |\S+\.lua: \S*\.lua:[0-9]"
)


def parse(tool: str, text: str) -> tuple[Result, ...]:
    """Return every report in `text`, in order; see `weighbridge.tools.Tool.parse`."""
    lines = [line.strip() for line in text.split("\n")]
    for line in lines:
        if _ERROR.match(line[:400]):
            raise ParseError(f"{tool} failed: {line[:200]}", text)
    reports = list(_reports(tool, lines, text))
    started = sum(1 for line in lines if _RUNNING.match(line))
    by_url = any(report.url or report.overall for report in reports)
    if not reports or (started > len(reports) and not by_url):
        if any(line.startswith("Running ") for line in lines):
            raise ParseError(f"truncated: a {tool} run has no summary", text)
        raise ParseError(f"no {tool} output: it holds no report", text)
    count = len(reports)
    return tuple(Result(_labels(report, index, count), _metrics(report, text)) for index, report in enumerate(reports))


def select(tool: str, results: Sequence[Result], *, percentiles: bool) -> Mapping[str, float]:
    """Return the only result's figures; ParseError when there is not exactly one or its percentiles are missing."""
    if len(results) != 1:
        raise ParseError(f"{len(results)} {tool} results where one run was made")
    metrics = results[0].metrics
    if percentiles and "latency_p99" not in metrics:
        raise ParseError(f"{tool} printed no latency distribution although --latency asked for it")
    return metrics


@dataclass(slots=True)
class _Table:
    """One "Latency Distribution"."""

    title: str
    rows: list[tuple[str, Interval, float]] = field(default_factory=list)
    spectrum: Spectrum = field(default_factory=Spectrum)


@dataclass(slots=True)
class _Report:
    """The matched lines of one report."""

    third: str
    url: str
    latency: re.Match[str] | None = None
    rates: re.Match[str] | None = None
    tables: list[_Table] = field(default_factory=list)
    requests: re.Match[str] | None = None
    socket: re.Match[str] | None = None
    status: re.Match[str] | None = None
    rate: re.Match[str] | None = None
    transfer: re.Match[str] | None = None

    @property
    def overall(self) -> bool:
        """Tell whether it sums up several URLs."""
        return self.requests is not None and self.requests[1] is not None

    def take(self, line: str) -> bool:
        """Read one line; False when it is not wrk's, or printed twice or out of turn."""
        for name, pattern, done in (
            ("latency", _LATENCY, self.rates),
            ("rates", _RATES, self.requests),
            ("requests", _REQUESTS, self.rate),
            ("socket", _SOCKET, self.status or self.rate),
            ("status", _STATUS, self.rate),
            ("rate", _RATE, None),
            ("transfer", _TRANSFER, None),
        ):
            if match := pattern.match(line):
                if getattr(self, name) is not None or done is not None:
                    return False
                setattr(self, name, match)
                return True
        if match := _DISTRIBUTION.match(line):
            self.tables.append(_Table(match[1] or ""))
            return True
        if not self.tables or self.requests is not None:
            return not line
        if match := _PERCENTILE.match(line):
            value = _interval(match, 2, _TIME_UNITS)
            self.tables[-1].rows.append((match[1], value, _value(match, 2, _TIME_UNITS)))
            return True
        return not line or _RULE.match(line) is not None or self.tables[-1].spectrum.take(line)


def _reports(tool: str, lines: Sequence[str], text: str) -> Iterator[_Report]:
    report: _Report | None = None
    url = ""
    for line in lines:
        if match := _URL.match(line):
            url = match[1]
        if report is None:
            if header := _HEADER.match(line):
                report = _Report(header[1], url)
        elif _NAN.match(line):
            raise ParseError(f"no request was measured: {line!r} is no number", text)
        elif not report.take(line):
            raise ParseError(f"truncated or garbled: {line[:200]!r} is no line of a {tool} report", text)
        elif report.transfer is not None:
            yield report
            report, url = None, ""
    if report is not None:
        raise ParseError(f"truncated: the {tool} report does not reach Transfer/sec", text)


def _labels(report: _Report, index: int, count: int) -> Mapping[str, Label]:
    if count == 1:
        return {}
    if report.overall:
        return {"stream": "SUM"}
    return {"test": report.url} if report.url else {"run": index}


def _value(match: re.Match[str], group: int, units: Mapping[str, float]) -> float:
    return round(float(match[group]) * units[match[group + 1]], 12)  # 1.04 × 1e-3 is not 0.00104 in binary


def _interval(match: re.Match[str], group: int, units: Mapping[str, float]) -> Interval:
    return printed(match[group], units[match[group + 1]])


def _metrics(report: _Report, text: str) -> Mapping[str, float]:
    latency, rates = report.latency, report.rates
    requests, rate, transfer = report.requests, report.rate, report.transfer
    if latency is None or rates is None or requests is None or rate is None or transfer is None:
        raise ParseError("truncated: Latency, Req/Sec, requests or Requests/sec is missing from the report", text)
    done, failed = int(requests[2]), int(report.status[1]) if report.status else 0
    if done == 0:
        raise ParseError("no request was answered: 0 requests", text)
    if failed > done:
        raise ContradictionError(f"{failed} responses of status above 399, but only {done} responses", text)
    if failed == done:
        raise ParseError(f"every response was an error: {failed} Non-2xx or 3xx responses of {done}", text)
    _check_totals(requests, rate, transfer, text)
    _check_latency(report, latency, rates, text)
    metrics: dict[str, float] = {
        "requests": done,
        "duration": _value(requests, 3, _TIME_UNITS),
        "bytes_received": _value(requests, 5, _BINARY_UNITS),
        "request_rate": float(rate[1]),
        "throughput": 8 * _value(transfer, 1, _BINARY_UNITS),
        "latency_mean": _value(latency, 1, _TIME_UNITS),
        "latency_stdev": _value(latency, 3, _TIME_UNITS),
        "request_rate_per_thread_mean": _value(rates, 1, _METRIC_UNITS),
        "request_rate_per_thread_stdev": _value(rates, 3, _METRIC_UNITS),
    }
    if report.third == "Max":
        metrics["latency_max"] = _value(latency, 5, _TIME_UNITS)
        metrics["request_rate_per_thread_max"] = _value(rates, 5, _METRIC_UNITS)
    else:
        metrics["latency_p99"] = _value(latency, 5, _TIME_UNITS)
    if report.tables:
        _add_percentiles(metrics, report.tables[0])
    if not report.overall:  # the overall block of several URLs prints no errors at all
        counts = [int(report.socket[group]) for group in range(1, 5)] if report.socket else [0] * 4
        metrics |= dict(zip(("errors_connect", "errors_read", "errors_write", "errors_timeout"), counts, strict=True))
        metrics["errors_http"] = failed
    return metrics


def _add_percentiles(metrics: dict[str, float], table: _Table) -> None:
    for percent, _, value in table.rows:
        if float(percent) < 100:
            metrics[percentile(percent)] = value
    maximum = table.spectrum.maximum
    if "latency_max" not in metrics and maximum is not None:
        metrics["latency_max"] = round((maximum.low + maximum.high) / 2, 9)


def _check_totals(requests: re.Match[str], rate: re.Match[str], transfer: re.Match[str], text: str) -> None:
    elapsed, seconds = _interval(requests, 3, _TIME_UNITS), _value(requests, 3, _TIME_UNITS)
    what = f"requests ÷ duration = {requests[2]} ÷ {seconds:g} s"
    agree(what, exact(int(requests[2])) / elapsed, printed(rate[1]), "1/s", text)
    received, transferred = _interval(requests, 5, _BINARY_UNITS), _interval(transfer, 1, _BINARY_UNITS)
    what = f"bytes ÷ duration = {requests[5]}{requests[6]}B ÷ {seconds:g} s"
    agree(what, received / elapsed, transferred, "byte/s", text)


def _check_latency(report: _Report, latency: re.Match[str], rates: re.Match[str], text: str) -> None:
    for share in (latency[7], rates[7]):
        if float(share) > 100:
            raise ContradictionError(f"{share} % of values within one standard deviation", text)
    mean, third = _interval(latency, 1, _TIME_UNITS), _interval(latency, 5, _TIME_UNITS)
    # A histogram's mean and percentiles lie above the lower end of the bucket that it prints as the maximum.
    largest = third.widened(bucket(third.high)) if report.third == "Max" else None
    if largest is not None:
        in_order("mean latency beside the maximum", mean, largest, "s", text)
        fastest = _interval(rates, 5, _METRIC_UNITS)
        fastest = fastest.widened(fastest.high / 1024)
        in_order("Req/Sec mean beside the maximum", _interval(rates, 1, _METRIC_UNITS), fastest, "1/s", text)
    for table in report.tables:
        _check_table(table, text)
    if not report.tables:
        return
    for percent, value, _ in report.tables[0].rows:
        if largest is not None:
            in_order(f"{percent} % latency beside the maximum", value, largest, "s", text)
        elif float(percent) == 99:
            agree("99 % latency", value, third, "s", text)
    _check_footer(report, report.tables[0].spectrum, latency, text)


def _check_footer(report: _Report, spectrum: Spectrum, latency: re.Match[str], text: str) -> None:
    """Compare the `#[…]` lines, which have three more digits, with the figures above and below them."""
    if spectrum.mean is None or spectrum.stdev is None or spectrum.maximum is None or spectrum.total is None:
        return
    agree("#[Mean", spectrum.mean, _interval(latency, 1, _TIME_UNITS), "s", text)
    agree("#[StdDeviation", spectrum.stdev, _interval(latency, 3, _TIME_UNITS), "s", text)
    if report.third == "Max":
        agree("#[Max", spectrum.maximum, _interval(latency, 5, _TIME_UNITS), "s", text)
    if report.requests is not None and spectrum.total > int(report.requests[2]):
        raise ContradictionError(f"{spectrum.total} latencies recorded, but only {report.requests[2]} requests", text)


def _check_table(table: _Table, text: str) -> None:
    percents = [float(percent) for percent, _, _ in table.rows]
    if not percents or 50 not in percents or 99 not in percents:
        raise ParseError("truncated: the latency distribution lacks its 50 % or 99 % line", text)
    if percents != sorted(set(percents)) or percents[-1] > 100:
        raise ParseError("garbled: the latency distribution's percentages do not rise to 100", text)
    for (percent, low, _), (next_percent, high, _) in zip(table.rows, table.rows[1:], strict=False):
        in_order(f"{percent} % latency beside {next_percent} %", low, high, "s", text)
    if table.title:
        table.spectrum.check([(float(percent), value) for percent, value, _ in table.rows], text)
