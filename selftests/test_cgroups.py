"""Control groups, made and read back from the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.model import Limits

pytestmark = pytest.mark.skipif(cgroups.unavailable() is not None, reason=str(cgroups.unavailable()))

PATH = cgroups.path_of("selftest-cgroups", "one")


@pytest.fixture
def asleep() -> Iterator[subprocess.Popen[bytes]]:
    """A process to put into a cgroup."""
    popen = subprocess.Popen(["sleep", "60"])
    yield popen
    popen.kill()
    popen.wait()
    cgroups.remove(PATH)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(), "none"),
        (Limits(cpu=0.5), "cpu 0.5"),
        (Limits(memory=2.0**28), f"memory {2**28}"),
        (Limits(cpu=1.0, memory=2.0**31), f"cpu 1 memory {2**31}"),
        (Limits(cpu=0.29), "cpu 0.29"),
    ],
)
def test_limits_are_read_back_from_the_kernel(asleep: subprocess.Popen[bytes], limits: Limits, text: str) -> None:
    """What is in force is what was asked for, and a process that was moved in is in it."""
    cgroups.make(PATH, limits)
    cgroups.add(PATH, asleep.pid)

    assert cgroups.limits_in_force(PATH) == text == text_of(cgroups.held(limits))
    assert cgroups.processes(PATH) == [asleep.pid]


def test_memory_that_is_no_whole_pages_is_expected_as_the_kernel_holds_it(asleep: subprocess.Popen[bytes]) -> None:
    """A limit in decimal megabytes, or finer than the period's microseconds, is proven like any other."""
    limits = Limits(cpu=0.1234567, memory=500e6 + 1)
    cgroups.make(PATH, limits)

    assert asleep.poll() is None
    assert cgroups.limits_in_force(PATH) == text_of(cgroups.held(limits)) != text_of(limits)


def text_of(limits: Limits) -> str:
    return cgroups.limits_text(limits.cpu, limits.memory)


def test_process_is_held_by_the_cgroup_that_it_was_moved_into(asleep: subprocess.Popen[bytes]) -> None:
    """The kernel's own table is read: in the cgroup after the move and not before, and in no longer or shorter one."""
    cgroups.make(PATH, Limits())
    assert not cgroups.holds(membership_of(asleep.pid), PATH)

    cgroups.add(PATH, asleep.pid)

    assert cgroups.holds(membership_of(asleep.pid), PATH)
    assert not cgroups.holds(membership_of(asleep.pid), f"{PATH}x")
    assert not cgroups.holds(membership_of(asleep.pid), PATH[:-1])


def membership_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def test_removed_cgroup_leaves_no_folder(asleep: subprocess.Popen[bytes]) -> None:
    """Tear-down takes the run's own folder along, in every hierarchy."""
    cgroups.make(PATH, Limits(cpu=1.0))
    cgroups.add(PATH, asleep.pid)
    asleep.kill()
    asleep.wait()

    cgroups.remove(PATH)

    assert not list(cgroups.ROOT.glob("**/selftest-cgroups"))


def test_refusal_of_the_kernel_names_the_cgroup(asleep: subprocess.Popen[bytes]) -> None:
    """A process that is gone cannot be moved: one line says which and where to."""
    cgroups.make(PATH, Limits())

    with pytest.raises(StandError, match=r"process 4194305 cannot be moved into cgroup /weighbridge/selftest-cgroups"):
        cgroups.add(PATH, 2**22 + 1)
