"""The JSON objects in iperf3's output, one per run, and a strict reader of their figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from weighbridge.errors import ParseError
from weighbridge.tools._iperf_printed import LONGEST_TEXT, command

_BEGIN = re.compile(r"^\s*\{\s*(?:$|[\"}])", re.MULTILINE)
# -d prints the parameters exchanged as objects, between the rows for people
_TEXT = re.compile(r"^.{0,60}\[ ID\](?:\[Role\])? Interval ", re.MULTILINE)
_LARGEST = Decimal(10) ** 18
_ECHO = re.compile(r".{0,200}[$#%>]\s*\Z|\s*\Z|\s*(?:warning: .*)\Z", re.IGNORECASE)
_ERROR = re.compile(r"\berror\b|\binterrupt|refused|unreachable|unable to|failed", re.IGNORECASE)
DUPLICATE = "\0duplicate"

Object = Mapping[str, Any]


def is_json(text: str) -> bool:
    """Whether the output holds objects and no table for people."""
    return _BEGIN.search(text) is not None and _TEXT.search(text) is None


def documents(text: str) -> Iterator[Object]:
    """One object per run; the events of a `--json-stream` run are put together to the object `-J` prints."""
    if len(text) > LONGEST_TEXT:
        raise ParseError(f"{len(text)} characters are no output of iperf3", text[:4096])
    decoder = json.JSONDecoder(
        parse_float=Decimal, parse_int=Decimal, parse_constant=_not_finite, object_pairs_hook=_object
    )
    position, begun = 0, None
    while begins := _BEGIN.search(text, position):
        _between(text[position : begins.start()], text, leading=position == 0)
        start = text.index("{", begins.start())
        try:
            document, position = decoder.raw_decode(text, start)
        except (ValueError, InvalidOperation, RecursionError) as error:
            raise ParseError(f"truncated or broken JSON: {str(error)[:200]}", text) from error
        if not isinstance(document.get("event"), str):
            yield document
            continue
        event, data = document["event"], document.get("data")
        if event == "error":
            raise ParseError(f"iperf3 reports: {data}", text)
        if event == "start":
            if begun is not None:
                raise ParseError("truncated: a run ends before its summary", text)
            begun = {"start": data}
        elif event == "end":
            if begun is None:
                raise ParseError("an end without its start", text)
            yield {**begun, "end": data}
            begun = None
    if begun is not None:
        raise ParseError("truncated: a run ends before its summary", text)
    _between(text[position:], text)


def _between(text: str, output: str, *, leading: bool = False) -> None:
    """Refuse anything but a shell's prompt and echoed command around a document, and error text before the first."""
    for line in text.splitlines():
        fits = not _ERROR.search(line) if leading else _ECHO.match(line) or command(line)
        if len(line) > 1000 or not fits:
            raise ParseError(f"text around the JSON: {line.strip()[:200]!r}", output)


def _not_finite(name: str) -> Any:
    raise ValueError(f"{name} is no figure")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        found[DUPLICATE] = True
    return found


class Reader:
    """Figures of one object, refused by name when they are no plain, finite, non-negative numbers."""

    def __init__(self, place: str, data: Any, text: str) -> None:
        if not isinstance(data, dict) or DUPLICATE in data:
            raise ParseError(f"{place} is no plain object", text)
        self.place, self.data, self.text = place, data, text

    def exact(self, name: str) -> Decimal:
        value = self.data.get(name)
        if not isinstance(value, Decimal) or not value.is_finite() or not 0 <= value < _LARGEST:
            raise ParseError(f"{self.place}.{name} is no figure: {str(value)[:40]}", self.text)
        return value

    def __call__(self, name: str) -> float:
        return float(self.exact(name))

    def whole(self, name: str) -> float:
        value = self.exact(name)
        if value != value.to_integral_value():
            raise ParseError(f"{self.place}.{name} is no whole number: {value}", self.text)
        return float(value)

    def has(self, name: str) -> bool:
        return name in self.data

    @property
    def duration(self) -> float:
        return self("end") - self("start")

    @property
    def empty(self) -> bool:
        return self.whole("bytes") == 0 and self("bits_per_second") == 0

    @property
    def sender(self) -> bool | None:
        value = self.data.get("sender")
        return value if isinstance(value, bool) else None
