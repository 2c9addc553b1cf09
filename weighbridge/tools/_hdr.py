"""The text form of an HdrHistogram with three significant digits, as wrk2 prints it.

Layout and bucket arithmetic are those of wrk2's `src/hdr_histogram.c`: values in µs, 2048 sub-buckets,
so a value v >= 2048 shares its bucket with the next 2^(floor(log2 v) - 10) - 1 values. Rows print the
upper end of the bucket, `#[Max` the lower end; both in ms with three decimals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools._interval import Interval, in_order, printed

_MS = 1e-3
_HEADER = re.compile(r"Value\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)\Z")
_ROW = re.compile(r"([0-9]{1,12}\.[0-9]{3})\s+([01]\.[0-9]{6,12})\s+([0-9]{1,15})\s+([0-9]{1,15}\.[0-9]{2}|inf)\Z")
_MEAN = re.compile(r"#\[Mean\s*=\s*([0-9]{1,12}\.[0-9]{3}),\s*StdDeviation\s*=\s*([0-9]{1,12}\.[0-9]{3})\]\Z")
_MAX = re.compile(r"#\[Max\s*=\s*([0-9]{1,12}\.[0-9]{3}),\s*Total count\s*=\s*([0-9]{1,15})\]\Z")
_BUCKETS = re.compile(r"#\[Buckets\s*=\s*[0-9]{1,6},\s*SubBuckets\s*=\s*[0-9]{1,6}\]\Z")
_TITLE = "Detailed Percentile spectrum:"
_ABRIDGED = re.compile(r"[.…。]{1,}\Z")


def bucket(seconds: float) -> float:
    """Return how much the values of one bucket can differ, in seconds."""
    microseconds = seconds * 1e6
    return 1e-6 * (2.0 ** (math.floor(math.log2(microseconds)) - 10) - 1) if microseconds >= 2048 else 0.0


@dataclass(slots=True)
class Spectrum:
    """The rows and footer that were printed after one table of percentiles."""

    titled: bool = False
    abridged: bool = False
    rows: list[tuple[Interval, float, int]] = field(default_factory=list)
    mean: Interval | None = None
    stdev: Interval | None = None
    maximum: Interval | None = None
    total: int | None = None
    closed: bool = False

    def take(self, line: str) -> bool:
        """Read one line; False when it is none of a spectrum's."""
        if match := _ROW.match(line):
            self.rows.append((printed(match[1], _MS), float(match[2]), int(match[3])))
        elif match := _MEAN.match(line):
            self.mean, self.stdev = printed(match[1], _MS), printed(match[2], _MS)
        elif match := _MAX.match(line):
            self.maximum, self.total = printed(match[1], _MS), int(match[2])
        elif _BUCKETS.match(line):
            self.closed = True
        elif line == _TITLE:
            self.titled = True
        elif _ABRIDGED.match(line):
            self.abridged = True
        elif not _HEADER.match(line):
            return False
        return True

    def check(self, percentiles: Sequence[tuple[float, Interval]], output: str) -> None:
        """Compare rows, footer and the short table of `percentiles` above them with one another.

        Raises ParseError when a part is missing without a mark, ContradictionError when parts disagree.
        """
        if self.maximum is None or self.mean is None or self.total is None or not self.closed:
            raise ParseError("truncated: the latency spectrum lacks its closing #[…] lines", output)
        top = Interval(self.maximum.low, self.maximum.high + bucket(self.maximum.high))
        in_order("mean latency beside #[Max", self.mean, top, "s", output)
        for percent, value in percentiles:
            in_order(f"{percent:g} % latency beside #[Max", value, top, "s", output)
            if percent == 100 and not value.meets(top):
                within, largest = value.high, self.maximum.low
                raise ContradictionError(f"all latencies within {within:.7g} s, but #[Max = {largest:.7g} s", output)
        for (low, share, count), (high, next_share, next_count) in zip(self.rows, self.rows[1:], strict=False):
            in_order("latency spectrum falls", low, high, "s", output)
            if share > next_share or count > next_count:
                reason = f"latency spectrum falls from {share:g} ({count}) to {next_share:g} ({next_count})"
                raise ContradictionError(reason, output)
        if self.titled and not self.abridged:
            self._check_end(top, output)

    def _check_end(self, top: Interval, output: str) -> None:
        if not self.rows or self.rows[-1][1] != 1.0:
            raise ParseError("truncated: the latency spectrum does not reach 1.000000", output)
        last, _, count = self.rows[-1]
        if count != self.total:
            raise ContradictionError(f"latency spectrum ends at {count} values, but Total count = {self.total}", output)
        if not last.meets(top):
            raise ContradictionError(f"latency spectrum ends at {last.high:.7g} s, but #[Max = {top.low:.7g} s", output)
