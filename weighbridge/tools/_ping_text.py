"""What the families of ping print: iputils, busybox, BSD and macOS, GNU inetutils, Solaris, AIX, toybox."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools._terminal import lines, quote

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_HEADER = re.compile(r"(?:PING6?|Ping)(?: |\()\S.*?\b(?:bytes|octets)\b")
_PAYLOAD = re.compile(r"(?:\+|\b)(\d{1,5})(?:\(\d{1,5}\))? (?:data )?(?:bytes|octets)\b")
_REPLY = re.compile(r"\b\d{1,5} (?:bytes|octets) from .*?(?:seq|req)=\d")
_REPLY_TIME = re.compile(rf"\btime=({_NUMBER}) ?(msec|ms|usec)\b")
_TITLE = re.compile(r"-{3,4} ?(\S.{0,300}?) (?:ping6?|PING6?) [sS]tatistics ?-{3,4}\s*$")
_SUMMARY_START = re.compile(r"\s*\d{1,15} packets transmitted\b")
_SUMMARY = re.compile(
    r"\s*(?P<sent>\d{1,15}) packets transmitted, (?P<received>\d{1,15})(?: packets)? received"
    r"(?:, \+?(?P<duplicates>\d{1,15}) duplicates)?"
    r"(?:, \+?\d{1,15} corrupted)?"
    r"(?:, \+?\d{1,15} errors)?"
    rf", (?P<loss>{_NUMBER})(?:e(?P<exponent>-\d\d))?% (?:packet )?loss"
    r"(?:, \d{1,15} packets out of wait time)?"
    r"(?:, time (?P<time>\d{1,15}) ?ms)?\s*$"
)
_TIMES_START = re.compile(r"\s*(?:rtt|round-trip)\b")
_TIMES = re.compile(
    r"\s*(?:rtt|round-trip)(?P<titled> \(ms\))?\s+(?P<names>[a-z/-]{11,19}) = "
    rf"(?P<values>{_NUMBER}(?:/{_NUMBER}){{2,3}})"
    rf"(?P<unit> ms(?:, pipe \d{{1,9}})?(?:, ipg/ewma {_NUMBER}/{_NUMBER} ms)?\s*|\s*)$"
)
_NAMES = {
    "min/avg/max": ("min", "mean", "max"),
    "min/avg/max/mdev": ("min", "mean", "max", "mdev"),
    "min/avg/max/stddev": ("min", "mean", "max", "mdev"),
    "min/avg/max/std-dev": ("min", "mean", "max", "mdev"),
}
# What ping says of a single request is in its counts already; everything else it says ended it.
_FATAL = re.compile(
    r"(?:\S*/)?ping6?: (?!sendmsg|sendto|recvmsg|recvfrom|wrote|sock4|[Ww]arning|WARNING)\S"
    r"|connect: \S|.*(?:\bunknown host\b|command not found|ping: not found)"
)
_COMPLAINT = re.compile(r"(?:\S*/)?ping6?: \S")
STAMP = 16
"""Bytes of payload that iputils' time stamp fills (BSD 8, busybox 4): below, there may be no round-trip time."""


@dataclass(frozen=True, slots=True)
class _Times:
    """The summary of round-trip times as printed: milliseconds, and one unit of the last digit."""

    values: dict[str, float]
    unit: float


def read(text: str) -> list[dict[str, float]]:
    """The metrics of every run in the text, in order.

    Raises ParseError and ContradictionError as `weighbridge.tools.ping.parse` says.
    """
    runs = _split(lines(text))
    for line in (line for run in runs for line in run):
        if _FATAL.match(line):
            raise ParseError(f"ping failed: {quote(line)}", text)
    if len(runs) == 1:
        raise ParseError("no ping output: neither a PING line nor statistics", text)
    return [_run(run, text, last=run is runs[-1]) for run in runs[1:]]


def _split(every: list[str]) -> list[list[str]]:
    """Separate the lines before the first run, then those of each run.

    A run may have been saved from its title or its counts on, as by `| tail -2`.
    """
    runs: list[list[str]] = [[]]
    reached = 0
    for line in every:
        rank = _rank(line)
        if rank and (rank == 1 or rank <= reached or len(runs) == 1):
            runs.append([])
            reached = 0
        reached = max(rank, reached)
        runs[-1].append(line)
    return runs


def _rank(line: str) -> int:
    """Tell a run's landmarks: 1 the PING line, 2 the title of the statistics, 3 the counts, 0 any other line."""
    if _TITLE.search(line):
        return 2
    return 3 if _SUMMARY_START.match(line) else int(_HEADER.search(line) is not None)


def _run(run: list[str], text: str, *, last: bool) -> dict[str, float]:
    title = next((index for index, line in enumerate(run) if _rank(line) > 1), None)
    if title is None:
        complaint = next((f", only {quote(line)}" for line in run if _COMPLAINT.match(line)), "")
        raise ParseError(f"truncated: no statistics follow {quote(run[0])}{complaint}", text)
    replies = [_reply(line, text) for line in run[:title] if _REPLY.search(line) and "BAD CHECKSUM" not in line]
    summary = _summary(run[title:], text)
    times = _times(run[title:], text, unterminated=run[-1] if last else None)
    metrics = _counts(summary, text)
    answers = int(metrics["packets_received"] + metrics["packets_duplicated"])
    if len(replies) > answers:
        raise ContradictionError(f"{len(replies)} reply lines, but {answers} answers are counted", text)
    if times is None:
        payload = _PAYLOAD.search(run[0])
        if any(replies) or payload is None or int(payload[1]) >= STAMP:
            raise ParseError("truncated: no round-trip times after the counts", text)
        return metrics
    _check_times(times, text)
    timed = [reply for reply in replies if reply]
    if len(timed) == answers:
        _check_replies(times, timed, text)
    return metrics | {
        f"round_trip_time_{name}": float(Decimal(repr(value)) / 1000) for name, value in times.values.items()
    }


def _reply(line: str, text: str) -> tuple[float, float] | None:
    """The time of one reply and one unit of its last digit, in ms; None where the reply carries no time."""
    if "time=" not in line:
        return None
    match = _REPLY_TIME.search(line)
    if match is None:
        raise ParseError(f"a reply's time is unreadable: {quote(line)}", text)
    scale = 1e-3 if match[2] == "usec" else 1.0
    return float(match[1]) * scale, _last_digit(match[1]) * scale


def _summary(after: list[str], text: str) -> re.Match[str]:
    line = next((line for line in after if _SUMMARY_START.match(line)), None)
    if line is None:
        raise ParseError("truncated: no counts under the statistics' title", text)
    match = _SUMMARY.match(line)
    if match is None:
        raise ParseError(f"truncated or unknown counts: {quote(line)}", text)
    return match


def _counts(summary: re.Match[str], text: str) -> dict[str, float]:
    sent, received = int(summary["sent"]), int(summary["received"])
    if received > sent:
        raise ContradictionError(f"{received} packets received of {sent} transmitted", text)
    if received == 0:
        raise ParseError(f"no request was answered: {quote(summary[0])}", text)
    exponent = 10.0 ** int(summary["exponent"] or 0)
    printed, unit = float(summary["loss"]) * exponent, _last_digit(summary["loss"]) * exponent
    loss = (sent - received) / sent
    # Some pings round the percentage and some cut it: it may be anything less than a unit off.
    if abs(printed - 100 * loss) >= unit:
        raise ContradictionError(
            f"{printed:g} % packet loss printed, but {sent} - {received} of {sent} is {100 * loss:.6g} %", text
        )
    metrics = {
        "packets_sent": float(sent),
        "packets_received": float(received),
        "packets_lost": float(sent - received),
        "packet_loss": loss,
        "packets_duplicated": float(summary["duplicates"] or 0),
    }
    return metrics if summary["time"] is None else metrics | {"duration": int(summary["time"]) / 1e3}


def _times(after: list[str], text: str, *, unterminated: str | None) -> _Times | None:
    line = next((line for line in after if _TIMES_START.match(line)), None)
    if line is None:
        return None
    match = _TIMES.match(line)
    names = _NAMES.get(match["names"]) if match else None
    if match is None or names is None or len(names) != match["values"].count("/") + 1:
        raise ParseError(f"truncated or unknown round-trip times: {quote(line)}", text)
    # Where the unit stands before the figures, nothing but the line's end shows that the last one is whole.
    whole = line is not unterminated if match["titled"] else match["unit"].strip() != ""
    if not whole:
        raise ParseError(f"truncated round-trip times: {quote(line)}", text)
    values = match["values"].split("/")
    return _Times(dict(zip(names, map(float, values), strict=True)), max(map(_last_digit, values)))


def _check_times(times: _Times, text: str) -> None:
    low, mean, high = (times.values[name] for name in ("min", "mean", "max"))
    if not low <= mean <= high:
        raise ContradictionError(f"min {low:g} ms <= mean {mean:g} ms <= max {high:g} ms does not hold", text)
    # A standard deviation is at most the range; iputils works it out from a mean cut to whole microseconds, which
    # adds up to 2 x mean x unit to the variance.
    most = high - low + (2 * mean * times.unit + times.unit**2) ** 0.5 + times.unit
    if times.values.get("mdev", 0.0) > most:
        raise ContradictionError(
            f"mdev {times.values['mdev']:g} ms is more than the range, {high:g} - {low:g} ms", text
        )


def _check_replies(times: _Times, replies: list[tuple[float, float]], text: str) -> None:
    values = [value for value, _ in replies]
    # One unit of the last digit of each, not half: some round, some cut.
    slack = max(unit for _, unit in replies) + times.unit
    seen = {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
    for name, value in seen.items():
        if abs(value - times.values[name]) > slack * (1 + 1e-9):
            raise ContradictionError(
                f"{name} {times.values[name]:g} ms printed, but the {len(values)} replies give {value:.6g} ms", text
            )


def _last_digit(number: str) -> float:
    """One unit of the last printed digit: 0.001 for `0.247`."""
    return 10.0 ** -len(number.partition(".")[2])
