"""What an Ethernet wire can carry at most: the physical limit beside every throughput, measured or recorded."""

from __future__ import annotations

MTU = 1500
ON_THE_WIRE = 38
"""Bytes that every frame takes on the wire beside its payload: preamble 8, header 14, FCS 4, gap 12 (IEEE 802.3)."""
TCP_HEADERS = 52
"""IPv4 20, TCP 20, timestamps option 12: what Linux sends by default."""


def tcp_limit(line_rate: float, overhead: int) -> tuple[float, str]:
    """TCP payload (bit/s) that a wire of `line_rate` carries when every packet bears `overhead` more bytes.

    Returns the limit and its arithmetic: rate × MSS ÷ (MTU + 38).
    """
    segment = MTU - overhead - TCP_HEADERS
    limit = line_rate * segment / (MTU + ON_THE_WIRE)
    return limit, f"{line_rate / 1e6:g} Mbit/s x {segment} / ({MTU} + {ON_THE_WIRE})"
