"""Reading what iperf 2 prints for people, from 1.7 to 2.2; formats from its `src/Locale.c` and `src/ReportOutputs.c`.

A summary looks like an interval row: it is the row from 0 to the end. Without `-i` there is one row per stream, with
`-i` the summary follows the intervals, so a run that was cut after its first interval looks like one without `-i`.
`_is_cut` tells them apart by the echoed command, by the row's own arithmetic, or refuses.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf_printed import (
    NUMBER,
    PERCENT,
    Row,
    check_loss,
    check_rate,
    check_sum,
    command,
    lines,
    option,
    row,
    seconds,
)

_CLIENT = re.compile(r"Client connecting to \S.*, (?P<test>TCP|UDP) port (?P<port>\d{1,5})\b")
_SERVER = re.compile(r"Server listening on (?P<test>TCP|UDP) ports? (?P<low>\d{1,5})(?:-(?P<high>\d{1,5}))?\b")
_PEER = re.compile(
    r"\[\s*(?P<id>\*?\s*\d{1,6})\] local\s*(?P<local>\S+) port (?P<local_port>\d{1,5}) connected with"
    r" (?P<remote>\S+) port (?P<remote_port>\d{1,5})(?P<rest>.*)"
)
_HEADER = re.compile(r"\[\s*(?:ID|SUM-cnt)\]\s*Interval")
_SENT = re.compile(r"\[\s*(?P<id>\*?\s*\d{1,6}|SUM(?:-\d{1,6})?)\] Sent (?P<count>\d{1,18}) datagrams")
_SERVER_REPORT = re.compile(r"\[\s*(?P<id>\*?\s*\d{1,6})\] Server Report:")
_OUT_OF_ORDER = re.compile(
    rf"\[\s*(?P<id>\*?\s*\d{{1,6}}|SUM)\]\s*{NUMBER}\s*-\s*(?P<end>{NUMBER})\s*sec\s*"
    r"(?P<count>\d{1,18}) datagrams received out-of-order"
)
_DATAGRAM = re.compile(r"Sending (?P<size>\d{1,6}) byte datagrams")
_JITTER = re.compile(
    rf"\A\s*(?P<jitter>{NUMBER}) ms\s*(?P<lost>\d{{1,18}})\s*/\s*(?P<total>\d{{1,18}})\s*\((?P<percent>{PERCENT})%\)"
    r"(?P<tail>.*)\Z"
)
_WRITE = re.compile(r"\A\s*(?P<writes>\d{1,18})/(?P<errors>\d{1,18})(?=\s)(?P<tail>.*)\Z")
_READS = re.compile(r"\A\s*\d{1,18}=\d")
_RETRY = re.compile(r"\A\s*(?P<retries>\d{1,18})(?=\s)(?:\s+(?P<cwnd>\d{1,12})K(?:\(\d+\))?/\d)?")
_LATENCY = re.compile(
    rf"\s(?P<mean>{NUMBER})/\s*(?P<min>{NUMBER})/\s*(?P<max>{NUMBER})/\s*(?P<stdev>{NUMBER}) ms\b",
)
_PACKET_RATE = re.compile(r"\s(?P<rate>\d{1,12}(?:\.\d{1,6})?) pps\b")
_ERROR = re.compile(
    r"\b(?:failed|refused|unreachable|timed out|denied|error|no route to host|unable to|unrecognized|invalid|"
    r"address already in use|broken pipe|reset by peer|unknown host|name or service not known|not found|killed|"
    r"segmentation fault|terminated|abort)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\bWARNING:|^\s*\[ ID\]|final connect times|delay too large", re.IGNORECASE)
_INTERRUPTED = re.compile(r"\^C|Interrupt again to force quit")
_DEFAULT_TIME = 10.0
_USUAL_INTERVALS = 2.0


@dataclass
class _Stream:
    """What was printed under one id."""

    id: str
    local_port: int = 0
    remote_port: int = 0
    reverse: bool = False
    connected: bool = False
    rows: list[tuple[Row, str]] = field(default_factory=list)
    report: tuple[Row, str] | None = None
    sent: int | None = None
    out_of_order: dict[str, int] = field(default_factory=dict)


_NONE = _Stream("")


@dataclass
class _Run:
    """One run of the program, or one of the tests a server served."""

    words: list[str] | None = None
    test: str = ""
    client_ports: set[int] = field(default_factory=set)
    server_ports: list[range] = field(default_factory=list)
    serves: bool = False
    datagram: int | None = None
    streams: dict[str, _Stream] = field(default_factory=dict)
    interrupted: bool = False

    def stream(self, id_: str) -> _Stream:
        key = "SUM" if id_.startswith("SUM") else re.sub(r"\s", "", id_)
        return self.streams.setdefault(key, _Stream(key))

    @property
    def has_rows(self) -> bool:
        return any(stream.rows for stream in self.streams.values())

    @property
    def served(self) -> bool:
        """Whether a server is through with all clients it had: the next connection is another test."""
        connected = [stream for stream in self.streams.values() if stream.connected]
        return self.serves and bool(connected) and all(stream.rows for stream in connected)

    def next(self) -> _Run:
        """The following test of the same server process."""
        return _Run(self.words, self.test, self.client_ports, self.server_ports, self.serves, self.datagram)


def parse(text: str) -> tuple[Result, ...]:
    """Every summary row; see `weighbridge.tools.iperf.parse`."""
    runs = [run for run in _runs(text) if run.streams or run.words]
    if not any(run.has_rows for run in runs):
        raise ParseError("truncated or no output of iperf: it has no row of figures", text)
    found = [list(_results(run, text)) for run in runs]
    if len(found) == 1:
        return tuple(found[0])
    return tuple(
        Result({**result.labels, "run": index}, result.metrics)
        for index, results in enumerate(found)
        for result in results
    )


def _runs(text: str) -> Iterator[_Run]:  # noqa: PLR0912, PLR0915 - one branch for each kind of line
    run, header, reporting = _Run(), "", ""
    for line in lines(text):
        if (echoed := command(line)) is not None:
            yield run
            run, header, reporting = _Run(words=_split(echoed)), "", ""
            continue
        if match := _CLIENT.search(line):
            # A server that is asked for the way back also becomes a client: that is still its own run.
            if run.has_rows and not run.serves:
                yield run
                run = _Run()
            run.test = match["test"].lower()
            run.client_ports = run.client_ports | {int(match["port"])}
        elif match := _SERVER.search(line):
            if run.has_rows:
                yield run
                run = _Run()
            run.test = match["test"].lower()
            run.server_ports = [*run.server_ports, range(int(match["low"]), int(match["high"] or match["low"]) + 1)]
            run.serves = run.serves or not run.client_ports
        elif match := _PEER.search(line):
            if run.served or run.streams.get(re.sub(r"\s", "", match["id"]), _NONE).rows:
                yield run
                run = run.next()
            stream = run.stream(match["id"])
            stream.connected = True
            stream.local_port, stream.remote_port = int(match["local_port"]), int(match["remote_port"])
            stream.reverse = "(reverse)" in match["rest"]
            if stream.remote_port and not stream.local_port:
                raise ParseError(f"no connection: {line.strip()!r}", text)
        elif _HEADER.search(line):
            header = line
        elif match := _SERVER_REPORT.search(line):
            reporting = re.sub(r"\s", "", match["id"])
        elif match := _SENT.search(line):
            run.stream(match["id"]).sent = int(match["count"])
        elif match := _OUT_OF_ORDER.search(line):
            run.stream(match["id"]).out_of_order[match["end"]] = int(match["count"])
        elif match := _DATAGRAM.search(line):
            run.datagram = int(match["size"])
        elif (found := row(line, text)) is not None:
            check_rate(found, text)
            stream = run.stream(found.id)
            if reporting == found.id:
                stream.report, reporting = (found, header), ""
            else:
                stream.rows.append((found, header))
        elif _INTERRUPTED.search(line):
            run.interrupted = True
        elif _ERROR.search(line) and not _HARMLESS.search(line):
            raise ParseError(f"iperf reports: {line.strip()}", text)
    if reporting:
        raise ParseError("truncated in its server report", text)
    yield run


def _split(echoed: str) -> list[str]:
    try:
        return shlex.split(echoed.partition("|")[0])
    except ValueError:
        return echoed.split()


def _results(run: _Run, text: str) -> Iterator[Result]:
    if not run.has_rows:
        raise ParseError("truncated: a run ends before its summary", text)
    single = [stream for stream in run.streams.values() if stream.id != "SUM" and not stream.id.startswith("FD")]
    sums_only = not any(stream.rows for stream in single)
    if run.interrupted and run.client_ports and not run.serves:
        raise ParseError("truncated: the client was interrupted", text)
    with_intervals = any(len(stream.rows) > 1 for stream in single)
    summaries: dict[str, Row] = {}
    for stream in run.streams.values():
        if not stream.rows:
            if stream.connected and not sums_only and not any(other.id == f"*{stream.id}" for other in single):
                raise ParseError(f"truncated: stream {stream.id} has no summary", text)
            continue
        summaries[stream.id] = _summary(run, stream, with_intervals, text)
    directions = {stream.id: _direction(run, stream) for stream in single}
    _check_streams(run, single, directions, summaries, text)
    both = len({direction for direction in directions.values() if direction}) == 2
    for stream in run.streams.values():
        if stream.id not in summaries:
            continue
        direction = directions.get(stream.id, "")
        if stream.id == "SUM" and not both:
            direction = next((way for way in directions.values() if way), _default_direction(run))
        labels: dict[str, Label] = {"test": run.test} if run.test else {}
        labels["stream"] = stream.id
        if direction:
            labels["direction"] = direction
        if both and direction:
            labels["role"] = ("TX-" if direction == "sender" else "RX-") + ("S" if run.serves else "C")
        yield Result(labels, _figures(run, stream, stream.rows[-1], direction, text))
        if stream.report is not None:
            received = {**labels, "direction": "receiver"}
            yield Result(received, _figures(run, stream, stream.report, "receiver", text))


def _summary(run: _Run, stream: _Stream, with_intervals: bool, text: str) -> Row:
    last = stream.rows[-1][0]
    if not last.whole or any(other.end.value > last.end.high for other, _ in stream.rows):
        raise ParseError(f"truncated: stream {stream.id} has no summary after {last.line!r}", text)
    if len(stream.rows) == 1 and (with_intervals or _is_cut(run, stream, last)):
        raise ParseError(f"truncated, or too short to tell: {last.line!r} may be the first interval of a cut run", text)
    intervals = [other for other, _ in stream.rows[:-1]]
    if len(intervals) > 1 and intervals[-1].whole and not intervals[0].id.startswith("FD"):
        raise ParseError(f"two summaries for stream {stream.id}: {last.line!r}", text)
    low = sum(other.size.low for other in intervals)
    if low > last.size.high * 1.01:
        raise ContradictionError(
            f"{last.line!r}: its intervals add up to {low:.6g} byte or more, but {last.size.value:.6g} byte is printed",
            text,
        )
    return last


def _is_cut(run: _Run, stream: _Stream, last: Row) -> bool:
    """Whether a stream's only row may be an interval, or falls short of the time that was asked for."""
    if stream.sent is not None or stream.report is not None:
        return False
    end = last.end
    if run.words is not None:
        interval = seconds(option(run.words, "-i", "--interval"))
        if interval and end.meets(interval, interval):
            asked = seconds(option(run.words, "-t", "--time")) or _DEFAULT_TIME
            return not end.meets(asked, asked)
        by_size = option(run.words, "-n", "--num", "-F", "--fileinput", "-I", "--stdin") is not None
        asked = seconds(option(run.words, "-t", "--time")) or _DEFAULT_TIME
        return not (run.serves or by_size or "-s" in run.words) and end.value < 0.9 * asked
    # The figures may hold the time with more digits than the row shows.
    low, high = 8 * last.size.low / last.rate.high, 8 * last.size.high / max(last.rate.low, 1e-9)
    half_seconds = round(end.value * 2) / 2
    if not low <= half_seconds <= high or not end.meets(half_seconds, half_seconds):
        return False
    exact = end.half < 1e-3
    return half_seconds < _DEFAULT_TIME if exact else half_seconds <= _USUAL_INTERVALS


def _default_direction(run: _Run) -> str:
    if run.serves:
        return "receiver"
    return "sender" if run.client_ports and not run.server_ports else ""


def _direction(run: _Run, stream: _Stream) -> str:
    """Whose view of the traffic the rows of a stream are; "" when the output does not say."""
    if not run.client_ports and not run.server_ports:
        return ""
    if stream.id.startswith("*"):
        return "sender" if run.serves else "receiver"
    if not stream.connected:
        return _default_direction(run)
    flipped = stream.reverse and f"*{stream.id}" not in run.streams
    if any(stream.local_port in ports for ports in run.server_ports):
        return "sender" if flipped else "receiver"
    if stream.remote_port in run.client_ports:
        return "receiver" if flipped else "sender"
    return ""


def _check_streams(
    run: _Run, single: list[_Stream], directions: dict[str, str], summaries: dict[str, Row], text: str
) -> None:
    """The SUM has to be there where iperf prints one, and to be the sum of its streams."""
    senders = [stream for stream in single if directions[stream.id] == "sender" and stream.id in summaries]
    present = [stream for stream in single if stream.id in summaries]
    if "SUM" in summaries:
        if present and (run.client_ports or run.serves) and len(present) == sum(stream.connected for stream in present):
            try:
                check_sum(summaries["SUM"], (summaries[stream.id] for stream in present), text)
            except ContradictionError:
                if not run.serves:
                    raise
                # 2.1 adds a server's tests for the same client up, also those that ended before
                del summaries["SUM"]
    elif not run.serves and len(senders) > 1 and len({stream.remote_port for stream in senders}) == 1:
        raise ParseError(f"truncated: {len(senders)} streams, but no SUM", text)


def _figures(run: _Run, stream: _Stream, printed: tuple[Row, str], direction: str, text: str) -> dict[str, float]:
    found, header = printed
    if found.size.value == 0 or found.rate.value == 0:
        raise ParseError(f"nothing was transferred: {found.line!r}", text)
    figures = {"throughput": found.rate.value, "duration": found.duration.value}
    if direction:
        figures["bytes_sent" if direction == "sender" else "bytes_received"] = found.size.value
    is_report = stream.report is not None and printed is stream.report
    match = _JITTER.match(found.rest)
    # 2.0 prints the Jitter header once, and then also rows of its own sending below it
    receives = is_report or ("Jitter" in header and (direction == "receiver" or not run.client_ports))
    if match is None and receives and not _WRITE.match(found.rest):
        raise ParseError(f"truncated: jitter and loss are missing in {found.line!r}", text)
    if match is not None:
        figures |= _datagrams(match, found, text)
        count = stream.out_of_order.get(_end_text(found))
        if count is not None:
            figures["packets_out_of_order"] = float(count)
    elif found.rest.strip() and "Write/Err" not in header and "Reads" not in header and "BB cnt" not in header:
        raise ParseError(f"unreadable row: {found.line!r}", text)
    elif "Write/Err" in header and not _READS.match(found.rest):
        figures |= _written(found, header, text)
    if match is None and stream.sent is not None and not is_report:
        figures["packets_sent"] = float(stream.sent)
        if run.datagram and found.size.low > (stream.sent + 3) * run.datagram:
            raise ContradictionError(
                f"{found.line!r}: {stream.sent} datagrams of {run.datagram} byte are {stream.sent * run.datagram} byte,"
                f" but {found.size.value:.6g} byte is printed",
                text,
            )
    if "Latency" in header and (match is None or "-/-/-/-" not in match["tail"]):
        figures |= _latency(found, text)
    if "PPS" in header and (rate := _PACKET_RATE.search(found.rest)) is not None:
        figures["packet_rate"] = float(rate["rate"])
    return figures


def _end_text(found: Row) -> str:
    match = re.search(rf"-\s*({NUMBER})\s*sec", found.line)
    return match[1] if match else ""


def _datagrams(match: re.Match[str], found: Row, text: str) -> dict[str, float]:
    lost, total = int(match["lost"]), int(match["total"])
    check_loss(lost, total, match["percent"], found.line, text)
    return {
        "jitter": float(match["jitter"]) / 1e3,
        "packets_lost": float(lost),
        "packet_loss": lost / total,
        "packets_sent": float(total),
        "packets_received": float(total - lost),
    }


def _written(found: Row, header: str, text: str) -> dict[str, float]:
    """The columns of a sender's enhanced row (`-e`): Write/Err, Rtry, Cwnd."""
    match = _WRITE.match(found.rest)
    if match is None:
        if not found.rest.strip() and found.id == "SUM":
            return {}
        raise ParseError(f"truncated: the columns of {header.strip()!r} are missing in {found.line!r}", text)
    figures = {"errors_write": float(match["errors"])}
    retry = _RETRY.match(match["tail"]) if "Rtry" in header else None
    if retry is not None:
        figures["retransmits"] = float(retry["retries"])
        if retry["cwnd"] is not None:
            figures["congestion_window"] = float(retry["cwnd"]) * 1024
    return figures


def _latency(found: Row, text: str) -> dict[str, float]:
    match = _LATENCY.search(found.rest)
    if match is None:
        if found.id == "SUM":
            return {}
        raise ParseError(f"unreadable latency: {found.line!r}", text)
    mean, low, high, stdev = (float(match[name]) / 1e3 for name in ("mean", "min", "max", "stdev"))
    if not low <= mean <= high:
        raise ContradictionError(f"{found.line!r}: a mean latency of {mean} s outside {low} s to {high} s", text)
    return {"latency_mean": mean, "latency_min": low, "latency_max": high, "latency_stdev": stdev}
