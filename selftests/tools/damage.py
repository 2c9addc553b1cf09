"""Ways to damage a recorded output, and what may come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from selftests.tools.corpus import read
from weighbridge.errors import ParseError


def cut(path: Path) -> st.SearchStrategy[tuple[Path, str]]:
    """Return the output up to any character, most often near its end."""
    text = read(path)
    last = len(text)
    ends = st.one_of(st.integers(0, last), st.integers(max(0, last - 400), last))
    return ends.map(lambda end: (path, text[:end]))


def mutated(path: Path) -> st.SearchStrategy[str]:
    """Return the output with a few characters replaced, removed or doubled."""
    text = read(path)
    place = st.integers(0, max(0, len(text) - 1))
    edits = st.lists(
        st.tuples(place, st.sampled_from([*'0123456789.,-[]{}"%/ \n\0eEKMGn', "", "99999", "null", "nan"])), max_size=6
    )
    return edits.map(lambda many: _edited(text, many))


def _edited(text: str, edits: list[tuple[int, str]]) -> str:
    for at, new in sorted(edits, reverse=True):
        text = text[:at] + new + text[at + 1 :]
    return text


def same_or_refused(tool: Any, path: Path, text: str) -> None:
    """Check that `text`, a part of the output in `path`, yields no figure that the whole output does not."""
    try:
        whole = {_key(result): result.metrics for result in tool.parse(read(path))}
    except ParseError:
        return
    try:
        part = tool.parse(text)
    except ParseError:
        return
    for result in part:
        full = whole.get(_key(result))
        if full is not None:
            assert {name: full.get(name) for name in result.metrics} == dict(result.metrics)


def _key(result: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(result.labels.items()))
