"""runc: a container of the host's own kernel, as most Kubernetes nodes run it."""

from __future__ import annotations

from collections.abc import Mapping

from weighbridge import cgroups
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Files, _oci
from weighbridge.runtimes import keeps_all as refuses
from weighbridge.runtimes import no_caveat as caveat
from weighbridge.runtimes import nothing_to_fetch as fetch
from weighbridge.shell import Shell

__all__ = ["PACKAGES", "caveat", "fetch", "refuses", "start", "unavailable", "unproven"]

PACKAGES = ("runc",)
_NAME = "runc"


def unavailable(shell: Shell) -> str | None:
    """It needs the program and a cgroup hierarchy to write limits into."""
    if shell.which(_NAME) is None:
        return f"runc is not installed; install it with: apt-get install {PACKAGES[0]}"
    return cgroups.unavailable()


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _oci.Container:
    """Start a container and wait until its server runs.

    Raises StandError with what runc said when it ends first.
    """
    return _oci.Engine(_NAME, (_NAME,), _oci.executes).start(pod, command, limits, files, run_id)


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The program has to be the one claimed, the process in the cgroup that carries the limits asked for."""
    return _oci.misnamed(_NAME, evidence) or _oci.unproven(_NAME, evidence, limits)
