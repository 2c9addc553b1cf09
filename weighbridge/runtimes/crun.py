"""crun: the OCI runtime in C, as CRI-O and Podman run it.

It refuses a machine on which cgroup version 2 is mounted beside version 1 (`unified`, hybrid) and has controllers.
There it is run in a mount namespace of its own in which that mount is hidden: it then finds version 1 alone, whose
hierarchies hold the limits anyway. The machine's own mount stays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Files, _oci, _probe
from weighbridge.runtimes import keeps_all as refuses
from weighbridge.runtimes import no_caveat as caveat
from weighbridge.runtimes import nothing_to_fetch as fetch
from weighbridge.shell import Shell

__all__ = ["PACKAGES", "caveat", "fetch", "refuses", "start", "unavailable", "unproven"]

PACKAGES = ("crun",)
_NAME = "crun"
_HIDDEN = (
    *("unshare", "--mount", "--propagation", "private", "--"),
    *(sys.executable, "-I", "-S", str(Path(__file__).with_name("_unmounted.py")), str(cgroups.ROOT / "unified")),
)
_known: dict[str, tuple[str, ...] | str] = {}
"""What was found, by the program: a probe costs a container's start."""


def unavailable(shell: Shell) -> str | None:
    """It needs the program, a cgroup hierarchy to write limits into, and to be shown to start a container."""
    if shell.which(_NAME) is None:
        return f"crun is not installed; install it with: apt-get install {PACKAGES[0]}"
    if reason := cgroups.unavailable():
        return reason
    found = _runtime(shell)
    return found if isinstance(found, str) else None


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _oci.Container:
    """Start a container and wait until its server runs.

    Raises StandError with what crun said when it ends first, or why it cannot start at all.
    """
    found = _runtime(pod.node.shell)
    if isinstance(found, str):
        raise StandError(found)
    return _oci.Engine(_NAME, found, _oci.executes).start(pod, command, limits, files, run_id)


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The program has to be the one claimed, the process in the cgroup that carries the limits asked for."""
    return _oci.misnamed(_NAME, evidence) or _oci.unproven(_NAME, evidence, limits)


def _runtime(shell: Shell) -> tuple[str, ...] | str:
    """The command that starts containers here; else why none does, in crun's words."""
    program = str(shell.which(_NAME))
    if program not in _known:
        _known[program] = _probed(shell)
    return _known[program]


def _probed(shell: Shell) -> tuple[str, ...] | str:
    # The limits are proven on every container; the probe needs no cgroup, so it can leave none.
    without = "--cgroup-manager=disabled"
    version, words = _probe.version_seen(shell, [_NAME, without])
    if version:
        return (_NAME,)
    if "hybrid" in words and cgroups.version() == 1:
        version, words_hidden = _probe.version_seen(shell, [*_HIDDEN, _NAME, without])
        if version:
            return (*_HIDDEN, _NAME)
        words = f"{words}; with that mount hidden: {words_hidden}"
    return f"crun starts no container here: {words}"
