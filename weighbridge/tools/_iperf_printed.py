"""What iperf 2 and iperf3 print alike: rows, units, rounding, and the arithmetic a row has to obey.

Both programs format with the same `unit_snprintf` (iperf 2 `compat/stdio.c`, iperf3 `src/units.c`): **bytes count in
powers of 1024, bits in powers of 1000**, in every mode of `-f`. So "MBytes" is 2^20 byte, "MBytes/sec" is 2^20 byte/s
and "Mbits/sec" is 10^6 bit/s. The last printed digit is rounded, so a figure stands for an interval of half a unit of
that digit to both sides; two figures contradict each other when no values inside their intervals agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weighbridge.errors import ContradictionError, ParseError

NUMBER = r"\d{1,18}(?:\.\d{1,9})?"
PERCENT = r"\d{1,3}(?:\.\d{1,9})?(?:e[+-]\d\d)?"
LONGEST_LINE = 4096
LONGEST_TEXT = 16 * 2**20

_POWER = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}

# Spaces may have been collapsed or lost where a terminal's output went through a web page.
ROW = re.compile(
    r"\[\s*(?P<id>\*?\s*\d{1,6}|SUM(?:-\d{1,6})?|FD\s*\d{1,6})\](?:\[(?P<role>[TR]X-[CS])\])?\s*"
    rf"(?P<start>{NUMBER})\s*-\s*(?P<end>{NUMBER})\s*sec\s*"
    rf"(?P<bytes>{NUMBER})\s*(?P<byte_prefix>[KMGTPE]?)Bytes\s*"
    rf"(?P<rate>{NUMBER})\s*(?P<rate_prefix>[kKMGTPE]?)(?P<rate_unit>bits|Bytes)/sec(?=[\s\d]|\Z)(?P<rest>.*)\Z"
)
# Anything that carries a rate after a bracket is meant to be such a row, however damaged.
_ROW_LIKE = re.compile(r"\[[^\]]{1,12}\].*(?:bits|[Bb]ytes)/s")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_COMMAND = re.compile(r"(?:^|[\s/#$%>])(?P<command>iperf[\w.-]*\s+(?:\S+\s+)*?-\S.*)$")


@dataclass(frozen=True, slots=True)
class Printed:
    """A rounded figure: its value in base units and half a unit of its last printed digit."""

    value: float
    half: float

    @property
    def low(self) -> float:
        """The smallest value that would have been printed so."""
        return max(0.0, self.value - self.half)

    @property
    def high(self) -> float:
        """The largest value that would have been printed so."""
        return self.value + self.half

    def meets(self, low: float, high: float) -> bool:
        """Whether this figure and the interval `low`…`high` have a value in common."""
        slack = 1e-9 * max(abs(high), abs(self.value)) if math.isfinite(high) else 0.0
        return self.low <= high + slack and low - slack <= self.high


def printed(text: str, scale: float = 1.0) -> Printed:
    """Read a decimal number whose last digit was rounded; `scale` brings it to base units."""
    decimals = len(text.partition(".")[2])
    return Printed(float(text) * scale, 0.5 * 10.0**-decimals * scale)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of figures: `start` and `end` in seconds, `size` in bytes, `rate` in bit/s."""

    id: str
    role: str
    start: Printed
    end: Printed
    size: Printed
    rate: Printed
    rest: str
    line: str

    @property
    def duration(self) -> Printed:
        """The time the row covers."""
        return Printed(
            self.end.value - self.start.value, self.end.half + (self.start.half if self.start.value else 0.0)
        )

    @property
    def figures(self) -> dict[str, float]:
        """The rate and the time; no time where a run was so short that it rounds to nothing."""
        passed = {"duration": self.duration.value} if self.duration.value > 0 else {}
        return {"throughput": self.rate.value, **passed}

    @property
    def whole(self) -> bool:
        """Whether the row begins with the test, as a summary does."""
        return self.start.value == 0.0


def lines(text: str) -> Iterator[str]:
    """Return the lines of an output, each ended by a space when the tool really ended it.

    A byte may be missing from the end of a line that has no line break; patterns that end in a number ask for the
    space after it, so that a cut "12" is never read as "1".
    """
    if len(text) > LONGEST_TEXT:
        raise ParseError(f"{len(text)} characters are no output of iperf", text[:LONGEST_LINE])
    *ended, last = text.split("\n")
    for raw in ended:
        yield _bounded(raw, text) + " "
    if last:
        yield _bounded(last, text)


def _bounded(line: str, text: str) -> str:
    if len(line) > LONGEST_LINE:
        raise ParseError(f"a line of {len(line)} characters is no output of iperf", text)
    return _ESCAPE.sub("", line).rstrip("\r")


def row(line: str, text: str) -> Row | None:
    """Return the row of figures in `line`, None where there is none.

    Raises ParseError when the line is meant to be one but cannot be read (cut, localised, negative, NaN).
    """
    match = ROW.search(line)
    if match is None:
        if _ROW_LIKE.search(line):
            raise ParseError(f"unreadable row: {line.strip()!r}", text)
        return None
    if line[: match.start()].rstrip().endswith("]"):
        raise ParseError(f"unreadable row: {line.strip()!r}", text)
    base = 1000.0 if match["rate_unit"] == "bits" else 1024.0
    factor = 1.0 if match["rate_unit"] == "bits" else 8.0
    return Row(
        id="SUM" if match["id"].startswith("SUM") else re.sub(r"\s", "", match["id"]),
        role=match["role"] or "",
        start=printed(match["start"]),
        end=printed(match["end"]),
        size=printed(match["bytes"], 1024.0 ** _POWER[match["byte_prefix"]]),
        rate=printed(match["rate"], factor * base ** _POWER[match["rate_prefix"]]),
        rest=match["rest"],
        line=line.strip(),
    )


def check_rate(row: Row, text: str) -> None:
    """Refuse a row whose bytes, time and rate exclude each other: 8 × bytes ÷ duration = rate."""
    duration = row.duration
    if duration.value < 0:
        raise ParseError(f"unreadable row: {row.line!r}", text)
    low = 8 * row.size.low / duration.high
    high = 8 * row.size.high / duration.low if duration.low > 0 else math.inf
    if not row.rate.meets(low, high):
        computed = 8 * row.size.value / (duration.value or duration.high)
        raise ContradictionError(
            f"{row.line!r}: {row.size.value:.6g} byte × 8 ÷ {duration.value:g} s = {computed:.4g} bit/s"
            f" ({low:.4g} to {high:.4g} with rounding), but {row.rate.value:.4g} bit/s is printed",
            text,
        )


def check_sum(total: Row, parts: Iterable[Row], text: str) -> None:
    """Refuse a SUM row whose bytes are not those of its streams."""
    parts = list(parts)
    low, high = sum(part.size.low for part in parts), sum(part.size.high for part in parts)
    if not total.size.meets(low, high):
        raise ContradictionError(
            f"{total.line!r}: its {len(parts)} streams add up to {sum(part.size.value for part in parts):.6g} byte"
            f" ({low:.6g} to {high:.6g} with rounding), but {total.size.value:.6g} byte is printed",
            text,
        )


def check_loss(lost: int, total: int, percent: str, line: str, text: str) -> None:
    """Refuse datagram counts that do not give the percentage printed beside them (`%.2g`).

    Raises ParseError when there was no datagram, or none arrived.
    """
    if total == 0:
        raise ParseError(f"no datagram arrived: {line.strip()!r}", text)
    value = float(percent)
    digits = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 0.0
    decimals = len(percent.partition("e")[0].partition(".")[2])
    half = 0.5 * max(digits, 10.0**-decimals if decimals else 0.0)
    computed = 100 * lost / total
    if lost > total or not Printed(value, half).meets(computed, computed):
        raise ContradictionError(
            f"{line.strip()!r}: {lost} ÷ {total} = {computed:.4g} %, but {percent} % is printed", text
        )
    if lost == total:
        raise ParseError(f"100 % loss: {line.strip()!r}", text)


def command(line: str) -> str | None:
    """Return the command line echoed by a shell in `line`, from the program's name on; None if there is none."""
    if len(line) > 1000 or "[" in line.partition("iperf")[0].rpartition("]")[2]:
        return None
    match = _COMMAND.search(line)
    return match["command"].strip() if match else None


def asks_for_a_run(echoed: str) -> bool:
    """Whether an echoed command is a client's, so that its output has to follow; a server may be left alone."""
    return re.search(r"\s(?:-[a-zA-Z]*c|--client)(?:\s|=|\Z)", echoed) is not None


def option(words: list[str], *names: str) -> str | None:
    """Return the value of a one-letter option in an echoed command, written `-t 10` or `-t10`; None if it is absent."""
    for index, word in enumerate(words):
        for name in names:
            if word == name:
                return words[index + 1] if index + 1 < len(words) else ""
            if word.startswith(name) and not word.startswith("--") and len(name) == 2:
                return word[2:]
            if name.startswith("--") and word.startswith(name + "="):
                return word[len(name) + 1 :]
    return None


def seconds(value: str | None) -> float | None:
    """Return a time option's value in seconds; None when it is no plain number."""
    return float(value) if value is not None and re.fullmatch(NUMBER, value) else None
