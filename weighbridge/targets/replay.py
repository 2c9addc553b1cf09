"""The published studies as a target: recorded outputs and figures instead of machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from weighbridge import units
from weighbridge.errors import UsageError
from weighbridge.metrics import metric
from weighbridge.model import Cell
from weighbridge.study import Figure, Study, load
from weighbridge.study.audit import Discrepancy, audit
from weighbridge.targets import Recording, Request
from weighbridge.tools import Result

LIVE = False

_EXCLUDING = ("lost digit", "transfer", "mean")
"""The kinds of discrepancy that leave a printed figure wrong, and not only what is said about it."""


@dataclass
class Archive:
    """The studies of a folder, read when one of their cells is asked for."""

    folder: Path
    _studies: dict[str, Study] = field(default_factory=dict)
    _found: dict[str, tuple[Discrepancy, ...]] = field(default_factory=dict)

    def study(self, name: str) -> Study:
        """A study by name.

        Raises UsageError when there is no such folder, ScenarioError when its data are broken.
        """
        if name not in self._studies:
            if not (self.folder / name).is_dir():
                raise UsageError(f"no study is called {name!r} in {self.folder}")
            self._studies[name] = load(self.folder / name)
        return self._studies[name]

    def recordings(self, cell: Cell) -> Sequence[Recording]:
        """Every recorded output and every printed figure of a cell, as its rounds."""
        if cell.study is None:
            return []
        study = self.study(cell.study)
        outputs = [
            Recording(r.file, study.texts[r.file], None, r.note, r.together)
            for r in study.recordings_of(cell.scenario, cell.axes)
        ]
        figures = [
            Recording(f.source, "", (Result({}, _values(f)),), _bounds(f), number, self._refuted(study, f))
            for number, f in enumerate(study.figures_of(cell.scenario, cell.axes))
        ]
        return outputs or figures

    def _refuted(self, study: Study, figure: Figure) -> Mapping[str, str]:
        """The metrics of a row of figures that its other figures exclude, with the arithmetic."""
        if study.name not in self._found:
            self._found[study.name] = audit(study)
        return {
            d.metric: d.arithmetic
            for d in self._found[study.name]
            if d.kind in _EXCLUDING and d.scenario == figure.scenario and d.axes == figure.axes
        }

    def stated_link_rate(self, cell: Cell) -> float | None:
        """The line rate that a study states for its machines, bit/s."""
        text = self.study(cell.study).environment.get("link") if cell.study else None
        return units.parse_as(text, units.BIT_RATE) if text else None

    def describe(self) -> dict[str, str]:
        """Recordings have no machine of today."""
        return {"recordings": str(self.folder)}


def _values(figure: Figure) -> Mapping[str, float]:
    return {name: units.parse_as(p.value, metric(name).unit) for name, p in figure.metrics.items()}


def _bounds(figure: Figure) -> str:
    bounded = [f"{name} is a {p.bound} bound" for name, p in figure.metrics.items() if p.bound]
    return ", ".join(bounded)


def unavailable() -> str | None:
    """Recordings can be read anywhere."""
    return None


@contextmanager
def open_site(request: Request) -> Iterator[Archive]:
    """The studies beside the scenario files."""
    yield Archive(request.scenarios / "studies")
