"""Traffic between pods, and what a link saw of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weighbridge.hosts import Node, Pod
from weighbridge.shell import Deadline, Shell


def ping(client: Shell, address: str, size: int = 56, count: int = 5, *options: str) -> bool:
    """Whether every one of `count` packets was answered, none of them split."""
    command = ["ping", "-c", str(count), "-i", "0.002", "-W", "3", "-M", "do", "-s", str(size), *options, address]
    done = client.run(command, check=False, timeout=15)
    return done.ok and f" {count} received" in done.stdout


def reaches(client: Shell, address: str) -> bool:
    """Whether a packet is answered within some tries: the first may wait for switches and neighbours to be learnt."""
    return any(ping(client, address, count=1) for _ in range(5))


def sent(node: Node, device: str) -> tuple[int, int]:
    """Packets and bytes that a device of a node has sent."""
    stats = json.loads(node.shell.run(["ip", "-j", "-s", "link", "show", device]).stdout)[0]["stats64"]
    return int(stats["tx"]["packets"]), int(stats["tx"]["bytes"])


def connects(client: Pod, server: Pod, port: int) -> bool:
    """Whether a TCP connection comes about within a second."""
    program = f"import socket; socket.create_connection(('{server.address}', {port}), timeout=1)"
    return client.shell.run([sys.executable, "-I", "-S", "-c", program], check=False).ok


@contextmanager
def watched(node: Node, device: str) -> Iterator[list[bytes]]:
    """The first bytes of every frame that passes the device meanwhile; the list is full after the context."""
    frames: list[bytes] = []
    script = str(Path(__file__).with_name("frames.py"))
    watching = node.shell.start([sys.executable, "-I", "-S", script, device])
    try:
        Deadline(5).until(lambda: "ready" in watching.said(), "the watch to begin")
        yield frames
        frames += [bytes.fromhex(line) for line in watching.said().splitlines()[1:]]
    finally:
        watching.stop()
