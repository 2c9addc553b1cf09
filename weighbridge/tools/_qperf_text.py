"""qperf's listing as blocks of exact figures: units, rounding, command echoes, errors.

Formats are those of `place_val`, `view_*` and `nice_1024` in qperf.c, unchanged from 0.2.0 to 0.4.11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools._qperf_command import Asked, asked
from weighbridge.tools._terminal import lines, quote

_TRANSPORTS = "rds|sctp|sdp|tcp|udp|vsock|rc|uc|ud|xrc"
TEST = rf"(?:ver_)?(?:{_TRANSPORTS})_[a-z0-9_]*?(?:bw|lat|mr|compare_swap|fetch_add)"
_HEADER = re.compile(rf"\s*(?P<name>{TEST}|conf|quit):\s*$")
_GLUED = re.compile(rf"(?P<before>.*\bqperf\s.*?(?:bw|lat|mr))(?P<name>{TEST}):\s*$")
_COMMAND = re.compile(r"(?:^|.*[\s/\"'])qperf(?:\s+(?P<arguments>.*))?$")
_FIELD = re.compile(r"\s*(?P<name>[a-z][a-z0-9_]*)\s*=\s*(?P<value>.*)$")
_VALUE = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,12})?|\d{1,18}(?:\.\d{1,12})?)"
    r"(?: (?P<unit>[^()\d][^()]{0,11}?)?)?(?: \((?P<exact>[\d,]{1,24})\))?$"
)
# qperf's own complaints (support.c, qperf.c, socket.c, rdma.c) and those of the shell that could not run it.
_ERROR = re.compile(
    r"(?:server|client): \S|(?:\S+: )?failed to |(?:un)?able to |could not |cannot |must specify |missing argument"
    r"|upgrade qperf |internal error|getaddrinfo failed|getnameinfo failed|\w+ failed\b|bad (?:argument|static|MTU|IB)"
    r"|\S+: bad (?:option|test|size)|\S+: (?:missing argument|must specify)|device only supports|out of space"
    r"|unexpected event|.*(?:[Cc]onnection (?:refused|reset)|timed out|not responding|command not found"
    r"|[Nn]o route to host|[Pp]ermission denied|unreachable|requires a non-negative|\bfailure\b|mismatch)"
)
_AFTER_A_TEST = re.compile(
    r".*(?:\b[Ee]rror\b|\b[Ff]ailed\b|\bKilled\b|\bTerminated\b|[Ss]egmentation fault|\bAlarm clock\b)"
)


def _scale(names: str, base: str = "1", step: int = 1000) -> dict[str, tuple[Decimal, int, int]]:
    """Each unit's factor, its place, and the place of the largest of its kind."""
    units = names.split()
    return {unit: (Decimal(base) * step**place, place, len(units) - 1) for place, unit in enumerate(units)}


_UNITS: dict[str, dict[str, tuple[Decimal, int, int]]] = {
    "s": _scale("ns us ms sec", "1e-9"),
    "bit/s": {
        **_scale("bytes/sec KB/sec MB/sec GB/sec TB/sec", "8"),
        **_scale("bits/sec Kb/sec Mb/sec Gb/sec Tb/sec"),
    },
    "1/s": _scale("/sec K/sec M/sec G/sec T/sec"),
    "s/Gbit": _scale("ns/GB us/GB ms/GB sec/GB", "1.25e-10"),
    "1": {"% cpus": (Decimal("0.01"), 0, 0)},
    "byte": {**_scale("bytes KB MB GB TB"), **_scale("KiB MiB GiB TiB", "1024", 1024)},
    "count": {"": (Decimal(1), 0, 0), **_scale("thousand million billion trillion", "1000")},
}
_KINDS = (
    (re.compile(r"(?:send_|recv_)?bw\Z"), "bit/s"),
    (re.compile(r"latency\Z|time\Z|(?:send|recv|loc|rem)_real_time\Z"), "s"),
    (re.compile(r"msg_rate\Z"), "1/s"),
    (re.compile(r"(?:send|recv)_cost\Z"), "s/Gbit"),
    (re.compile(r"(?:send|recv|loc|rem)_cpus_used\Z"), "1"),
    (re.compile(r"msg_size\Z|(?:(?:loc|rem)_)?(?:send|recv)_bytes\Z"), "byte"),
    (re.compile(r"(?:(?:loc|rem)_)?(?:send|recv)_(?:msgs|errors)\Z"), "count"),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in SI base units, and by how much rounding for print may have moved it."""

    value: float
    slack: float


@dataclass
class Block:
    """One test's listing."""

    test: str
    line: str
    figures: dict[str, Figure] = field(default_factory=dict)
    stray: str = ""


@dataclass
class Run:
    """The blocks that one command printed."""

    asked: Asked = field(default_factory=Asked)
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Raw:
    number: str
    unit: str
    exact: str | None
    kind: str


def read(text: str) -> list[Run]:
    """Every run that printed figures.

    Raises ParseError for error text, a test without its figures, a figure in no unit that qperf prints there, and
    fewer blocks than the command beside them asked for.
    """
    runs = [Run()]
    raws: list[tuple[Block, dict[str, _Raw]]] = []
    every = lines(text)
    for number, line in enumerate(every, 1):
        header = _HEADER.match(line)
        given = _FIELD.match(line)
        glued = _GLUED.match(line) if line.rstrip().endswith(":") and not header else None
        if not (header or glued or line.lstrip().startswith("warning: ")) and (
            _ERROR.match(line) or (raws and not given and _AFTER_A_TEST.match(line))
        ):
            raise ParseError(f"qperf failed: {quote(line)}", text)
        command = None if header or given else _COMMAND.match(glued["before"] if glued else line)
        if command:
            runs.append(Run(asked(command["arguments"] or "", TEST)))
        if found := header or glued:
            block = Block(found["name"], line)
            raws.append((block, {}))
            runs[-1].blocks.append(block)
        elif not raws or command or not line.strip() or line.lstrip().startswith("warning: "):
            continue
        elif given:
            _add(raws[-1], given, line, text, whole=number < len(every))
        elif line[0].isspace():
            raise ParseError(f"truncated or unknown line in {raws[-1][0].test}: {quote(line)}", text)
        else:
            raws[-1][0].stray = raws[-1][0].stray or line
    for block, fields in raws:
        block.figures = _figures(fields, text)
    if runs[-1].asked.blocks and not runs[-1].blocks:
        raise ParseError("truncated: nothing follows the last qperf command", text)
    runs = [run for run in runs if run.blocks]
    if not runs:
        raise ParseError("no qperf output: no test's name on a line of its own", text)
    for run in runs:
        _check_complete(run, text)
    return runs


def _check_complete(run: Run, text: str) -> None:
    """Hold the listing against the command that made it."""
    if len(run.blocks) < run.asked.blocks:
        raise ParseError(
            f"truncated: the command asks for {run.asked.blocks} measurements, {len(run.blocks)} are printed", text
        )
    for block in run.blocks if run.asked.blocks else []:
        for name in run.asked.names if block.test.endswith(("_bw", "_lat")) and block.figures else ():
            if not any(printed.endswith(name) for printed in block.figures):
                raise ParseError(f"truncated: the command asks for {name}, {block.test} lacks it", text)


def _add(at: tuple[Block, dict[str, _Raw]], given: re.Match[str], line: str, text: str, *, whole: bool) -> None:
    block, fields = at
    name = given["name"]
    kind = next((kind for pattern, kind in _KINDS if pattern.match(name)), None)
    if kind is None:
        return
    if name in fields:
        raise ParseError(f"{block.test} prints {name} twice: {quote(line)}", text)
    match = _VALUE.match(given["value"].rstrip())
    unit = (match["unit"] or "") if match else ""
    if match is None or unit not in _UNITS[kind] or (match["exact"] is not None and not unit.endswith("iB")):
        raise ParseError(f"truncated or unknown figure in {block.test}: {quote(line)}", text)
    # No unit shows that a count's last digit is there, only the blank that qperf prints instead: on a last line
    # without a line end it is left out rather than trusted.
    if kind == "count" and unit == "" and not whole and not given["value"].endswith(" "):
        return
    fields[name] = _Raw(match["number"], unit, match["exact"], kind)


def _figures(fields: Mapping[str, _Raw], text: str) -> dict[str, Figure]:
    """Values, and what rounding hides.

    qperf prints `--precision` significant digits (3 by default) and drops trailing zeros, so `77` stands for 77.0.
    The longest figure of the block that has a fraction tells how many digits there were at least.
    """
    digits = [len(raw.number.replace(",", "").replace(".", "")) for raw in fields.values() if "." in raw.number]
    return {name: _figure(raw, max(digits, default=0), text) for name, raw in fields.items()}


def _figure(raw: _Raw, digits: int, text: str) -> Figure:
    factor, place, largest = _UNITS[raw.kind][raw.unit]
    whole, _, fraction = raw.number.replace(",", "").partition(".")
    number = Decimal(raw.number.replace(",", ""))
    shown = f"{raw.number} {raw.unit}"
    if raw.unit.endswith("iB"):
        value = number * factor
        if raw.exact is not None and Decimal(raw.exact.replace(",", "") or "0") != value:
            raise ContradictionError(f"{shown} is {value:.0f} bytes, but ({raw.exact}) is printed", text)
        return Figure(float(value), 0.0)
    # Whatever reaches 1000 is shown in the next larger unit, so a comma, or a number beyond 1000 in a unit that is
    # neither the smallest (--unify_units) nor the largest, is a decimal comma or a lost point.
    grouped = "," in raw.number and raw.kind != "count"
    if place < largest and number > 1000 and (grouped or place > 0):
        raise ParseError(f"qperf prints no such figure: {shown!r} (a decimal comma?)", text)
    exact = raw.kind in {"byte", "count"} and factor == 1
    half = 0.5 * 10.0 ** -max(len(fraction), digits - len(whole), 0)
    return Figure(float(number * factor), 0.0 if exact else half * float(factor))
