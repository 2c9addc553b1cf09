"""Kata Containers: a virtual machine per pod.

The lab cannot start it, so its cells are skipped there; recordings of it are judged like any other.
"""

from __future__ import annotations

from weighbridge.runtimes import keeps_all as refuses
from weighbridge.runtimes import nothing_to_fetch as fetch
from weighbridge.shell import Shell

__all__ = ["PACKAGES", "fetch", "refuses", "unavailable"]

PACKAGES = ()


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Say that the lab cannot start it."""
    return "the lab cannot start kata"
