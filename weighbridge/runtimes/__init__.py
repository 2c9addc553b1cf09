"""What a server runs in, one module each: how a command is wrapped on a host, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.shell import Process, Shell


@dataclass(frozen=True, slots=True)
class Command:
    """What to run in the sandbox: `argv`, and the `workdir` (seen at the same path inside) it may use."""

    argv: tuple[str, ...]
    workdir: str


class Files(Protocol):
    """The file system of the place where sandboxes run."""

    def write(self, path: str, text: str) -> None:
        """Make a file there, and its folders."""

    def read(self, path: str) -> str:
        """The content of a file there; '' when it is not there."""


class Sandbox(Protocol):
    """A running server in its runtime."""

    @property
    def process(self) -> Process:
        """What the target watches and ends."""

    def evidence(self) -> Mapping[str, str]:
        """What proves the runtime: sandbox process, its cgroup, the limits in force, the kernel it sees."""

    def stop(self) -> None:
        """End it and undo what starting it made."""


class Runtime(Protocol):
    """What a module under `weighbridge.runtimes` offers to a target that has hosts."""

    PACKAGE: str | None
    """The Debian package that brings it."""

    def unavailable(self, shell: Shell) -> str | None:
        """Why it cannot run where `shell` runs; None when it can."""

    def start(self, pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> Sandbox:
        """Start `command` in the pod's network namespace."""

    def unproven(self, evidence: Mapping[str, str], limits: Limits) -> str | None:
        """What in the evidence does not fit the claim; None when it is proven."""
