"""What a killed run may leave: empty cgroup folders, the one thing that does not die with its lab.

A runtime makes its cgroups in the machine's own hierarchies, as `weighbridge/<run id>/<container>`; the
kernel keeps them when the run is killed. Nothing else is looked at, and nothing that is in use is touched.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import InfrastructureError

CGROUPS = Path("/sys/fs/cgroup")
_NAME = "weighbridge"


@dataclass(frozen=True, slots=True)
class Leftover:
    """The cgroups of one run in every hierarchy, deepest first in each."""

    run: str
    folders: tuple[Path, ...]
    tops: tuple[Path, ...]
    """The folder of the run in each hierarchy."""


def leftovers(root: Path = CGROUPS, processes: Path = Path("/proc")) -> list[Leftover]:
    """Every run whose cgroups hold no process and of which no process is left on this machine."""
    by_run: dict[str, list[Path]] = {}
    # A second name of a hierarchy (cpu for cpu,cpuacct) is a link to it.
    hierarchies = (path for path in sorted(root.glob(f"*/{_NAME}")) if not path.parent.is_symlink())
    for top in (root / _NAME, *hierarchies):
        for folder in (path for path in top.glob("*") if path.is_dir() and not path.is_symlink()):
            by_run.setdefault(folder.name, []).append(folder)
    found = []
    alive = _command_lines(processes)
    for run, tops in sorted(by_run.items()):
        # A lab's own processes name its folder; a container about to start is in no cgroup yet.
        if any(re.search(rf"/run/{_NAME}/{re.escape(run)}(?![\w.-])", line) for line in alive):
            continue
        folders: list[Path] = []
        for top in tops:
            folders += sorted((p for p in top.rglob("*") if p.is_dir()), key=lambda p: len(p.parts), reverse=True)
            folders.append(top)
        if not any(_processes_in(path) for path in folders):
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
    for above in {top.parent for top in leftover.tops if top.parent.is_dir()}:
        if not any(path.is_dir() for path in above.iterdir()) and not _processes_in(above):
            above.rmdir()


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
