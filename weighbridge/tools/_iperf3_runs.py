"""The lines of iperf3's output for people, sorted into runs; formats from its `src/iperf_locale.c`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from weighbridge.errors import ParseError
from weighbridge.tools._iperf_printed import NUMBER, Row, asks_for_a_run, command, lines, row

_PEER = re.compile(r"\[\s*(?P<id>\d{1,6})\] local \S+ port \d{1,5} connected (?:to|with) \S+ port \d{1,5}")
_TAIL = re.compile(r"(?P<figures>.*?)(?P<side>sender|receiver)\s*\Z")
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
class Summary:
    row: Row
    side: str
    figures: str


@dataclass
class Run:
    """One client run, or one test a server served."""

    serves: bool = False
    protocol: str = ""
    header: str = ""
    streams: list[str] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
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


def runs(text: str) -> Iterator[Run]:  # noqa: PLR0912, PLR0915 - one branch for each kind of line
    run: Run | None = None
    relayed = False
    for line in lines(text):
        if (echoed := command(line)) is not None:
            if run is not None:
                yield run
            run, relayed = (Run() if asks_for_a_run(echoed) else None), False
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
            run = run or Run()
            run.serves = "Accepted connection" in line
        elif re.search(r"\bServer output:", line):
            relayed = True
        elif _STOPPED_SERVER.search(line) and (run is None or run.summaries or not run.begun):
            continue
        elif (match := _PEER.search(line)) is not None:
            run = run or Run()
            run.streams.append(match["id"])
        elif (match := _PROTOCOL.search(line)) is not None:
            run = run or Run()
            run.protocol = match["protocol"].lower()
        elif re.search(r"\[ ID\]", line):
            run = run or Run()
            run.separated = bool(run.last)
            run.header = line
        elif (match := _SENT.search(line)) is not None:
            run = run or Run()
            run.sent[match["id"]] = int(match["count"])
            _roleless(run, match["id"], text)
        elif (match := _OUT_OF_ORDER.search(line)) is not None:
            run = run or Run()
            run.disorder[match["id"]] = int(match["count"])
        elif (match := _CPU.search(line)) is not None:
            run = run or Run()
            run.cpu.setdefault(match["side"], (float(match["local"]) / 100, float(match["remote"]) / 100))
        elif (match := _NOT_AVAILABLE.search(line)) is not None:
            run = run or Run()
            run.unavailable.add((match["id"], match["side"]))
        elif (found := row(line, text)) is not None:
            run = run or Run()
            tail = _TAIL.match(found.rest)
            if tail is not None:
                run.summaries.append(Summary(found, tail["side"], tail["figures"]))
            else:
                run.last[found.id] = (found, run.separated)
        elif _ERROR.search(line) and "WARNING" not in line:
            raise ParseError(f"iperf3 reports: {line.strip()}", text)
    if relayed:
        raise ParseError("truncated in the server's output", text)
    if run is not None:
        yield run


def _roleless(run: Run, id_: str, text: str) -> None:
    """Up to 3.1 a UDP summary names no side; it is the row above "Sent N datagrams"."""
    found, _ = run.last.get(id_, (None, False))
    if found is None or not found.whole:
        raise ParseError(f"datagrams of stream {id_} without their summary", text)
    if all(summary.row.id != id_ for summary in run.summaries):
        run.summaries.append(Summary(found, "", found.rest))
