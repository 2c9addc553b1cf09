"""What the kernel tells of processes."""

from __future__ import annotations

import mmap
import os
import platform
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from weighbridge.errors import StandError
from weighbridge.procfs import CpuTimes, cpu_times, descendants, memory, processors, read, sockets
from weighbridge.runtimes import waits_on
from weighbridge.shell import Deadline


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child of its own, both waiting for their input to end."""
    inner = "import sys; print('up', flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    popen = subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    yield popen
    popen.communicate()


def test_descendants_are_found_and_a_dead_process_has_none(family: subprocess.Popen[bytes]) -> None:
    """Memory and sockets of a sandbox are those of all that it started."""
    found = descendants(os.getpid())

    assert family.pid in found
    assert len(descendants(family.pid)) == 1
    assert descendants(2**22 + 1) == []


def test_memory_adds_up_over_a_sandbox(family: subprocess.Popen[bytes]) -> None:
    """What a process holds is there for each, adds up over a sandbox, and is nothing for one that is gone."""
    both = [family.pid, *descendants(family.pid)]

    assert 2**20 < memory(both[:1]) < memory(both) < 2**30
    assert memory([2**22 + 1]) == 0


def test_memory_is_what_was_taken_and_no_file() -> None:
    """Forty mebibytes taken are forty more; the pages of a file that is mapped are the kernel's."""
    before = memory([os.getpid()])
    taken = mmap.mmap(-1, 40 * 2**20)
    taken.write(b"x" * 40 * 2**20)

    assert memory([os.getpid()]) - before == pytest.approx(40 * 2**20, rel=0.1)
    taken.close()
    with Path(sys.executable).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = memory([os.getpid()])
        assert len(bytes(mapped[::4096])) > 0
        assert memory([os.getpid()]) - before < 2**20


def test_memory_of_what_waits_to_be_reaped_is_nothing() -> None:
    """A process that has ended gives its memory back before anybody reaps it, and that is no error."""
    popen = subprocess.Popen(["sleep", "60"])
    popen.kill()
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)

    assert memory([popen.pid]) == 0
    popen.wait()


def test_memory_outlives_the_first_thread() -> None:
    """A process whose first thread has ended holds what it held."""
    program = """
        import ctypes, platform, threading, time
        taken = bytes(range(256)) * (40 * 4096)
        threading.Thread(target=time.sleep, args=(60,)).start()
        print("up", flush=True)
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
    """
    if platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip(f"the number of the system call exit is not known for {platform.machine()}")
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as popen:
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline() == b"up\n"
            Deadline(10).until(lambda: "\nState:\tZ" in read(Path(f"/proc/{popen.pid}/status")), "the thread to end")
            assert memory([popen.pid]) > 40 * 2**20
        finally:
            popen.kill()


def test_memory_that_cannot_be_asked_for_is_no_zero() -> None:
    """A living process of somebody else is an error that names the file."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    asked = os.getpid()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:  # it must never come back into the test run
        try:
            os.setuid(65534)
            os.write(theirs, str(memory([asked])).encode())
        except StandError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        assert said.read() == f"/proc/{asked}/smaps_rollup cannot be read: Permission denied"


def test_kernel_that_does_not_part_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lines for anonymous and shared memory there is no figure, not even half of one."""
    for text in ("Rss: 12 kB\nPss: 8 kB\n", "Pss_Shmem: 8 kB\n", ""):
        monkeypatch.setattr(Path, "read_text", lambda _, text=text: text)
        with pytest.raises(StandError, match=r"smaps_rollup names no Pss_Anon"):
            memory([os.getpid()])


def test_processors_are_those_a_process_may_use() -> None:
    """Placement is proven by the kernel's own word."""
    mine = sorted(os.sched_getaffinity(0))
    popen = subprocess.Popen(["sleep", "60"])
    try:
        os.sched_setaffinity(popen.pid, {mine[0]})
        assert processors(popen.pid) == str(mine[0])
    finally:
        popen.kill()
        popen.wait()
    assert processors(2**22 + 1) == ""


@pytest.mark.parametrize(("kind", "transport"), [(socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")])
@pytest.mark.parametrize("family_of", [socket.AF_INET, socket.AF_INET6])
def test_server_sockets_are_seen_in_the_tables(
    kind: socket.SocketKind, transport: str, family_of: socket.AddressFamily
) -> None:
    """A server waits when its socket does: bound is not listening for TCP, and the other transport is another port."""
    with socket.socket(family_of, kind) as server:
        server.bind(("", 0))
        port = server.getsockname()[1]
        if transport == "tcp":
            assert not waits_on(sockets(os.getpid(), transport), port)
            server.listen()

        assert waits_on(sockets(os.getpid(), transport), port)
        assert not waits_on(sockets(os.getpid(), "udp" if transport == "tcp" else "tcp"), port)
    assert not waits_on(sockets(os.getpid(), transport), port)


def test_stolen_time_is_a_share_of_what_passed() -> None:
    """Steal is a share between two readings, and zero where the clock did not move."""
    assert CpuTimes(300, 30).stolen_since(CpuTimes(100, 10)) == pytest.approx(0.1)
    assert CpuTimes(100, 10).stolen_since(CpuTimes(100, 10)) == 0
    assert cpu_times().total > 0
