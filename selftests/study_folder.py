"""A small made-up study on disk, for the self-tests of loader and audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weighbridge.study import Study, load

STUDIES = Path(__file__).parent.parent / "scenarios" / "studies"


def write(folder: Path, index: str = "", files: Mapping[str, str] | None = None) -> Path:
    """Write a study called `made_up` with these index entries and further files by their relative path."""
    study = folder / "made_up"
    everything = {"index.toml": f'study = "made_up"\n{index}\n[environment]\n', **(files or {})}
    for name, text in everything.items():
        path = study / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return study


def made(folder: Path, index: str = "", files: Mapping[str, str] | None = None) -> Study:
    """Write a study and load it."""
    return load(write(folder, index, files))


def recording(
    file: str, axes: str = 'network = "flannel"', series: int = 0, scenario: str = "http", more: str = ""
) -> str:
    """Give the index entry of one recorded output."""
    entry = f'scenario = "{scenario}"\naxes = {{ {axes} }}\nfile = "raw/{file}"\nseries = {series}\n{more}\n'
    return f"[[recordings]]\n{entry}"
