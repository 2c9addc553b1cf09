"""Reading what iperf 2 prints for people, from 1.7 to 2.2; formats from its `src/Locale.c` and `src/ReportOutputs.c`.

A summary looks like an interval row: it is the row from 0 to the end. Without `-i` there is one row per stream, with
`-i` the summary follows the intervals, so a run that was cut after its first interval looks like one without `-i`.
`_is_cut` tells them apart by the echoed command, by the row's own arithmetic, or refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf2_columns import figures_of
from weighbridge.tools._iperf2_runs import Run, Stream, runs
from weighbridge.tools._iperf_printed import Row, check_sum, option, seconds

_DEFAULT_TIME = 10.0
_USUAL_INTERVALS = 2.0


def parse(text: str) -> tuple[Result, ...]:
    """Every summary row; see `weighbridge.tools.iperf.parse`."""
    found_runs = [run for run in runs(text) if run.streams or run.asked]
    if not any(run.has_rows for run in found_runs):
        raise ParseError("truncated or no output of iperf: it has no row of figures", text)
    found = [list(_results(run, text)) for run in found_runs]
    if len(found) == 1:
        return tuple(found[0])
    return tuple(
        Result({**result.labels, "run": index}, result.metrics)
        for index, results in enumerate(found)
        for result in results
    )


def _results(run: Run, text: str) -> Iterator[Result]:
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
    directions = {stream.id: _direction(run, stream) for stream in single if stream.id in summaries}
    _check_streams(run, single, directions, summaries, text)
    both = len({ways for id_, ways in directions.items() if ways and not _far_end(run, run.streams[id_])}) == 2
    for stream in run.streams.values():
        if stream.id not in summaries:
            continue
        direction = directions.get(stream.id, "")
        if stream.id == "SUM" and not both:
            direction = next((way for way in directions.values() if way), _default_direction(run))
        test = run.test or ("udp" if stream.report is not None or stream.sent is not None else "")
        labels: dict[str, Label] = {"test": test} if test else {}
        labels["stream"] = stream.id
        if direction:
            labels["direction"] = direction
        if both and direction:
            labels["role"] = ("TX-" if direction == "sender" else "RX-") + ("S" if run.serves else "C")
        yield Result(labels, figures_of(run, stream, stream.rows[-1], direction, text))
        if stream.report is not None:
            received = {**labels, "direction": "receiver"}
            yield Result(received, figures_of(run, stream, stream.report, "receiver", text))


def _summary(run: Run, stream: Stream, with_intervals: bool, text: str) -> Row:
    last = stream.rows[-1].row
    if not last.whole or any(other.row.end.value > last.end.high for other in stream.rows):
        raise ParseError(f"truncated: stream {stream.id} has no summary after {last.line!r}", text)
    if len(stream.rows) == 1 and (with_intervals or _is_cut(run, stream, last)):
        raise ParseError(f"truncated, or too short to tell: {last.line!r} may be the first interval of a cut run", text)
    if _falls_short(run, last):
        raise ParseError(f"truncated: {last.line!r} is less than the time that was asked for", text)
    intervals = [other.row for other in stream.rows[:-1]]
    if len(intervals) > 1 and intervals[-1].whole and not intervals[0].id.startswith("FD"):
        raise ParseError(f"two summaries for stream {stream.id}: {last.line!r}", text)
    low = sum(other.size.low for other in intervals)
    if low > last.size.high * 1.01:
        raise ContradictionError(
            f"{last.line!r}: its intervals add up to {low:.6g} byte or more, but {last.size.value:.6g} byte is printed",
            text,
        )
    return last


def _falls_short(run: Run, last: Row) -> bool:
    """Whether an echoed client command asked for clearly more time than the summary covers."""
    if run.words is None or run.serves or "-s" in run.words:
        return False
    by_size = any(option(run.words, name) is not None for name in ("-n", "--num", "-F", "--fileinput", "-I", "--stdin"))
    return not by_size and last.end.value < 0.9 * _asked(run.words)


def _asked(words: list[str]) -> float:
    return seconds(option(words, "-t", "--time")) or _DEFAULT_TIME


def _is_cut(run: Run, stream: Stream, last: Row) -> bool:
    """Whether a stream's only row may be an interval."""
    if stream.sent is not None or stream.report is not None:
        return False
    end = last.end
    if run.words is not None:
        interval = seconds(option(run.words, "-i", "--interval"))
        asked = _asked(run.words)
        # four decimals never hit the time asked for exactly, so that such a row is an interval
        never_a_summary = end.half < 1e-3 or not end.meets(asked, asked)
        return bool(interval) and end.meets(interval or 0, interval or 0) and never_a_summary
    # The figures may hold the time with more digits than the row shows.
    low, high = 8 * last.size.low / last.rate.high, 8 * last.size.high / max(last.rate.low, 1e-9)
    half_seconds = round(end.value * 2) / 2
    if not low <= half_seconds <= high or not end.meets(half_seconds, half_seconds):
        return False
    exact = end.half < 1e-3
    return half_seconds < _DEFAULT_TIME if exact else half_seconds <= _USUAL_INTERVALS


def _default_direction(run: Run) -> str:
    if run.serves:
        return "receiver"
    return "sender" if run.client_ports and not run.server_ports else ""


def _far_end(run: Run, stream: Stream) -> bool:
    """Whether a client's output shows a server in the same terminal, with its end of the client's own connection."""
    ports = (stream.remote_port, stream.local_port)
    return (
        not run.serves
        and stream.local_port in run.client_ports
        and any(ports == (other.local_port, other.remote_port) for other in run.streams.values())
    )


def _direction(run: Run, stream: Stream) -> str:
    """Whose view of the traffic the rows of a stream are; "" when the output does not say."""
    if stream.report is not None or _far_end(run, stream):
        return "sender" if stream.report is not None else "receiver"
    if not run.client_ports and not run.server_ports:
        return ""
    if stream.id.startswith("*"):
        return "sender" if run.serves else "receiver"
    if not stream.connected:
        return _default_direction(run)
    listens = any(stream.local_port in ports for ports in run.server_ports)
    if not listens and stream.remote_port not in run.client_ports:
        return ""
    flipped = stream.reverse and f"*{stream.id}" not in run.streams
    return "receiver" if listens != flipped else "sender"


def _check_streams(
    run: Run, single: list[Stream], directions: dict[str, str], summaries: dict[str, Row], text: str
) -> None:
    """Refuse streams without the SUM that iperf prints of them, and a SUM that is not theirs."""
    senders = [stream for stream in single if directions.get(stream.id) == "sender"]
    present = [stream for stream in single if stream.id in summaries]
    if "SUM" in summaries:
        present = [stream for stream in present if not _far_end(run, stream)]
        if present and all(stream.connected for stream in present):
            try:
                check_sum(summaries["SUM"], (summaries[stream.id] for stream in present), text)
            except ContradictionError:
                if not run.serves:
                    raise
                # 2.1 adds a server's tests for the same client up, also those that ended before
                del summaries["SUM"]
    elif not run.serves and len(senders) > 1 and len({stream.remote_port for stream in senders}) == 1:
        raise ParseError(f"truncated: {len(senders)} streams, but no SUM", text)
