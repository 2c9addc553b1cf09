"""Captured terminal text as lines."""

from __future__ import annotations

import re

LONGEST = 1000
"""No tool prints a line of figures longer than this; longer ones are dots, junk or binaries."""

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_BREAK = re.compile(r"\r\n|\n|\r")


def lines(text: str) -> list[str]:
    """The lines of `text` without line ends (LF, CRLF or CR) and colour escapes; overlong ones come back empty."""
    return [_ESCAPE.sub("", line) if len(line) <= LONGEST else "" for line in _BREAK.split(text)]


def quote(line: str) -> str:
    """A line as an error message repeats it: trimmed, printable, at most 160 characters."""
    shown = "".join(char if char.isprintable() else "?" for char in line.strip())
    return repr(shown if len(shown) <= 160 else shown[:157] + "...")
