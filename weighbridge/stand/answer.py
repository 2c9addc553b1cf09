"""Starting a server and waiting for its first answer, which is what its start-up takes.

Where a client that connects and leaves does no harm, one knocks until the server opens: that is seen from where the
load will come from, whatever the server runs in. Other servers, and those that wait for datagrams, are asked for
their sockets.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.runtimes import Sandbox
from weighbridge.shell import Deadline, Process, last_line
from weighbridge.tools import Endpoint

READY_TIMEOUT = 30.0
"""Seconds; a virtual machine on an emulated, busy processor takes its time. A server that dies is noticed at once."""
_POLL = 0.005


@dataclass(frozen=True, slots=True)
class Started:
    """A server that answers, and how long that took, in seconds."""

    sandbox: Sandbox
    start_up_time: float


@dataclass(frozen=True, slots=True)
class Awaited:
    """Which server is waited for, by whom, and where it will be."""

    what: str
    client: Pod
    endpoint: Endpoint
    transport: str
    port: int
    """The one it waits on itself, which a service may show as another."""


def started(start: Callable[[], Sandbox], awaited: Awaited, *, knock: bool) -> Started:
    """Start a server and wait for it.

    Raises StandError, with the server's last words, when it ends first or does not answer in time; it is stopped then.
    """
    waiting = _knocking(awaited) if knock else None
    try:
        begun = time.monotonic()
        sandbox = start()
        try:
            answered = _answered(waiting, sandbox, awaited)
            return Started(sandbox, answered - begun)
        except BaseException:
            sandbox.stop()
            raise
    finally:
        if waiting:
            waiting.stop()


def _knocking(awaited: Awaited) -> Process:
    """A process in the client's place that tries to connect, begun before the server so that it costs it no time."""
    script, endpoint = str(Path(__file__).with_name("_answer.py")), awaited.endpoint
    command = [sys.executable, "-I", "-S", script, endpoint.host, str(endpoint.port), str(READY_TIMEOUT)]
    waiting = awaited.client.shell.start(command)
    try:
        Deadline(READY_TIMEOUT).until(lambda: "waiting" in waiting.said() or not waiting.running(), "a client to wait")
    except StandError:
        waiting.stop()
        raise
    return waiting


def _answered(waiting: Process | None, sandbox: Sandbox, awaited: Awaited) -> float:
    """When the server first answered, on the monotonic clock."""

    def ready() -> bool:
        if not sandbox.process.running():
            raise StandError(f"{awaited.what} ended at once: {last_line(sandbox.process.said())}")
        if waiting is None:
            return sandbox.listens(awaited.transport, awaited.port)
        return "answered" in waiting.said() or not waiting.running()

    Deadline(READY_TIMEOUT).until(ready, f"{awaited.what} to listen on port {awaited.port}", interval=_POLL)
    if waiting is None:
        return time.monotonic()
    said = waiting.said().split()
    if "answered" not in said:
        raise StandError(f"gave up waiting for {awaited.what} to answer on port {awaited.port}")
    return float(said[said.index("answered") + 1])
