"""The link between two nodes: a veth pair shaped at both ends to a stated line rate."""

from __future__ import annotations

from weighbridge.shell import Shell
from weighbridge.wire import MTU, ON_THE_WIRE

HEADER = 14
"""Bytes of an Ethernet header, which the kernel's token bucket counts."""


def bucket_rate(line_rate: float) -> float:
    """The token bucket rate (bit/s) at which full frames leave exactly at `line_rate`.

    The bucket counts MTU + 14 bytes for a frame that takes MTU + 38 on the wire.
    """
    return line_rate * (MTU + HEADER) / (MTU + ON_THE_WIRE)


def shape(shell: Shell, device: str, line_rate: float | None) -> None:
    """Shape what leaves `device`; None takes the shape away.

    The burst of 1 MiB rides out scheduling hiccups of a virtual CPU: with 32 KiB or 128 KiB the link
    loses 1 to 10 % of its rate to them.
    """
    if line_rate is None:
        shell.run(["tc", "qdisc", "delete", "dev", device, "root"])
        return
    rate = f"{bucket_rate(line_rate):.0f}bit"
    shell.run(["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "1m", "latency", "50ms"])
