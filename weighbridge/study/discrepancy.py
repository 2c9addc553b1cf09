"""What a study says against itself, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weighbridge.study import Recording, Study


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One contradiction: what is printed, what its own figures give, and the arithmetic between them.

    `kind` is one of the kinds listed in `weighbridge.study.audit`, `where` the place in the study,
    `file` the recording or data file. `scenario`, `axes` and `metric` name the cell, where it is one.
    """

    study: str
    kind: str
    where: str
    printed: str
    computed: str
    arithmetic: str
    file: str
    scenario: str = ""
    axes: Mapping[str, str] = field(default_factory=dict, hash=False)
    metric: str = ""

    @property
    def key(self) -> str:
        """A name that stays the same as long as the contradiction does."""
        return f"{self.kind}: {self.where}"


def label(axes: Mapping[str, str]) -> str:
    """Write axes as one word each: `runtime=kata rate=5000/s`."""
    return " ".join(f"{name}={value}" for name, value in axes.items())


def of_recording(
    study: Study,
    recording: Recording,
    kind: str,
    where: str,
    *,
    printed: str = "",
    computed: str = "",
    arithmetic: str,
    metric: str = "",
) -> Discrepancy:
    """Make a discrepancy of one recorded output."""
    return Discrepancy(
        study=study.name,
        kind=kind,
        where=where,
        printed=printed,
        computed=computed,
        arithmetic=arithmetic,
        file=recording.file,
        scenario=recording.scenario,
        axes=recording.axes,
        metric=metric,
    )
