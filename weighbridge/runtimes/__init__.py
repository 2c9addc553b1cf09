"""What a server runs in, one module each: how a command is wrapped on a host, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.shell import Process, Shell, pinned


@dataclass(frozen=True, slots=True)
class Command:
    """What to run in the sandbox: `argv`, and the `workdir` (seen at the same path inside) it may use."""

    argv: tuple[str, ...]
    workdir: str
    files: Mapping[str, str] = field(default_factory=dict)
    """What `workdir` holds, path to content: written already on the host; a virtual machine takes it along."""
    cpus: str | None = None
    """The processors that the sandbox is kept on, as `taskset --cpu-list` takes them; None leaves it free."""

    @property
    def pinned(self) -> tuple[str, ...]:
        """What to put before a command so that it and all it starts keep to `cpus`."""
        return pinned(self.cpus)


class Files(Protocol):
    """The file system of the place where sandboxes run."""

    def write(self, path: str, content: str | bytes) -> None:
        """Make a file there, and its folders."""

    def read(self, path: str) -> str:
        """The content of a file there; '' when it is not there."""


class Sandbox(Protocol):
    """A running server in its runtime."""

    @property
    def process(self) -> Process:
        """What the target watches and ends."""

    def evidence(self) -> Mapping[str, str]:
        """What proves the runtime: sandbox process, its cgroup, the limits in force, the kernel it sees.

        The keys `sandbox`, `process`, `kernel`, `limits` and `processors` (those it may use) are always there.
        """

    def memory(self) -> int:
        """Bytes of anonymous and shared memory that everything the sandbox keeps here holds, server included.

        Pages of files do not count (`procfs.memory`). Raises StandError when a process of it cannot be asked.
        """

    def listens(self, transport: str, port: int) -> bool:
        """Whether the server inside holds a socket (`tcp`, `udp`) that waits on the port."""

    def stop(self) -> None:
        """End it and undo what starting it made."""


class Runtime(Protocol):
    """What a module under `weighbridge.runtimes` offers to a target that has hosts."""

    PACKAGES: tuple[str, ...]
    """The Debian packages that bring it."""

    def unavailable(self, shell: Shell) -> str | None:
        """Why it cannot run where `shell` runs; None when it can."""

    def refuses(self, limits: Limits, pods: bool) -> str | None:
        """Why it cannot keep these limits, or serve where `pods` have no namespaces of their own; None when it can."""

    def fetch(self) -> str | None:
        """Bring what cannot be installed as a package into the user's cache; what that was, None when nothing.

        Only ever called on an explicit demand, never by a run.
        Raises MissingToolError naming what it needs for that, CommandError when it goes wrong.
        """

    def start(self, pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> Sandbox:
        """Start `command` in the pod's network namespace."""

    def unproven(self, evidence: Mapping[str, str], limits: Limits) -> str | None:
        """What in the evidence does not fit the claim; None when it is proven."""

    def caveat(self, evidence: Mapping[str, str]) -> str | None:
        """Why no verdict may rest on its figures although they are true (an emulated processor); None when one may."""


def no_caveat(evidence: Mapping[str, str]) -> str | None:  # noqa: ARG001 - a runtime's `caveat`
    """Its figures are those of the machine."""
    return None


def keeps_all(limits: Limits, pods: bool) -> str | None:  # noqa: ARG001 - a runtime's `refuses`
    """It runs anywhere, and has no processes of its own that a limit could leave out."""
    return None


def nothing_to_fetch() -> str | None:
    """Packages bring all that it needs."""
    return None


def waits_on(table: str, port: int) -> bool:
    """Whether a socket table (`/proc/net/tcp`, `tcp6`, `udp`, `udp6`, or several of them) has a server on the port.

    The local address is the second column, its port in hexadecimal; the state is 0A for a listening TCP
    socket and 07 for a UDP socket that is not connected (proc(5)).
    """
    rows = (line.split() for line in table.splitlines())
    return any(
        len(row) > 3 and row[1].endswith(f":{port:04X}") and row[3] in {"0A", "07"} for row in rows if ":" in row[0]
    )
