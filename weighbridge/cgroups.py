"""Control groups of sandboxes, in both versions: made, read back, removed.

A cgroup is named by its path below every hierarchy, `/weighbridge/<run id>/<sandbox>`, which is also how
OCI runtimes take it. In version 1 the controllers have hierarchies of their own; in version 2 there is one.
"""

from __future__ import annotations

import math
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.procfs import read
from weighbridge.shell import Deadline

ROOT = Path("/sys/fs/cgroup")
NAME = "weighbridge"
"""The cgroup below the root of every hierarchy under which every run has its own."""
STOP_TIMEOUT = 2.0
CPU_PERIOD_US = 100_000
"""The CFS period that Kubernetes uses."""
_UNLIMITED = 2**60
"""Version 1 prints the largest page-aligned number for no limit."""
_CONTROLLERS = ("cpu", "memory")
_ATTEMPTS = 5
_SHARES = range(2, 262144 + 1)


def version() -> int | None:
    """1 or 2 by what limits CPU here; None when nothing does."""
    if (ROOT / "cpu/cgroup.procs").exists():
        return 1
    return 2 if (ROOT / "cgroup.controllers").exists() else None


def unavailable() -> str | None:
    """Why no limits can be set here; None when they can."""
    found = version()
    if found is None:
        return "no cgroup hierarchy is mounted on /sys/fs/cgroup, so limits cannot be set"
    if missing := [controller for controller in _CONTROLLERS if not controls(controller)]:
        return f"the kernel offers no {missing[0]} controller in /sys/fs/cgroup, so limits cannot be set"
    if all(os.access(ROOT / controller if found == 1 else ROOT, os.W_OK) for controller in _CONTROLLERS):
        return None
    if os.geteuid() == 0:
        return (
            "/sys/fs/cgroup is read-only here or another user's, so limits cannot be set; have it mounted for writing"
        )
    return "no cgroup may be written by this user, so limits cannot be set; run as root"


def hierarchies() -> list[Path]:
    """The root of every mounted hierarchy: the only one of version 2, or each of version 1.

    A second name of a hierarchy (cpu for cpu,cpuacct) is a link to it and not counted.
    """
    if (ROOT / "cgroup.procs").exists():
        return [ROOT]
    folders = sorted(ROOT.iterdir()) if ROOT.is_dir() else []
    return [folder for folder in folders if not folder.is_symlink() and (folder / "cgroup.procs").exists()]


def controls(controller: str) -> bool:
    """Whether a controller (`cpuset`) can be used here."""
    if version() == 1:
        return (ROOT / controller / "cgroup.procs").exists()
    return controller in read(ROOT / "cgroup.controllers").split()


def subtree(folder: Path) -> list[Path]:
    """A cgroup's folder in one hierarchy and all below it, deepest first: the order in which they can be removed.

    What somebody else removes meanwhile is left out; nothing when that is the folder itself.
    """
    # os.walk passes over what is gone; a glob ends with an error there.
    return [Path(path) for path, _, _ in os.walk(folder, topdown=False)]


def path_of(run_id: str, name: str) -> str:
    """The cgroup of a sandbox, as every hierarchy names it."""
    return f"/{NAME}/{run_id}/{name}"


def limits_text(cpu: float | None, memory: float | None) -> str:
    """Limits as evidence: `cpu 1 memory 2147483648`, `none`."""
    words = [f"cpu {cpu:g}"] if cpu is not None else []
    words += [f"memory {int(memory)}"] if memory is not None else []
    return " ".join(words) or "none"


def held(limits: Limits) -> Limits:
    """Limits as the kernel will hold them: CPU in whole microseconds of the period, memory in whole pages below.

    Both what is written and what is then expected to be in force come from here.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    return replace(
        limits,
        cpu=None if limits.cpu is None else quota(limits.cpu) / CPU_PERIOD_US,
        memory=None if limits.memory is None else float(int(limits.memory) // page * page),
    )


def quota(cpu: float) -> int:
    """The microseconds of every CFS period that a limit of so many CPUs leaves."""
    return round(cpu * CPU_PERIOD_US)


def shares(cpu: float) -> int:
    """The CPU shares of a request, in CPUs, as Kubernetes writes them: 1024 for one CPU, between 2 and 262144."""
    return min(max(int(cpu * 1000) * 1024 // 1000, _SHARES.start), _SHARES.stop - 1)


def weights_for(request: float) -> set[str]:
    """What `weight_in_force` may say of a CPU request.

    Version 2 has weights from 1 to 10000 for shares from 2 to 262144. Runtimes convert in two ways: linearly
    (`1 + (shares - 2) * 9999 / 262142`), and, since runc 1.3.2 and crun 1.23, along a curve that gives the default of
    the one for the default of the other (`10 ^ ((log2(shares)² + 125 * log2(shares)) / 612 - 7 / 34)`, rounded up).
    """
    asked = shares(request)
    if version() == 1:
        return {f"cpu.shares {asked}"}
    exponent = math.log2(asked)
    curved = math.ceil(10 ** ((exponent**2 + 125 * exponent) / 612 - 7 / 34))
    return {f"cpu.weight {1 + (asked - 2) * 9999 // 262142}", f"cpu.weight {curved}"}


def weight_in_force(path: str) -> str:
    """The cgroup's part of a busy machine, read back from the kernel: `cpu.shares 512`, `cpu.weight 20`."""
    name = "cpu.shares" if version() == 1 else "cpu.weight"
    return f"{name} {read(_folder(path, 'cpu') / name).strip()}"


def limits_in_force(path: str) -> str:
    """The limits of a cgroup, read back from the kernel, in the words of `limits_text`."""
    cpu = memory = None
    if version() == 1:
        most = _number(_folder(path, "cpu") / "cpu.cfs_quota_us")
        cpu = most / CPU_PERIOD_US if most and most > 0 else None
        memory = _number(_folder(path, "memory") / "memory.limit_in_bytes")
    else:
        words = read(_folder(path, "cpu") / "cpu.max").split()
        cpu = int(words[0]) / int(words[1]) if words and words[0] != "max" else None
        memory = _number(_folder(path, "memory") / "memory.max")
    return limits_text(cpu, memory if memory and memory < _UNLIMITED else None)


def reserve(path: str) -> None:
    """Make what is above a sandbox's cgroup in every hierarchy, before a runtime makes the cgroup itself.

    Runs on one machine share the uppermost folder, and the last to end removes it: a runtime that was just about
    to make its own below would fail. What cannot be made here, the runtime will complain of.
    """
    for hierarchy in hierarchies():
        folder = (hierarchy / path[1:]).parent
        for _ in range(_ATTEMPTS):
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                if version() == 1:
                    _inherit(folder.parent)
                    _inherit(folder)
                break


def _inherit(folder: Path) -> None:
    """Give a new cpuset of version 1 what the one above it has: it starts empty, and an empty one takes nothing in."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if read(folder / name) == "\n":
            (folder / name).write_text(read(folder.parent / name))


def make(path: str, limits: Limits) -> None:
    """Make a cgroup with limits on CPU and memory.

    Raises StandError when the kernel refuses; the caller removes it.
    """
    settings = _settings(limits)
    reserve(path)
    try:
        for controller in _CONTROLLERS:
            folder = _folder(path, controller)
            folder.mkdir(parents=True, exist_ok=True)
            if version() == 2:
                _enable_above(folder)
            for name, value in settings[controller].items():
                (folder / name).write_text(value)
    except OSError as error:
        raise StandError(f"cgroup {path} cannot be made: {error.strerror} ({error.filename})") from error


def _enable_above(folder: Path) -> None:
    """Give the children of every cgroup of version 2 from the root down to this one's parent the two controllers.

    What has them already is left as it is: a cgroup that holds processes takes no change.
    """
    for above in reversed([parent for parent in folder.parents if parent.is_relative_to(ROOT)]):
        control = above / "cgroup.subtree_control"
        if not set(_CONTROLLERS) <= set(control.read_text().split()):
            control.write_text(" ".join(f"+{controller}" for controller in _CONTROLLERS))


def _settings(limits: Limits) -> dict[str, dict[str, str]]:
    limits = held(limits)
    cpu: dict[str, str] = {}
    memory: dict[str, str] = {}
    if limits.cpu is not None:
        most = str(quota(limits.cpu))
        cpu |= {"cpu.cfs_quota_us": most} if version() == 1 else {"cpu.max": f"{most} {CPU_PERIOD_US}"}
    if limits.request_cpu is not None:
        # Version 2 has two conversions in use, and either will do.
        name, weight = min(weights_for(limits.request_cpu)).split()
        cpu[name] = weight
    if limits.memory is not None:
        memory = {"memory.limit_in_bytes" if version() == 1 else "memory.max": str(int(limits.memory))}
    return {"cpu": cpu, "memory": memory}


def add(path: str, pid: int, *, thread: bool = False) -> None:
    """Move a process, or in version 1 a single thread, into a cgroup.

    Raises StandError when the kernel refuses.
    """
    try:
        for folder in {_folder(path, controller) for controller in _CONTROLLERS}:
            (folder / ("tasks" if thread else "cgroup.procs")).write_text(str(pid))
    except OSError as error:
        raise StandError(f"process {pid} cannot be moved into cgroup {path}: {error.strerror}") from error


def processes(path: str) -> list[int]:
    """The processes in a cgroup and in those below it."""
    folders = subtree(_folder(path, "cpu"))
    return sorted({int(word) for folder in folders for word in read(folder / "cgroup.procs").split()})


def holders(membership: str, path: str) -> set[str]:
    """Which of the controllers on CPU and memory have a process in this very cgroup.

    `membership` is what /proc/PID/cgroup, or a thread's, says (cgroups(7)): a line for each hierarchy of version 1
    with its controllers, and one without any, `0::/path`, for version 2.
    """
    found: set[str] = set()
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        names, _, where = rest.partition(":")
        if where == path:
            unified = number == "0" and not names and version() == 2
            found |= set(_CONTROLLERS) & (set(_CONTROLLERS) if unified else set(names.split(",")))
    return found


def holds(membership: str, path: str) -> bool:
    """Whether every controller on CPU and memory has a process in this very cgroup; `membership` as for `holders`."""
    return holders(membership, path) == set(_CONTROLLERS)


def kill(path: str) -> None:
    """Kill every process in a cgroup and in those below it; does not wait for their end."""
    for pid in processes(path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(path: str) -> None:
    """Remove a cgroup, those below it, and the folders above it as far as they are empty.

    A cgroup stays busy until its last process is reaped, which may be a moment after it was killed.
    """
    tops = [hierarchy / path[1:] for hierarchy in hierarchies()]

    def gone() -> bool:
        for folder in (folder for top in tops for folder in subtree(top)):
            with suppress(OSError):
                folder.rmdir()
        return not any(top.exists() for top in tops)

    with suppress(StandError):
        Deadline(STOP_TIMEOUT).until(gone, f"cgroup {path} to be empty")
    for top in tops:
        with suppress(OSError):
            top.parent.rmdir()
            top.parent.parent.rmdir()


def _folder(path: str, controller: str) -> Path:
    return ROOT / controller / path[1:] if version() == 1 else ROOT / path[1:]


def _number(path: Path) -> float | None:
    text = read(path).strip()
    return float(text) if text.lstrip("-").isdecimal() else None
