"""What a run ends with on a terminal: the verdicts, worst first, readable on a narrow one.

    fail          socket_1c2g-kata-calico-cross-node-64B
                  latency_mean at most 1.6 x runtime=runc: 1.73 x, 1.68 … 1.79, n = 20
    not-run       94 cells: no recording of this cell
    pass          115 cells: gateway 6, http_flood 1, …

With many cells, those that pass are only counted.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from weighbridge.campaign import Outcome
from weighbridge.model import WORST_FIRST, Status

FOLDED_ABOVE = 40
"""With more measured cells than this, those that pass are only counted."""
_FILES = ("report.md", "run.json", "journal.jsonl")
_INDENT = 2 + max(len(status) for status in Status)


def summary(outcomes: Iterable[Outcome], width: int) -> list[str]:
    """The lines of the summary, none wider than `width` columns where words allow it."""
    by_status: dict[Status, list[Outcome]] = {status: [] for status in WORST_FIRST}
    for outcome in outcomes:
        by_status[outcome.status].append(outcome)
    many = sum(len(found) for status, found in by_status.items() if status is not Status.NOT_RUN) > FOLDED_ABOVE
    lines: list[str] = []
    for status, found in by_status.items():
        if status is Status.NOT_RUN:
            lines += _reasons(found, width)
        elif status is Status.PASS and many:
            lines += _counts(found, width)
        else:
            for outcome in found:
                lines += _cell(outcome, width)
    return lines


def whereabouts(folder: Path, *, complete: bool) -> list[str]:
    """Where a run's files are, and how to go on with one that is not complete."""
    lines = [f"{path.stem}: {path}" for name in _FILES if (path := folder / name).exists()]
    return lines if complete else [*lines, f"not complete; go on with --resume={folder}"]


def _cell(outcome: Outcome, width: int) -> list[str]:
    """A cell, and below it every budget that decided its status (all of them where it passed)."""
    decisive = [verdict for verdict in outcome.verdicts if verdict.status is outcome.status]
    texts = [f"{verdict.budget}: {verdict.reason}" for verdict in decisive] or [outcome.reason]
    if outcome.measured.problem is not None:
        texts = [outcome.reason]
    told = [line for text in texts for line in _wrapped(text, width)]
    return [_labelled(outcome.status, outcome.cell.id), *told]


def _reasons(outcomes: Sequence[Outcome], width: int) -> list[str]:
    counted = Counter(outcome.reason for outcome in outcomes)
    return [
        line
        for reason, number in counted.most_common()
        for line in _joined(Status.NOT_RUN, f"{_cells(number)}: {reason}", width)
    ]


def _counts(outcomes: Sequence[Outcome], width: int) -> list[str]:
    counted = Counter(outcome.cell.scenario for outcome in outcomes)
    if not counted:
        return []
    names = ", ".join(f"{scenario} {number}" for scenario, number in sorted(counted.items()))
    return _joined(Status.PASS, f"{_cells(len(outcomes))}: {names}", width)


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


def _joined(status: Status, text: str, width: int) -> list[str]:
    first, *rest = _wrapped(text, width)
    return [_labelled(status, first.strip()), *rest]


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * _INDENT
    # "n = 20" stays on one line; textwrap breaks at plain spaces only.
    flat = re.sub(r"\bn = (?=\d)", "n\u00a0=\u00a0", " ".join(text.split()))
    lines = textwrap.wrap(
        flat,
        max(width, 2 * _INDENT),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in lines]


def _labelled(status: Status, text: str) -> str:
    return f"{status:<{_INDENT}}{text}"
