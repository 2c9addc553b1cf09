"""The link between two nodes: a veth pair shaped at both ends to a stated line rate."""

from __future__ import annotations

from weighbridge.shell import Shell

MTU = 1500
HEADER = 14
"""Bytes of an Ethernet header, which the kernel's token bucket counts."""
ON_THE_WIRE = 38
"""Bytes that every frame takes on the wire beside its payload: preamble 8, header 14, FCS 4, gap 12 (IEEE 802.3)."""
TCP_HEADERS = 52
"""IPv4 20, TCP 20, timestamps option 12: what Linux sends by default."""


def bucket_rate(line_rate: float) -> float:
    """The token bucket rate (bit/s) at which full frames leave exactly at `line_rate`.

    The bucket counts MTU + 14 bytes for a frame that takes MTU + 38 on the wire.
    """
    return line_rate * (MTU + HEADER) / (MTU + ON_THE_WIRE)


def tcp_limit(line_rate: float, overhead: int) -> tuple[float, str]:
    """TCP payload (bit/s) that a wire of `line_rate` carries when every packet bears `overhead` more bytes.

    Returns the limit and its arithmetic: rate × MSS ÷ (MTU + 38).
    """
    segment = MTU - overhead - TCP_HEADERS
    limit = line_rate * segment / (MTU + ON_THE_WIRE)
    return limit, f"{line_rate / 1e6:g} Mbit/s x {segment} / ({MTU} + {ON_THE_WIRE})"


def shape(shell: Shell, device: str, line_rate: float) -> None:
    """Shape what leaves `device`.

    The burst of 1 MiB rides out scheduling hiccups of a virtual CPU: with 32 KiB or 128 KiB the link
    loses 1 to 10 % of its rate to them.
    """
    rate = f"{bucket_rate(line_rate):.0f}bit"
    shell.run(["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "1m", "latency", "50ms"])
