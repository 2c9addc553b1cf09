"""Scenarios: a checked file, one profile applied, expanded into cells.

An axis value that no file answers for, or a budget that matches no cell, is an error that names the
file, the key and the nearest valid one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import UsageError
from weighbridge.model import Cell
from weighbridge.scenario.digest import digest
from weighbridge.scenario.file import PROFILES, ProfileTable, ScenarioFile, link_rate, nearest, read, schema
from weighbridge.scenario.reading import MOST_CELLS, Reading, product

__all__ = ["LOOKS", "MOST_CELLS", "PROFILES", "Scenario", "load", "load_all", "schema"]

LOOKS = {"smoke": (1,), "quick": (6, 10), "standard": (10, 14, 20, 28, 40), "study": (10, 14, 20, 28, 40)}
"""After how many rounds a group is judged, by profile (planned looks)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario with one profile applied."""

    name: str
    path: Path
    title: str
    claim: str
    study: str | None
    tool: str
    profile: str
    looks: tuple[int, ...]
    cells: tuple[Cell, ...]
    references: Mapping[str, tuple[Cell, ...]]
    """For each cell id the cells that its ratio budgets refer to."""
    digest: str
    """SHA-256 over the resolved content: two runs asked the same question when it is equal."""
    tolerated_errors: float
    omit: str | None


def load(path: Path, profile: str = "quick", line_rate: str | None = None) -> Scenario:
    """Read, check and expand one scenario file; `line_rate` replaces the link rate that it names.

    Raises ScenarioError naming the file, the key and the remedy; UsageError when no profile has that name.
    """
    if profile not in PROFILES:
        raise UsageError(f"no profile is called {profile!r}; {nearest(profile, PROFILES)}")
    content = read(path)
    if line_rate is not None:
        if "link_rate" in content.axes:
            raise UsageError(f"--link-rate would undo the axis link_rate of {path}; leave one of them out")
        link_rate(line_rate)
        content = content.model_copy(update={"link_rate": line_rate})
    overrides = content.profiles.get(profile, ProfileTable())  # type: ignore[call-overload]  # checked above
    reading = Reading(path, content, _resolved(content, overrides))
    budgets = tuple(reading.budgets())
    cells = tuple(reading.cell(axes, budgets) for axes in product(reading.content.axes))
    reading.check_cells(cells)
    looks = tuple(overrides.rounds or content.rounds or LOOKS[profile])
    return Scenario(
        name=path.stem,
        path=path,
        title=content.title,
        claim=content.claim,
        study=content.study,
        tool=content.tool,
        profile=profile,
        looks=looks,
        cells=() if overrides.omit else cells,
        references={cell.id: tuple(reading.references(cell, budgets)) for cell in cells},
        digest=digest(cells, looks),
        tolerated_errors=content.tolerated_errors,
        omit=overrides.omit,
    )


def load_all(
    folder: Path, profile: str = "quick", names: Iterable[str] = (), line_rate: str | None = None
) -> tuple[Scenario, ...]:
    """Every scenario of a folder, or those called `names`.

    Raises ScenarioError; UsageError when a name has no file.
    """
    if profile not in PROFILES:
        raise UsageError(f"no profile is called {profile!r}; {nearest(profile, PROFILES)}")
    paths = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    if not paths:
        raise UsageError(f"{folder} holds no scenario files (*.toml)")
    names = tuple(names)
    for name in names:
        if name not in paths:
            raise UsageError(f"no scenario is called {name!r} in {folder}; {nearest(name, paths)}")
    return tuple(load(paths[name], profile, line_rate) for name in dict.fromkeys(names or paths))


def _resolved(content: ScenarioFile, overrides: ProfileTable) -> ScenarioFile:
    return content.model_copy(
        update={
            "axes": {**content.axes, **overrides.axes},
            "load": {**content.load, **overrides.load},
            "limits": {**content.limits, **overrides.limits},
        }
    )
