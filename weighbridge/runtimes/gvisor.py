"""gVisor: a user-space kernel per pod, the sentry, with a network stack of its own.

The application's system calls and its packets end in the sentry, so application and sentry are one group of
processes: nothing can hold the one to a limit without the other. On the host's network the sentry uses the host's
sockets instead, as a pod with `hostNetwork` does: its netstack would take the node's address away.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import command_line, processors, read
from weighbridge.runtimes import Command, Files, _oci, _runsc, waits_on
from weighbridge.runtimes import no_caveat as caveat
from weighbridge.runtimes._takeover import Taken, taken
from weighbridge.shell import Deadline, Process, Shell

__all__ = ["PACKAGES", "caveat", "fetch", "refuses", "start", "unavailable", "unproven"]

PACKAGES = ("runsc",)
_NAME = "gvisor"
_SENTRY = "runsc-sandbox"
_PATIENCE = 3.0


def unavailable(shell: Shell) -> str | None:
    """It needs a cgroup hierarchy, and a runsc that is shown to start a container."""
    if reason := cgroups.unavailable():
        return reason
    found = _runsc.find(shell)
    return found if isinstance(found, str) else None


def refuses(limits: Limits, pods: bool) -> str | None:  # noqa: ARG001 - on a node it uses the node's sockets
    """Its overhead cannot be outside of the limits."""
    if limits.sandbox_overhead == "outside":
        return "gvisor cannot keep its overhead outside the limits: the application runs in the sentry's own processes"
    return None


def fetch() -> str | None:
    """Build runsc into the user's cache, newer than Debian's; None when it is there.

    Raises MissingToolError naming what that needs.
    """
    return _runsc.build()


@dataclass(frozen=True)
class _Sandbox:
    container: _oci.Container
    runsc: _runsc.Runsc
    pod: Pod
    workdir: str
    taken: Taken | None

    @property
    def process(self) -> Process:
        return self.container.process

    @cached_property
    def kernel(self) -> str:
        """What `/proc/version` says inside; it does not change while the sandbox lives."""
        return self._exec("/bin/cat", "/proc/version").strip()

    def evidence(self) -> Mapping[str, str]:
        state, cgroup, sentry = self.container.state(), self.container.cgroup, _sentry(self.container)
        return {
            "sandbox": _NAME,
            "process": f"{state['id']} {state['status']}",
            "runtime": f"runsc {self.runsc.version}, platform {self.runsc.platform}",
            "network stack": "netstack" if self.taken else "the host's",
            "kernel": _release(self.kernel),
            "kernel of the host": platform.release(),
            "version": self.kernel,
            "sentry": _SENTRY if sentry else "",
            "cgroup": cgroup if cgroups.holds(read(Path(f"/proc/{sentry}/cgroup")), cgroup) else "",
            "limits": cgroups.limits_in_force(cgroup),
            "cpu weight": cgroups.weight_in_force(cgroup),
            "processors": processors(sentry or 0),
        }

    def memory(self) -> int:
        return self.container.memory()

    def listens(self, transport: str, port: int) -> bool:
        if self.taken is None:
            return self.container.listens(transport, port)
        return waits_on(self._exec("/bin/cat", f"/proc/net/{transport}", f"/proc/net/{transport}6"), port)

    def stop(self) -> None:
        self.container.stop()
        if self.taken:
            self.taken.give_back(self.pod, self.container.files, self.workdir)

    def _exec(self, *argv: str) -> str:
        return self.container.shell.run(
            [*self.container.runtime, "exec", self.container.name, *argv], check=False
        ).stdout


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _Sandbox:
    """Start a sandbox and wait until its application runs.

    Raises StandError with what runsc said when it ends first, or why it cannot start at all.
    """
    found = _runsc.find(pod.node.shell)
    if isinstance(found, str):
        raise StandError(found)
    own = pod.namespace != pod.node.name
    before = taken(pod, files, command.workdir) if own else None
    network = "sandbox" if own else "host"
    up = partial(_up, patience=Deadline(_PATIENCE))
    engine = _oci.Engine(_NAME, (found.path, f"--platform={found.platform}", f"--network={network}"), up)
    try:
        container = engine.start(pod, command, limits, files, run_id)
    except BaseException:
        if before:
            before.give_back(pod, files, command.workdir)
        raise
    return _Sandbox(container, found, pod, command.workdir, before)


def _up(container: _oci.Container, patience: Deadline) -> bool:
    """The sandbox runs long before its application: only runsc's own record tells when that was started."""
    if saved := container.files.read(f"{container.root}/{container.name}_sandbox:{container.name}.state"):
        return '"status":"running"' in saved.replace(" ", "")
    # A runsc that keeps its record elsewhere is asked, which costs a process each time.
    return patience.expired and _sentry(container) is not None and container.state()["status"] == "running"


def _sentry(container: _oci.Container) -> int | None:
    """The process that is the user-space kernel."""
    return next((pid for pid in container.processes if command_line(pid)[0] == _SENTRY), None)


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The server has to see another kernel than the host's, its sentry has to be in the cgroup with the limits."""
    if reason := _oci.unproven(_NAME, evidence, limits):
        return reason
    kernel = evidence.get("kernel")
    if not kernel or kernel == evidence.get("kernel of the host"):
        return f"the server sees kernel {kernel or '?'}, so no kernel of gVisor's is under it"
    return None


def _release(version: str) -> str:
    """The release in the text of `/proc/version`: `Linux version 4.4.0 #1 SMP …`."""
    words = version.split()
    return words[2] if words[:2] == ["Linux", "version"] and len(words) > 2 else ""
