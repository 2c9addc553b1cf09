"""Reading what iperf3 prints for people, 3.0 to 3.19; formats from its `src/iperf_locale.c`.

A client's run is whole when every stream has its summary rows; the summary rows name their side ("sender",
"receiver"), except for UDP up to 3.1, where "Sent N datagrams" follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf_printed import (
    NUMBER,
    PERCENT,
    Row,
    asks_for_a_run,
    check_loss,
    check_rate,
    check_sum,
    command,
    lines,
    row,
)

_PEER = re.compile(r"\[\s*(?P<id>\d{1,6})\] local \S+ port \d{1,5} connected (?:to|with) \S+ port \d{1,5}")
_TAIL = re.compile(r"(?P<figures>.*?)(?P<side>sender|receiver)\s*\Z")
_JITTER = re.compile(
    rf"\A\s*(?P<jitter>{NUMBER}) ms\s+(?P<lost>\d{{1,18}})/(?P<total>\d{{1,18}}) \((?P<percent>{PERCENT})%\)\s*\Z"
)
_DATAGRAMS = re.compile(r"\A\s*(?P<total>\d{1,18})\s*\Z")
_SENT = re.compile(r"\[\s*(?P<id>\d{1,6}|SUM)\] Sent (?P<count>\d{1,18}) datagrams")
_OUT_OF_ORDER = re.compile(
    rf"\[\s*(?P<id>\d{{1,6}}|SUM)\](?:\[[TR]X-[CS]\])?\s*{NUMBER}\s*-\s*{NUMBER}\s*sec\s*"
    r"(?P<count>\d{1,18}) datagrams received out-of-order"
)
_CPU = re.compile(
    rf"CPU Utilization: local/(?P<side>sender|receiver) (?P<local>{NUMBER})% \({NUMBER}%u/{NUMBER}%s\),"
    rf" remote/(?:sender|receiver) (?P<remote>{NUMBER})% \({NUMBER}%u/{NUMBER}%s\)"
)
_PROTOCOL = re.compile(r"Starting Test: protocol: (?P<protocol>TCP|UDP|SCTP)\b")
_ERROR = re.compile(
    r"\biperf3?: (?:error|interrupt|parameter error|the (?:client|server)|unable|unrecognized|invalid|option)|"
    r"\b(?:unable to|connection refused|connection reset|no route to host|connection timed out|segmentation fault|"
    r"command not found|killed|server is busy|operation not permitted)\b|"
    r"\berror - ",
    re.IGNORECASE,
)
_STOPPED_SERVER = re.compile(r"interrupt - the server has terminated")
_NOT_AVAILABLE = re.compile(r"\[\s*(?P<id>\d{1,6}|SUM)\] \((?P<side>sender|receiver) statistics not available\)")


@dataclass(frozen=True, slots=True)
class _Summary:
    row: Row
    side: str
    figures: str


@dataclass
class _Run:
    """One client run, or one test a server served."""

    serves: bool = False
    connects: bool = False
    protocol: str = ""
    header: str = ""
    streams: list[str] = field(default_factory=list)
    summaries: list[_Summary] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    disorder: dict[str, int] = field(default_factory=dict)
    unavailable: set[tuple[str, str]] = field(default_factory=set)
    cpu: dict[str, tuple[float, float]] = field(default_factory=dict)
    last: dict[str, tuple[Row, bool]] = field(default_factory=dict)
    separated: bool = False
    done: bool = False

    @property
    def begun(self) -> bool:
        return bool(self.streams or self.last or self.summaries)


def parse(text: str) -> tuple[Result, ...]:
    """Every summary row; see `weighbridge.tools.iperf3.parse`."""
    runs = [run for run in _runs(text) if run is not None]
    if not any(run.begun for run in runs):
        raise ParseError("truncated or no output of iperf3: it has no row of figures", text)
    found = [list(_results(run, text)) for run in runs]
    if len(found) == 1:
        return tuple(found[0])
    return tuple(
        Result({**result.labels, "run": index}, result.metrics)
        for index, results in enumerate(found)
        for result in results
    )


def _runs(text: str) -> Iterator[_Run]:  # noqa: PLR0912, PLR0915 - one branch for each kind of line
    run: _Run | None = None
    relayed = False
    for line in lines(text):
        if (echoed := command(line)) is not None:
            if run is not None:
                yield run
            run, relayed = (_Run() if asks_for_a_run(echoed) else None), False
            if run is not None and "--sctp" in echoed:
                run.protocol = "sctp"
        elif re.search(r"\biperf Done\.", line):
            if run is not None:
                run.done = True
            relayed = False
        elif relayed:
            continue  # --get-server-output: the other side's account of the rows above
        elif re.search(r"\bConnecting to host \S+ port \d", line) or re.search(r"\bAccepted connection from \S+", line):
            if run is not None and run.begun:
                yield run
                run = None
            run = run or _Run()
            run.serves = "Accepted connection" in line
            run.connects = not run.serves
        elif re.search(r"\bServer output:", line):
            relayed = True
        elif _STOPPED_SERVER.search(line) and (run is None or run.summaries or not run.begun):
            continue
        elif (match := _PEER.search(line)) is not None:
            run = run or _Run()
            run.streams.append(match["id"])
        elif (match := _PROTOCOL.search(line)) is not None:
            run = run or _Run()
            run.protocol = match["protocol"].lower()
        elif re.search(r"\[ ID\]", line):
            run = run or _Run()
            run.separated = bool(run.last)
            run.header = line
        elif (match := _SENT.search(line)) is not None:
            run = run or _Run()
            run.sent[match["id"]] = int(match["count"])
            _roleless(run, match["id"], text)
        elif (match := _OUT_OF_ORDER.search(line)) is not None:
            run = run or _Run()
            run.disorder[match["id"]] = int(match["count"])
        elif (match := _CPU.search(line)) is not None:
            run = run or _Run()
            run.cpu.setdefault(match["side"], (float(match["local"]) / 100, float(match["remote"]) / 100))
        elif (match := _NOT_AVAILABLE.search(line)) is not None:
            run = run or _Run()
            run.unavailable.add((match["id"], match["side"]))
        elif (found := row(line, text)) is not None:
            run = run or _Run()
            tail = _TAIL.match(found.rest)
            if tail is not None:
                run.summaries.append(_Summary(found, tail["side"], tail["figures"]))
            else:
                run.last[found.id] = (found, run.separated)
        elif _ERROR.search(line) and "WARNING" not in line:
            raise ParseError(f"iperf3 reports: {line.strip()}", text)
    if relayed:
        raise ParseError("truncated in the server's output", text)
    if run is not None:
        yield run


def _roleless(run: _Run, id_: str, text: str) -> None:
    """Up to 3.1 a UDP summary names no side; it is the row above "Sent N datagrams"."""
    found, _ = run.last.get(id_, (None, False))
    if found is None or not found.whole:
        raise ParseError(f"datagrams of stream {id_} without their summary", text)
    if all(summary.row.id != id_ for summary in run.summaries):
        run.summaries.append(_Summary(found, "", found.rest))


def _results(run: _Run, text: str) -> Iterator[Result]:
    if not run.summaries:
        raise ParseError("truncated: a run ends before its summary", text)
    total, separated = run.last.get("SUM", (None, False))
    if total is not None and separated and total.whole and all(not summary.side for summary in run.summaries):
        run.summaries += [_Summary(total, "", total.rest)] if "SUM" not in run.sent else []
    summaries = [summary for summary in run.summaries if not _unknown(run, summary)]
    if not summaries:
        raise ParseError(f"nothing was transferred: {run.summaries[0].row.line!r}", text)
    for summary in summaries:
        if summary.row.size.value == 0 or summary.row.rate.value == 0:
            raise ParseError(f"nothing was transferred: {summary.row.line!r}", text)
        if not summary.row.whole:
            raise ParseError(f"unreadable row: {summary.row.line!r}", text)
        check_rate(summary.row, text)
    _check_whole(run, summaries, text)
    _check_sides(summaries, text)
    totals = {summary.row.role for summary in summaries if summary.row.id == "SUM"}
    for summary in summaries:
        figures = _figures(run, summary, text)
        if run.cpu and (summary.row.id == "SUM" or not totals):
            figures |= _cores(run, summary.row.role)
        labels: dict[str, Label] = {"test": _test(run), "stream": summary.row.id}
        if summary.side:
            labels["direction"] = summary.side
        if summary.row.role:
            labels["role"] = summary.row.role
        yield Result(labels, figures)


def _test(run: _Run) -> str:
    if run.protocol:
        return run.protocol
    return "udp" if "Datagrams" in run.header or "Jitter" in run.header else "tcp"


def _unknown(run: _Run, summary: _Summary) -> bool:
    """Tell a side of which the program knew nothing: it prints zeros, as for the sender at a server up to 3.6."""
    zero = summary.row.size.value == 0 and summary.row.rate.value == 0
    twin = any(
        other.row.id == summary.row.id
        and other.row.role == summary.row.role
        and other.side != summary.side
        and other.row.size.value > 0
        for other in run.summaries
    )
    return zero and twin and (run.serves or (summary.side == "sender" and not run.connects))


def _check_whole(run: _Run, summaries: list[_Summary], text: str) -> None:
    """Every stream has to have its rows, and several streams their SUM."""
    seen = [(summary.row.id, summary.row.role, summary.side) for summary in summaries]
    if len(seen) != len(set(seen)):
        raise ParseError("the same row is printed twice", text)
    ids = {summary.row.id for summary in run.summaries}
    if missing := [id_ for id_ in run.streams if id_ not in ids]:
        raise ParseError(f"truncated: stream {missing[0]} has no summary", text)
    roles = {role for _, role, _ in seen}
    for role in roles:
        singles = [id_ for id_ in ids if id_ != "SUM" and any((id_, role, side) in seen for side in _SIDES)]
        if len(singles) > 1 and not any(("SUM", role, side) in seen for side in _SIDES):
            raise ParseError(f"truncated: {len(singles)} streams, but no SUM", text)
    if run.serves or run.done:
        return
    for summary in run.summaries:
        twin = {"sender": "receiver", "receiver": "sender"}.get(summary.side)
        printed = any(s.row.id == summary.row.id and s.side == twin for s in run.summaries)
        if twin and not printed and (summary.row.id, twin) not in run.unavailable:
            raise ParseError(f"truncated: stream {summary.row.id} has no {twin} row", text)


_SIDES = ("sender", "receiver", "")


def _check_sides(summaries: list[_Summary], text: str) -> None:
    """Refuse a SUM that is not its streams', and more received than sent (10 % and 16 MiB aside)."""
    for total in (summary for summary in summaries if summary.row.id == "SUM"):
        parts = [
            s.row for s in summaries if s.row.id != "SUM" and s.side == total.side and s.row.role == total.row.role
        ]
        if len(parts) > 1:
            check_sum(total.row, parts, text)
    for sent in (summary for summary in summaries if summary.side == "sender"):
        for got in summaries:
            pair = got.side == "receiver" and got.row.id == sent.row.id and got.row.role == sent.row.role
            if pair and got.row.size.low > sent.row.size.high * 1.1 + 2**24:
                raise ContradictionError(
                    f"{got.row.size.value:.6g} byte received, but {sent.row.size.value:.6g} byte sent:"
                    f" {got.row.line!r}",
                    text,
                )


def _figures(run: _Run, summary: _Summary, text: str) -> dict[str, float]:
    found, side = summary.row, summary.side
    figures = {
        **found.figures,
        "bytes_received" if side == "receiver" else "bytes_sent": found.size.value,
    }
    rest = summary.figures
    if match := _JITTER.match(rest):
        lost, total = int(match["lost"]), int(match["total"])
        if side == "sender":
            return {**figures, "packets_sent": float(total)} if total else figures
        check_loss(lost, total, match["percent"], found.line, text)
        figures |= {
            "jitter": float(match["jitter"]) / 1e3,
            "packets_lost": float(lost),
            "packet_loss": lost / total,
            "packets_sent": float(run.sent.get(found.id, total) if not side else total),
            "packets_received": float(total - lost),
        }
        # the line names SUM also where there is but one stream
        name = "SUM" if len(run.streams) == 1 and found.id not in run.disorder else found.id
        if name in run.disorder:
            figures["packets_out_of_order"] = float(run.disorder[name])
    elif "Jitter" in run.header:
        raise ParseError(f"truncated: jitter and loss are missing in {found.line!r}", text)
    elif match := _DATAGRAMS.match(rest):
        figures["packets_sent" if "Datagrams" in run.header else "retransmits"] = float(match["total"])
        if side == "receiver":
            raise ParseError(f"unreadable row: {found.line!r}", text)
    elif rest.strip():
        raise ParseError(f"unreadable row: {found.line!r}", text)
    return figures


def _cores(run: _Run, role: str) -> dict[str, float]:
    """Return both CPU loads: "local/sender" belongs to what the client sends, "local/receiver" to what it gets."""
    wanted = {"TX-C": "sender", "RX-C": "receiver"}.get(role)
    local, remote = run.cpu.get(wanted or "", next(iter(run.cpu.values())))
    return {"cpu_cores_local": local, "cpu_cores_remote": remote}
