"""No sandbox: the server is an ordinary process, with no limits of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import descendants, memory, processors, sockets
from weighbridge.runtimes import Command, Files, waits_on
from weighbridge.runtimes import keeps_all as refuses
from weighbridge.runtimes import no_caveat as caveat
from weighbridge.runtimes import nothing_to_fetch as fetch
from weighbridge.shell import Process, Shell

__all__ = ["PACKAGES", "caveat", "fetch", "refuses", "start", "unavailable", "unproven"]

PACKAGES = ()


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Every host runs processes."""
    return None


@dataclass(frozen=True)
class _Plain:
    process: Process
    files: Files
    command: Command

    def evidence(self) -> Mapping[str, str]:
        return {
            "sandbox": "none",
            "process": self.command.argv[0],
            "kernel": self.files.read("/proc/sys/kernel/osrelease").strip(),
            "limits": "none",
            "processors": processors((self._pids or [0])[0]),
        }

    def memory(self) -> int:
        return memory(self._pids)

    def listens(self, transport: str, port: int) -> bool:
        return any(waits_on(sockets(pid, transport), port) for pid in self._pids)

    @property
    def _pids(self) -> list[int]:
        # The leader itself only leads into the namespaces.
        return descendants(self.process.pid)

    def stop(self) -> None:
        self.process.stop()


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _Plain:  # noqa: ARG001 - host has no limits
    """Start it in the pod's network namespace."""
    return _Plain(pod.shell.start([*command.pinned, *command.argv]), files, command)


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:  # noqa: ARG001 - host has no limits
    """A process needs no proof of a sandbox."""
    return None if evidence.get("sandbox") == "none" else "the server runs in a sandbox"
