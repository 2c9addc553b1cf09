"""What a killed run may leave: empty cgroup folders, the one thing that does not die with its lab.

A runtime makes its cgroups in the machine's own hierarchies, as `weighbridge/<run id>/<sandbox>`; the kernel keeps
them when the run is killed. Nothing else is looked at, and nothing is touched that is in use, belongs to another
user, or lies anywhere but directly below a hierarchy's root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import InfrastructureError

_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Leftover:
    """The cgroups of one run in every hierarchy, deepest first in each."""

    run: str
    folders: tuple[Path, ...]
    tops: tuple[Path, ...]
    """The folder of the run in each hierarchy."""


def leftovers(hierarchies: Sequence[Path] | None = None, processes: Path = _PROCESSES) -> list[Leftover]:
    """Every run whose cgroups hold no process and of which no process is left on this machine.

    Looks into every mounted hierarchy unless told which.
    """
    by_run: dict[str, list[Path]] = {}
    for hierarchy in cgroups.hierarchies() if hierarchies is None else hierarchies:
        above = hierarchy / cgroups.NAME
        # Another run that ends may remove the same folders at any moment.
        with suppress(FileNotFoundError):
            if _ours(above):
                for folder in filter(_ours, above.iterdir()):
                    by_run.setdefault(folder.name, []).append(folder)
    # Reading what every process was started as is worth it only where something is to be removed.
    alive = _command_lines(processes) if by_run else []
    found = []
    for run, tops in sorted(by_run.items()):
        # A lab's own processes name its folder; a container about to start is in no cgroup yet.
        if any(re.search(rf"/run/{cgroups.NAME}/{re.escape(run)}(?![\w.-])", line) for line in alive):
            continue
        folders = [folder for top in tops for folder in cgroups.subtree(top)]
        if folders and all(map(_ours, folders)) and not any(_processes_in(path) for path in folders):
            found.append(Leftover(run, tuple(folders), tuple(tops)))
    return found


def remove(leftover: Leftover) -> None:
    """Remove the folders of one run, and those above them where that was the last.

    rmdir is all it takes, and all that is done: the kernel refuses it where a process came in meanwhile.
    Raises InfrastructureError when it refuses.
    """
    for folder in leftover.folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InfrastructureError(f"{folder} cannot be removed: {error.strerror}") from error
    for above in {top.parent for top in leftover.tops}:
        # Another run may have its cgroup there, or be about to: then the kernel refuses.
        with suppress(OSError):
            above.rmdir()


def remove_all() -> None:
    """Remove what killed runs have left; what cannot be removed stays for `weighbridge cleanup` to tell."""
    for leftover in leftovers():
        with suppress(InfrastructureError):
            remove(leftover)


def _ours(folder: Path) -> bool:
    """Whether it is a folder, and no link to one, that this user made."""
    try:
        return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
    except OSError:  # it went meanwhile
        return False


def _processes_in(folder: Path) -> str:
    """The ids of the processes in a cgroup; text that is no id where that cannot be told."""
    try:
        return (folder / "cgroup.procs").read_text().strip()
    except OSError as error:
        # The root of a threaded subtree lists no processes (EOPNOTSUPP); it is not ours to remove then.
        return str(error)


def _command_lines(processes: Path) -> list[str]:
    lines = []
    for path in processes.glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines
