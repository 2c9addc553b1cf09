"""The study's own figure of one cell: what it prints, and what the output that it also prints gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

OwnFigures: TypeAlias = Mapping[tuple[str, frozenset[tuple[str, str]], str], "Own"]
"""Own figures by scenario, axes and metric."""


@dataclass(frozen=True, slots=True)
class Own:
    """A study's figure of one metric of one cell, values in the metric's SI base unit.

    `printed` are its texts as the tables print them, `value` what they stand for (their median); None where they
    are only bounds ("2200+") or nothing is printed. `output` is the median of its recorded outputs, given where
    they contradict what is printed or where nothing is. `refused` says that the outputs cannot be trusted (they
    contradict themselves, or are torn), so that none of them gives a figure.
    """

    printed: tuple[str, ...]
    value: float | None
    output: float | None
    refused: bool = False


NO_FIGURES: OwnFigures = MappingProxyType({})
"""Of a scenario that repeats no study, and where no study's data are there."""
