"""Running commands: argument lists in, finished records out, every wait with a deadline."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from weighbridge.errors import CommandError, MissingToolError, StandError

ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "NO_COLOR": "1",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The whole environment of every command: a decimal comma or a colour code must not reach a parser."""


_AFTER_KILL = 1.0
"""Seconds that the streams of a killed command are read on."""


def last_line(text: str) -> str:
    """The last line that somebody wrote: a reason has to fit a line of a report."""
    return (text.strip() or "it said nothing").splitlines()[-1].strip()


def pinned(cpus: str | None) -> tuple[str, ...]:
    """What to put before a command so that it and all it starts keep to these processors; nothing for None."""
    return ("taskset", "--cpu-list", cpus) if cpus else ()


class Deadline:
    """A point in time that every wait of one operation shares."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the time is up."""
        return self.remaining == 0.0

    def until(self, condition: Callable[[], bool], what: str, *, interval: float = 0.01) -> None:
        """Wait until `condition()` holds.

        Raises StandError naming `what` when the time is up first.
        """
        while not condition():
            if self.expired:
                raise StandError(f"gave up waiting for {what}")
            time.sleep(min(interval, self.remaining))


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended: what was typed, what came back, how long it took (s)."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    elapsed: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended in time and with exit code 0."""
        return self.code == 0 and not self.timed_out

    def explain(self) -> str:
        """One line: the command, how it ended and the last thing it said."""
        how = "passed its deadline" if self.timed_out else f"ended with {self.code}"
        said = last_line(self.stderr if self.stderr.strip() else self.stdout)
        return f"`{' '.join(self.argv)}` {how} after {self.elapsed:.1f} s: {said}"


class Process(Protocol):
    """A command that is still running, such as a server."""

    @property
    def pid(self) -> int:
        """Its process id, as seen from where the suite runs."""

    def running(self) -> bool:
        """Whether it has not ended yet."""

    def said(self) -> str:
        """What it has written so far, both streams."""

    def stop(self) -> None:
        """End it and everything it started; does nothing when it has ended."""


class Shell(Protocol):
    """A place where commands run: a host, a node of the lab, a pod."""

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True, given: str = "") -> Finished:
        """Run to the end; `given` is what the command reads on its standard input.

        Raises CommandError, with both streams, unless `check` is False.
        """

    def start(self, argv: Sequence[str]) -> Process:
        """Start without waiting."""

    def which(self, program: str) -> str | None:
        """The full path of a program there, None when it is not installed."""


@dataclass(frozen=True)
class LocalProcess:
    """A process group on this machine whose output goes to an unlinked file."""

    popen: subprocess.Popen[bytes]
    output: IO[bytes]

    @property
    def pid(self) -> int:
        """The leader's process id."""
        return self.popen.pid

    def running(self) -> bool:
        """Whether the leader has not ended yet."""
        if self.popen.returncode is not None:
            return False
        # Left unreaped: until `stop` its number is nobody else's, and neither is that of its group.
        return os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def said(self) -> str:
        """Both streams, as far as written."""
        with suppress(ValueError):
            size = os.fstat(self.output.fileno()).st_size
            return os.pread(self.output.fileno(), size, 0).decode(errors="replace")
        return ""

    def stop(self) -> None:
        """Kill the whole group: a server has nothing to save, and its sandbox dies with it."""
        kill_group(self.popen)
        self.output.close()


def kill_group(popen: subprocess.Popen[bytes]) -> None:
    """Kill the process group that `popen` leads and reap it; one that was reaped has lost its number to others."""
    if popen.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()


def _rest(popen: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a killed command had written; a daemon that it left may hold its streams open, and is not waited for."""
    try:
        return popen.communicate(timeout=_AFTER_KILL)
    except subprocess.TimeoutExpired as error:
        for stream in (popen.stdout, popen.stderr):
            if stream:
                stream.close()
        return error.output or b"", error.stderr or b""


@dataclass(frozen=True)
class LocalShell:
    """Commands on this machine, behind `prefix` (such as nsenter and its namespaces)."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True, given: str = "") -> Finished:
        """Run to the end; past the deadline the whole process group is killed."""
        started = time.monotonic()
        source = subprocess.PIPE if given else subprocess.DEVNULL
        popen = self._popen(argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        late = False
        try:
            out, err = popen.communicate(given.encode() or None, timeout=timeout)
        except subprocess.TimeoutExpired:
            late = True
            kill_group(popen)
            out, err = _rest(popen)
        except BaseException:
            kill_group(popen)
            raise
        done = Finished(
            tuple(argv),
            popen.returncode,
            out.decode(errors="replace"),
            err.decode(errors="replace"),
            time.monotonic() - started,
            late,
        )
        if check and not done.ok:
            raise CommandError(done.explain())
        return done

    def start(self, argv: Sequence[str]) -> LocalProcess:
        """Start a process group of its own; the caller stops it."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by LocalProcess.stop
        streams: dict[str, int | IO[bytes]] = {"stdout": output, "stderr": subprocess.STDOUT}
        return LocalProcess(self._popen(argv, stdin=subprocess.DEVNULL, **streams), output)

    def which(self, program: str) -> str | None:
        """Where a program lies on this machine."""
        return shutil.which(program, path=self.environment["PATH"])

    def _popen(self, argv: Sequence[str], **streams: int | IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # type: ignore[call-overload, no-any-return]  # the streams are typed apart
                [*self.prefix, *argv],
                env=dict(self.environment),
                start_new_session=True,
                cwd="/",
                **streams,
            )
        except FileNotFoundError as error:
            raise MissingToolError(f"{error.filename} is not installed here") from error


def find_program(shell: Shell, names: Sequence[str], package: str | None) -> str:
    """The first of `names` that is installed.

    Raises MissingToolError naming the Debian package, or that there is none.
    """
    for name in names:
        if path := shell.which(name):
            return path
    remedy = f"install it with: apt-get install {package}" if package else "no package brings it; put it on PATH"
    raise MissingToolError(f"{names[0]} is not installed; {remedy}")


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary name, fsync, rename: a reader sees the old file or the whole new one.

    What a writer that was killed left under a temporary name of this file is removed. A writer holds a lock on its
    own for as long as it lives, so that nobody takes it for such a one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for other in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if other.suffix[1:].isdecimal() and other != temporary:
            _remove_abandoned(other)
    try:
        with _locked(temporary) as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _locked(temporary: Path) -> IO[str]:
    """The file, empty, and locked while it still has this name."""
    while True:
        stream = temporary.open("a", encoding="utf-8")
        fcntl.flock(stream, fcntl.LOCK_EX)
        try:
            if temporary.stat().st_ino == os.fstat(stream.fileno()).st_ino:
                stream.truncate(0)
                return stream
        except FileNotFoundError:
            pass
        stream.close()


def _remove_abandoned(temporary: Path) -> None:
    with suppress(OSError), temporary.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()
