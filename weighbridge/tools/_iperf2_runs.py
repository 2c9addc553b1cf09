"""The lines of iperf 2's output, sorted into runs and streams; formats from its `src/Locale.c`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from weighbridge.errors import ParseError
from weighbridge.tools._iperf_printed import NUMBER, Row, asks_for_a_run, check_rate, command, lines, row

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
_ERROR = re.compile(
    r"\b(?:failed|refused|unreachable|timed out|denied|error|no route to host|unable to|unrecognized|invalid|"
    r"address already in use|broken pipe|reset by peer|unknown host|name or service not known|not found|killed|"
    r"segmentation fault|terminated|abort)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\bWARNING:|^\s*\[ ID\]|final connect times|delay too large", re.IGNORECASE)
_INTERRUPTED = re.compile(r"\^C|Interrupt again to force quit")


@dataclass
class Line:
    """A row, the header it stands under, and the datagrams that came out of order in its time."""

    row: Row
    header: str
    disorder: int | None = None


@dataclass
class Stream:
    """What was printed under one id."""

    id: str
    local_port: int = 0
    remote_port: int = 0
    reverse: bool = False
    connected: bool = False
    rows: list[Line] = field(default_factory=list)
    report: Line | None = None
    sent: int | None = None

    @property
    def last(self) -> Line | None:
        """The row printed last."""
        return self.report or (self.rows[-1] if self.rows else None)


NONE = Stream("")


@dataclass
class Run:
    """One run of the program, or one of the tests a server served."""

    words: list[str] | None = None
    asked: bool = False
    test: str = ""
    client_ports: set[int] = field(default_factory=set)
    server_ports: list[range] = field(default_factory=list)
    serves: bool = False
    datagram: int | None = None
    streams: dict[str, Stream] = field(default_factory=dict)
    interrupted: bool = False

    def stream(self, id_: str) -> Stream:
        key = "SUM" if id_.startswith("SUM") else re.sub(r"\s", "", id_)
        return self.streams.setdefault(key, Stream(key))

    @property
    def has_rows(self) -> bool:
        return any(stream.rows for stream in self.streams.values())

    @property
    def served(self) -> bool:
        """Whether a server is through with all clients it had: the next connection is another test."""
        connected = [stream for stream in self.streams.values() if stream.connected]
        return self.serves and bool(connected) and all(stream.rows for stream in connected)

    def next(self) -> Run:
        """Return the following test of the same server process."""
        return Run(self.words, False, self.test, self.client_ports, self.server_ports, self.serves, self.datagram)


def runs(text: str) -> Iterator[Run]:  # noqa: PLR0912, PLR0915 - one branch for each kind of line
    run, header = Run(), ""
    reporting: set[str] = set()
    for line in lines(text):
        if (echoed := command(line)) is not None:
            yield run
            run, header, reporting = Run(words=_split(echoed), asked=asks_for_a_run(echoed)), "", set()
            continue
        if match := _CLIENT.search(line):
            # A server that is asked for the way back also becomes a client: that is still its own run.
            if run.has_rows and not run.serves:
                yield run
                run = Run()
            if not any(stream.connected for stream in run.streams.values()):
                run.serves = False  # -d and -r: a client that listens for the way back
            run.test = match["test"].lower()
            run.client_ports = run.client_ports | {int(match["port"])}
        elif match := _SERVER.search(line):
            if run.has_rows:
                yield run
                run = Run()
            run.test = match["test"].lower()
            run.server_ports = [*run.server_ports, range(int(match["low"]), int(match["high"] or match["low"]) + 1)]
            run.serves = run.serves or not run.client_ports
        elif match := _PEER.search(line):
            if run.served or run.streams.get(re.sub(r"\s", "", match["id"]), NONE).rows:
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
            reporting.add(re.sub(r"\s", "", match["id"]))
        elif match := _SENT.search(line):
            run.stream(match["id"]).sent = int(match["count"])
        elif match := _OUT_OF_ORDER.search(line):
            # 2.0 clients may print another end here: then it is not known which row is meant
            above = run.stream(match["id"]).last
            if above is not None and above.row.end.meets(float(match["end"]), float(match["end"])):
                above.disorder = int(match["count"])
        elif match := _DATAGRAM.search(line):
            run.datagram = int(match["size"])
        elif (found := row(line, text)) is not None:
            check_rate(found, text)
            stream = run.stream(found.id)
            if found.id in reporting:
                stream.report = Line(found, header)
                reporting.discard(found.id)
            else:
                stream.rows.append(Line(found, header))
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
