"""gVisor: a user-space kernel per pod.

The lab cannot start it, so its cells are skipped there; recordings of it are judged like any other.
"""

from __future__ import annotations

from weighbridge.shell import Shell

PACKAGES = ()


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Say that the lab cannot start it."""
    return "the lab cannot start gvisor"
