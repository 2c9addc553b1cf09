"""The link between two nodes: a veth pair shaped at both ends to a stated line rate.

A frame takes 24 bytes more on the wire than a packet scheduler sees: preamble 8, FCS 4, gap 12 (IEEE 802.3).
The kernel hands many segments of a TCP stream to the scheduler as one packet, and would add those bytes only
once. So there are two ways to count them:

- up to `EXACT_UP_TO` the token bucket takes packets no larger than a frame, by a peak bucket of one frame that
  binds nothing else: it cuts larger ones into frames, and each frame, of any size, is charged its 24 bytes;
- above, cutting would cost more processor time than the link gives. There the rate is scaled by what a full
  frame takes, `1514 ÷ 1538`: bulk transfers run exactly at line rate, while small frames are charged too
  little (a 242-byte frame by 8 %), at packet rates that a processor hardly reaches anyway.
"""

from __future__ import annotations

from weighbridge.shell import Shell
from weighbridge.wire import MTU, ON_THE_WIRE

HEADER = 14
"""Bytes of an Ethernet header, which the kernel's token bucket counts."""
EXACT_UP_TO = 400e6
"""Line rate, bit/s."""
_PEAK = "64gbit"
"""So high that it never binds; what is wanted of the peak bucket is its size."""
_BURST_SECONDS = 8.4e-3
_LEAST_BURST = 16 * 1024
"""Bytes. The bucket holds 8.4 ms of the line rate, 1 MiB at 1 Gbit/s, to ride out scheduling hiccups of a virtual CPU:
with 32 KiB or 128 KiB a link of 1 Gbit/s loses 1 to 10 % of its rate to them."""


def bucket_rate(line_rate: float) -> float:
    """The token bucket rate (bit/s) at which full frames leave exactly at `line_rate`.

    The bucket counts MTU + 14 bytes for a frame that takes MTU + 38 on the wire.
    """
    return line_rate * (MTU + HEADER) / (MTU + ON_THE_WIRE)


def burst(line_rate: float) -> int:
    """The size of the bucket, in bytes: what passes at once before the rate holds."""
    return max(round(line_rate * _BURST_SECONDS / 8), _LEAST_BURST)


def shape(shell: Shell, device: str, line_rate: float | None) -> None:
    """Shape what leaves `device`; None takes the shape away, if there is one."""
    if line_rate is None:
        if "tbf" in shell.run(["tc", "qdisc", "show", "dev", device, "root"]).stdout:
            shell.run(["tc", "qdisc", "delete", "dev", device, "root"])
        return
    bucket = ["burst", str(burst(line_rate)), "latency", "50ms"]
    if line_rate <= EXACT_UP_TO:
        frame = MTU + ON_THE_WIRE
        overhead = ON_THE_WIRE - HEADER
        counted = ["rate", f"{line_rate:.0f}bit", "peakrate", _PEAK, "mtu", str(frame), "overhead", str(overhead)]
    else:
        counted = ["rate", f"{bucket_rate(line_rate):.0f}bit"]
    shell.run(["tc", "qdisc", "replace", "dev", device, "root", "tbf", *bucket, *counted])
