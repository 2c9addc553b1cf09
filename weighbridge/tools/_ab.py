"""One report of ApacheBench as typed lines: from `Server Software` to the longest request.

Inside a report every line must be one that ab prints, because a garbled "Non-2xx responses" would
else count as zero. The patterns cover `support/ab.c` of 1.3d, 2.0.40-dev and 2.3 (httpd 2.2, 2.4 and
trunk), with white space as printed or collapsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from weighbridge.errors import ParseError

PERCENTS = (50, 66, 75, 80, 90, 95, 98, 99, 100)
"""`percs[]`, the same in every version of ab."""

_INT = r"([0-9]{1,18})"
_DECIMAL = r"([0-9]{1,15}\.[0-9]{2,3})"

_FIELDS = {
    name: re.compile(pattern + r"\Z")
    for name, pattern in {
        "length": rf"Document Length:\s*(?:{_INT} bytes|Variable)",
        "concurrency": rf"Concurrency Level:\s*{_INT}",
        "seconds": r"Time taken for tests:\s*([0-9]{1,9}\.[0-9]{3,6}) seconds",
        "complete": rf"Complete requests:\s*{_INT}",
        "failed": rf"Failed requests:\s*{_INT}",
        "causes": rf"\(Connect: {_INT}, (?:Receive: {_INT}, )?Length: {_INT}, Exceptions: {_INT}\)",
        "write": rf"(?:Write errors|Broken pipe errors):\s*{_INT}",
        "status": rf"Non-2xx responses:\s*{_INT}",
        "keep_alive": rf"Keep-Alive requests:\s*{_INT}",
        "received": rf"Total transferred:\s*{_INT} bytes",
        "sent": rf"Total (?:body sent|POSTed|PUT):\s*{_INT}",
        "body": rf"HTML transferred:\s*{_INT} bytes",
        "rate": rf"Requests per second:\s*{_DECIMAL} \[#/sec\] \(mean\)",
        "time": rf"Time per request:\s*{_DECIMAL} \[ms\] \(mean\)",
        "time_across": rf"Time per request:\s*{_DECIMAL} \[ms\] \(mean, across all concurrent requests\)",
        "transfer": rf"Transfer rate:\s*{_DECIMAL} (?:\[Kbytes/sec\]|kb/s) received",
        "transfer_sent": rf"{_DECIMAL} kb/s sent",
        "transfer_total": rf"{_DECIMAL} kb/s total",
        "times": r"Connn?ection Times \(ms\)",
        "columns": r"min\s+(?:mean\[\+/-sd\]\s+median|avg)\s+max",
        "served": r"Percentage of the requests served within a certain time \(ms\)",
    }.items()
}
_DEVIATION_AND_MEDIAN = rf"(?:([0-9]{{1,12}}\.[0-9])\s+{_INT}\s+)?"
_ROW = re.compile(rf"(Connect|Processing|Waiting|Total):\s*{_INT}\s+{_INT}\s+{_DEVIATION_AND_MEDIAN}{_INT}\Z")
_SERVED = re.compile(rf"{_INT}%\s+{_INT}(?:\s+\((?:longest|last) request\))?\Z")
_LAST_SERVED = re.compile(rf"100%\s+{_INT}\s+\((?:longest|last) request\)\Z")
_PLAIN = re.compile(
    r"(?:Server (?:Software|Hostname|Port|Temp Key)|SSL/TLS Protocol|TLS Server Name|Document Path):"
    r"|(?:Number of (?:workers|requests)|Concurrency achieved|Rampup delay|Keep-Alive aborts):\s*[0-9]"
    r"|(?:ERROR|WARNING): The median and mean for the [a-z ]+ are "
    r"(?:more than twice the standard|not within a normal deviation)\Z"
    r"|deviation apart\. These results are NOT reliable\.\Z|These results are probably not that reliable\.\Z"
    r"|\Z"
)
_BANNER = re.compile(r"This is ApacheBench, Version ([0-9.]+\S*)")
_FIRST = ("Server Software:", "Document Path:", "Concurrency Level:")


@dataclass(slots=True)
class Report:
    """The matched lines of one report, by name, with its two tables."""

    version: str
    """As in the banner ("2.0.40-dev", "2.3"), empty when the text has none."""
    fields: dict[str, re.Match[str]] = field(default_factory=dict)
    rows: dict[str, re.Match[str]] = field(default_factory=dict)
    served: dict[int, int] = field(default_factory=dict)
    ended: bool = False
    whole_last_line: bool = False

    def take(self, line: str) -> bool:
        """Read one line; False when it is none of ab's, or printed twice."""
        for name, pattern in _FIELDS.items():
            if match := pattern.match(line):
                return self.fields.setdefault(name, match) is match
        if (match := _ROW.match(line)) and "columns" in self.fields:
            return self.rows.setdefault(match[1], match) is match
        if (match := _SERVED.match(line)) and "served" in self.fields:
            percent = int(match[1])
            self.ended = _LAST_SERVED.match(line) is not None
            fresh = percent not in self.served
            self.served[percent] = int(match[2])
            return fresh and self.ended == (percent == PERCENTS[-1])
        return _PLAIN.match(line) is not None

    @property
    def may_end(self) -> bool:
        """Whether the connection times may be the end: a single request has no percentages, nor has -d."""
        return "Total" in self.rows and "served" not in self.fields

    def number(self, name: str) -> int:
        """Return a whole number that may not be absent; ParseError if it is."""
        return int(self.text(name))

    def text(self, name: str) -> str:
        """Return a figure as printed; ParseError when its line is absent."""
        if name not in self.fields:
            raise ParseError(f"truncated: the ab report has no {name.replace('_', ' ')!r} line")
        return self.fields[name][1]

    def optional(self, name: str) -> int | None:
        """Return a whole number, None when its line is absent or names none."""
        match = self.fields.get(name)
        return int(match[1]) if match is not None and match[1] is not None else None


def reports(text: str) -> Iterator[Report]:
    """Yield each report in the text, in order.

    Raises ParseError at a line that cannot be ab's and at a benchmark without a whole report.
    """
    for version, lines in _runs([line.strip() for line in text.split("\n")]):
        first = next((index for index, line in enumerate(lines) if line.startswith(_FIRST)), None)
        if first is not None:
            yield _read(Report(version), lines[first:], text)
        elif version:
            raise ParseError("truncated: the ab run printed no report", text)


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Cut the text where a banner, or without banners a further report, starts; versions as in the banner."""
    version, run, seen = "", list[str](), set[str]()
    for line in lines:
        banner = _BANNER.match(line[:200])
        opening = next((start for start in _FIRST if line.startswith(start)), "")
        if banner or (opening and opening in seen):
            yield version, [*run, ""]
            version, run, seen = banner[1] if banner else "", [], set()
        seen.add(opening)
        run.append(line)
    yield version, run


def _read(report: Report, lines: Sequence[str], text: str) -> Report:
    for index, line in enumerate(lines):
        if report.may_end and not _continues(line):
            return report
        if not report.take(line):
            raise ParseError(f"truncated or garbled: {line[:200]!r} is no line of an ab report", text)
        report.whole_last_line |= report.may_end and index < len(lines) - 1
        if report.ended:
            return report
    if report.optional("complete") == 0:
        raise ParseError("no request completed: Complete requests: 0", text)
    if not report.may_end:
        raise ParseError("truncated: the ab report stops before its longest request", text)
    return report


def _continues(line: str) -> bool:
    """Whether a line below the Total row still belongs to the report."""
    return _PLAIN.match(line) is not None or line.startswith("Percent")


def rows_of(report: Report, name: str) -> tuple[str, str, str | None, str | None, str]:
    """Return a row of the connection times: min, mean, sd, median, max; sd and median are None under -S."""
    if name not in report.rows:
        raise ParseError(f"truncated: the ab report has no {name!r} row")
    match = report.rows[name]
    return match[2], match[3], match.group(4), match.group(5), match[6]
