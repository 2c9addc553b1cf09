"""A published study as data: what it recorded, printed and claimed, read strictly from its folder.

<study>/index.toml      environment, hosts, recordings, excerpts, figures, claims
        raw/*.txt       tool outputs as the study prints them, one run per file
        tables/*.toml   its tables, figure by figure
        figures/*.toml  figures printed without the output they come from, one listing per file
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from weighbridge.errors import ScenarioError, UsageError
from weighbridge.study.model import (
    Axes,
    Claim,
    Column,
    Data,
    Excerpt,
    Figure,
    Host,
    Listing,
    Printed,
    Recording,
    Row,
    Study,
    Table,
    Transfer,
    frozen,
)

__all__ = [
    "Axes",
    "Claim",
    "Column",
    "Excerpt",
    "Figure",
    "Host",
    "Listing",
    "Printed",
    "Recording",
    "Row",
    "Study",
    "Table",
    "Transfer",
    "load",
]

_M = TypeVar("_M", bound=BaseModel)


class _Index(Data):
    study: str
    environment: dict[str, str]
    hosts: Annotated[tuple[Host, ...], BeforeValidator(frozen)] = ()
    recordings: Annotated[tuple[Recording, ...], BeforeValidator(frozen)] = ()
    excerpts: Annotated[tuple[Excerpt, ...], BeforeValidator(frozen)] = ()
    figures: Annotated[tuple[Figure, ...], BeforeValidator(frozen)] = ()
    claims: Annotated[tuple[Claim, ...], BeforeValidator(frozen)] = ()


def load(folder: Path) -> Study:
    """Read the study kept in `folder`.

    Raises ScenarioError, naming file and key, when a file is missing, unknown, not listed, or says
    something impossible.
    """
    index = _read(folder / "index.toml", _Index)
    if index.study != folder.name:
        raise ScenarioError(f"{folder / 'index.toml'}: study: {index.study!r} is not the folder's name")
    listings = {f"figures/{path.name}": _read(path, Listing) for path in sorted(folder.glob("figures/*.toml"))}
    tables = {path.stem: _read(path, Table) for path in sorted(folder.glob("tables/*.toml"))}
    _check_files(folder, index)
    _check_series(folder, index)
    return Study(
        name=index.study,
        environment=index.environment,
        hosts=index.hosts,
        recordings=index.recordings,
        excerpts=index.excerpts,
        listings={"index.toml": Listing(figures=index.figures), **listings},
        tables=tables,
        claims=index.claims + tuple(claim for table in tables.values() for claim in table.claims),
        texts={r.file: (folder / r.file).read_bytes().decode() for r in _listed(index)},
    )


def _read(path: Path, model: type[_M]) -> _M:
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ScenarioError(f"{path}: {key}: {first['msg']}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, UsageError) as error:
        raise ScenarioError(f"{path}: {error}") from error


def _listed(index: _Index) -> tuple[Recording | Excerpt, ...]:
    return (*index.recordings, *index.excerpts)


def _check_files(folder: Path, index: _Index) -> None:
    listed = [item.file for item in _listed(index)]
    kept = {f"raw/{path.name}" for path in folder.glob("raw/*")}
    for file in listed:
        if file not in kept:
            raise ScenarioError(f"{folder / 'index.toml'}: file: {file!r} is not there")
        if listed.count(file) > 1:
            raise ScenarioError(f"{folder / 'index.toml'}: file: {file!r} is listed twice")
    for file in sorted(kept - set(listed)):
        raise ScenarioError(f"{folder / 'index.toml'}: file: {file!r} is kept but not listed")


def _check_series(folder: Path, index: _Index) -> None:
    cells: dict[tuple[str, frozenset[tuple[str, str]]], list[Recording]] = {}
    for recording in index.recordings:
        cells.setdefault((recording.scenario, frozenset(recording.axes.items())), []).append(recording)
    for (scenario, axes), found in cells.items():
        numbers, rounds = [r.series for r in found], [r.together for r in found]
        if sorted(numbers) != list(range(len(numbers))):
            raise ScenarioError(f"{folder / 'index.toml'}: series: {scenario} {dict(sorted(axes))} has {numbers}")
        if len(set(rounds)) != len(rounds):
            raise ScenarioError(f"{folder / 'index.toml'}: round: {scenario} {dict(sorted(axes))} has {rounds}")
