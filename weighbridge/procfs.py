"""What the kernel tells of processes under /proc: descendants, memory, the processors they may use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import StandError

_KIB = 1024


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, without itself; those that end meanwhile are left out."""
    found: list[int] = []
    pending = [pid]
    while pending:
        tasks = Path(f"/proc/{pending.pop()}/task")
        # The process, or a thread of it, may end at any moment; it has no children then.
        with suppress(OSError):
            children = [int(word) for task in tasks.iterdir() for word in read(task / "children").split()]
            found += children
            pending += children
    return found


def memory(pids: Iterable[int]) -> int:
    """Bytes of memory that only the end of these processes gives back: anonymous and shared memory, no file's pages.

    A page that several processes share counts in parts, one to each (`Pss_Anon` and `Pss_Shmem` of `smaps_rollup`,
    proc(5)), so a sum counts nothing twice. Pages of files are left out: the kernel takes them back when it likes, and
    how many count would depend on who else runs the same program. A process that is gone, or only waits to be reaped,
    holds nothing.

    Raises StandError naming the file where one that lives cannot be asked: no figure is better than one too small.
    """
    return sum(_held(pid) for pid in pids)


def _held(pid: int) -> int:
    process = Path(f"/proc/{pid}")
    # A process whose first thread has ended is told of by the others alone.
    for file in (process / "smaps_rollup", *process.glob("task/*/smaps_rollup")):
        try:
            text = file.read_text()
        except ProcessLookupError:  # it has let go of its memory
            continue
        except OSError as error:
            if not file.parent.exists():
                continue
            raise StandError(f"{file} cannot be read: {error.strerror}") from error
        found = dict(re.findall(r"^Pss_(Anon|Shmem):\s+(\d+) kB", text, re.MULTILINE))
        if found.keys() != {"Anon", "Shmem"}:
            raise StandError(
                f"{file} names no Pss_Anon and Pss_Shmem, so memory cannot be told; it takes a newer kernel"
            )
        return sum(map(int, found.values())) * _KIB
    return 0


def processors(pid: int) -> str:
    """The processors that a process may use, as the kernel lists them (`0-3,6`); '' when it is gone."""
    found = re.search(r"^Cpus_allowed_list:\s+(\S+)", read(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return found[1] if found else ""


def command_line(pid: int) -> tuple[str, ...]:
    """What a process was started as; one empty word for one that is gone, or is becoming another."""
    return tuple(read(Path(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0"))


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time of the whole machine since it started, in clock ticks: all of it, and what was stolen from it."""

    total: int
    stolen: int

    def stolen_since(self, before: CpuTimes) -> float:
        """The share of CPU time that a hypervisor gave to others since `before`."""
        passed = self.total - before.total
        return (self.stolen - before.stolen) / passed if passed > 0 else 0.0


def cpu_times() -> CpuTimes:
    """The first line of /proc/stat; steal is its eighth figure, guest times are in user time already (proc(5))."""
    ticks = [int(word) for word in read(Path("/proc/stat")).partition("\n")[0].split()[1:9]]
    return CpuTimes(sum(ticks), ticks[7] if len(ticks) > 7 else 0)


def sockets(pid: int, transport: str) -> str:
    """The tables of `tcp` or `udp` sockets, of both IP versions, in the network namespace of a process (proc(5))."""
    return "".join(read(Path(f"/proc/{pid}/net/{transport}{version}")) for version in ("", "6"))


def read(path: Path) -> str:
    """The content of a file of the kernel; '' when it is gone or may not be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
