"""What of a micro-VM counts against the limits of its pod, and where the kernel is told so.

`inside` (Kata's `sandbox_cgroup_only = true`): the whole of QEMU is in the limited cgroup. Its own memory
counts too, so the guest gets the memory limit less `MONITOR_MEMORY`; a guest as large as the limit would be
killed once it used all of it, which is why Kubernetes adds a pod overhead of this kind for Kata.

`outside` (Kata's `sandbox_cgroup_only = false`): only the threads of virtual CPUs are in the limited cgroup, the
rest of QEMU is in an unlimited one beside it, as in Kata's `kata_overhead`. The memory limit is the guest's size.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.procfs import descendants, read
from weighbridge.runtimes._qmp import Monitor
from weighbridge.shell import Deadline, Process, last_line

_MIB = 2**20
DEFAULT_MEMORY = 512 * _MIB
"""What a guest without a memory limit gets. Kata's own default is 2 GiB, which no server here comes near."""
LEAST_MEMORY = 128 * _MIB
"""Below it a general-purpose kernel and its initramfs do not boot reliably."""
MONITOR_MEMORY = 96 * _MIB
"""What QEMU itself holds besides the guest's memory, at most."""
_MONITOR_TIMEOUT = 20.0
_VIRTUAL_PROCESSOR = re.compile(r"CPU \d+/")
"""The name that QEMU, asked for `debug-threads`, gives the thread of a virtual CPU."""


def refuses(limits: Limits) -> str | None:
    """Why these limits cannot be set here; None when they can.

    Without cgroups the size of the machine is a limit too: of the memory, and of whole CPUs, where QEMU's own
    threads do not count.
    """
    outside = limits.sandbox_overhead == "outside"
    least = LEAST_MEMORY + (0 if outside else MONITOR_MEMORY)
    if limits.memory is not None and limits.memory < least:
        return f"a virtual machine needs a memory limit of {least // _MIB} MiB at least"
    limited = limits.cpu is not None or limits.memory is not None
    reason = cgroups.unavailable()
    if reason is None:
        if outside and cgroups.version() != 1:
            return "a limit on the threads of virtual CPUs alone (sandbox_overhead = outside) needs cgroup version 1"
        return None
    by_size = outside and limits.request_cpu is None and (limits.cpu is None or limits.cpu == int(limits.cpu))
    return None if by_size or not (limited or limits.request_cpu is not None) else reason


def guest_memory(limits: Limits) -> int:
    """The guest's size in bytes, whole MiB."""
    if limits.memory is None:
        return DEFAULT_MEMORY
    reserved = MONITOR_MEMORY if limits.sandbox_overhead == "inside" else 0
    return (int(limits.memory) - reserved) // _MIB * _MIB


def held(limits: Limits) -> Limits:
    """The limits as they will be in force: where the guest's size is the memory limit, that is whole MiB."""
    binding = cgroups.held(limits)
    if limits.memory is None or limits.sandbox_overhead == "inside":
        return binding
    return replace(binding, memory=float(guest_memory(limits)))


def overhead_of(cgroup: str) -> str:
    """The unlimited cgroup beside a limited one."""
    return f"{cgroup}-overhead"


def begin(process: Process, socket: str, cgroup: str | None, limits: Limits) -> int:
    """Put a paused QEMU under its limits, then let it run; returns its process id.

    Raises StandError when it ends first, does not answer, or the kernel refuses a limit.
    """
    found: list[tuple[int, Monitor]] = []

    def answers() -> bool:
        if not process.running():
            raise StandError(f"QEMU ended at once: {last_line(process.said())}")
        for pid in descendants(process.pid):
            if read(Path(f"/proc/{pid}/comm")).startswith("qemu"):
                with suppress(OSError):
                    found.append((pid, Monitor(Path(f"/proc/{pid}/root{socket}"))))
        return bool(found)

    Deadline(_MONITOR_TIMEOUT).until(answers, "QEMU's monitor", interval=0.005)
    pid, monitor = found[0]
    try:
        if cgroup:
            _confine(pid, cgroup, limits)
        monitor.execute("cont")
    finally:
        monitor.close()
    return pid


def _confine(pid: int, cgroup: str, limits: Limits) -> None:
    cgroups.make(cgroup, limits)
    if limits.sandbox_overhead == "inside":
        cgroups.add(cgroup, pid)
        return
    cgroups.make(overhead_of(cgroup), Limits())
    cgroups.add(overhead_of(cgroup), pid)
    threads = virtual_processors(pid)
    if not threads:
        raise StandError("QEMU shows no thread of a virtual CPU, so its limit cannot be set")
    for thread in threads:
        cgroups.add(cgroup, thread, thread=True)


def virtual_processors(pid: int) -> list[int]:
    """The threads of QEMU that run virtual CPUs."""
    tasks = Path(f"/proc/{pid}/task").glob("*")
    return sorted(int(task.name) for task in tasks if _VIRTUAL_PROCESSOR.match(read(task / "comm")))


def confined(pid: int, cgroup: str, limits: Limits) -> bool:
    """Whether the kernel has QEMU, or its virtual CPUs and they alone, in the limited cgroup."""
    threads = {int(task.name) for task in Path(f"/proc/{pid}/task").glob("*")}
    memberships = {thread: read(Path(f"/proc/{pid}/task/{thread}/cgroup")) for thread in threads}
    wanted = threads if limits.sandbox_overhead == "inside" else set(virtual_processors(pid))
    # In part in the limited cgroup is neither in it nor outside.
    return bool(wanted) and all(
        cgroups.holds(said, cgroup) if thread in wanted else not cgroups.holders(said, cgroup)
        for thread, said in memberships.items()
    )


def in_force(cgroup: str | None, limits: Limits, processors: int, memory: int) -> str:
    """The limits that bind a machine of that size: its cgroup's, or its size where that alone is the limit."""
    by_size = cgroups.limits_text(None, memory if limits.memory is not None else None)
    if cgroup is None:
        return cgroups.limits_text(processors if limits.cpu is not None else None, memory if limits.memory else None)
    if limits.sandbox_overhead == "inside":
        return cgroups.limits_in_force(cgroup)
    quota = cgroups.limits_in_force(cgroup)
    words = [word for word in (quota.partition("memory")[0].strip(), by_size) if word not in {"", "none"}]
    return " ".join(words) or "none"


def remove(cgroup: str) -> None:
    """Remove the cgroups of a machine that has ended."""
    cgroups.remove(cgroup)
    cgroups.remove(overhead_of(cgroup))
