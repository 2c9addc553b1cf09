"""The columns behind the rate of an iperf 2 row: datagrams, writes, latency; formats from its `src/Locale.c`."""

from __future__ import annotations

import re

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools._iperf2_runs import Line, Run, Stream
from weighbridge.tools._iperf_printed import NUMBER, PERCENT, Row, check_loss

_JITTER = re.compile(
    rf"\A\s*(?P<jitter>{NUMBER}) ms\s*(?P<lost>\d{{1,18}})\s*/\s*(?P<total>\d{{1,18}})\s*\((?P<percent>{PERCENT})%\)"
    r"(?P<tail>.*)\Z"
)
_WRITE = re.compile(rf"\A\s*(?:{NUMBER} ms\s+)?" r"(?P<writes>\d{1,18})/(?P<errors>\d{1,18})(?=\s)(?P<tail>.*)\Z")
_READS = re.compile(r"\A\s*\d{1,18}=\d")
_RETRY = re.compile(r"\A\s*(?P<retries>\d{1,18})(?=\s)\s*(?P<state>\S*)")
_CWND = re.compile(r"\A(?P<cwnd>\d{1,12})K(?:\(\d{1,9}\))?/\d")
_IN_FLIGHT = re.compile(r"\A\d{1,12}K\(\d{1,9}\)/")
_LATENCY = re.compile(
    rf"\s(?P<mean>{NUMBER})/\s*(?P<min>{NUMBER})/\s*(?P<max>{NUMBER})/\s*(?P<stdev>{NUMBER}) ms\b",
)
_PACKET_RATE = re.compile(r"\s(?P<rate>\d{1,12}(?:\.\d{1,6})?) pps\b")


def figures_of(run: Run, stream: Stream, printed: Line, direction: str, text: str) -> dict[str, float]:
    """Return the figures of one row, with what its columns and the lines about its stream add."""
    found, header = printed.row, printed.header
    if found.size.value == 0 or found.rate.value == 0:
        raise ParseError(f"nothing was transferred: {found.line!r}", text)
    figures = found.figures
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
        if printed.disorder is not None:
            figures["packets_out_of_order"] = float(printed.disorder)
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
    """Return the columns of a sender's enhanced row (`-e`): Write/Err, Rtry, Cwnd."""
    match = _WRITE.match(found.rest)
    if match is None:
        if not found.rest.strip() and found.id == "SUM":
            return {}
        raise ParseError(f"truncated: the columns of {header.strip()!r} are missing in {found.line!r}", text)
    figures = {"errors_write": float(match["errors"])}
    retry = _RETRY.match(match["tail"]) if "Rtry" in header else None
    if retry is not None:
        figures["retransmits"] = float(retry["retries"])
        state = _IN_FLIGHT.sub("", retry["state"]) if "InF" in header else retry["state"]
        if (window := _CWND.match(state)) is not None:
            figures["congestion_window"] = float(window["cwnd"]) * 1024
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
