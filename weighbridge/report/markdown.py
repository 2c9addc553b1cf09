"""Text, links and tables in Markdown that no content can break."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

LONGEST = 600
"""Characters of one text; a longer one (a tool's whole complaint) is cut, the raw output has it all."""

_WIDEST = 48
"""Columns are padded for readers of the plain text, but not beyond this."""

# An underscore inside a word means nothing to Markdown; escaping it there would only hurt readers of the plain text.
_SPECIAL = re.compile(r"[\\|`*\[\]<>~&]|(?<![^\W_])_|_(?![^\W_])")
_AUTOLINK = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(?=:)|\bwww(?=\.)")


class Markup(str):
    """Text that is Markdown already, such as a link."""

    __slots__ = ()


def escape(text: object) -> str:
    """Text that Markdown shows as it is: no table break, no tag, no entity, no link."""
    if isinstance(text, Markup):
        return str(text)
    flat = " ".join(str(text).split())
    flat = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in flat)
    if len(flat) > LONGEST:
        flat = flat[:LONGEST] + " …"
    return _AUTOLINK.sub(r"\g<0>\\", _SPECIAL.sub(r"\\\g<0>", flat))


def link(text: str, path: str) -> Markup:
    """A link to a file beside the report."""
    return Markup(f"[{escape(text)}]({quote(path, safe='/=')})")


def table(rows: Sequence[Sequence[object]], headings: Sequence[str]) -> str:
    """A Markdown table whose cells cannot break it; *none* when it has no row."""
    if not rows:
        return "*none*"
    texts = [[escape(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(3, min(_WIDEST, max(len(row[i]) for row in texts))) for i in range(len(headings))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in texts]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)
