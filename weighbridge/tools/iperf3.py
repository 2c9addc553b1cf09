"""iperf3: bulk TCP, UDP and SCTP throughput with the views of both sides; JSON (which `argv` asks for) and text.

Units, from its `src/units.c` and manual: bytes in powers of 1024 ("MBytes" = 2^20 byte, "KBytes/sec" = 1024 byte/s),
bits in powers of 1000 ("Gbits/sec" = 10^9 bit/s), in every `-f`. JSON has bytes, bit/s and seconds unscaled; rtt in µs,
max_snd_cwnd in bytes, jitter in ms, loss and CPU in percent (of one core: 100 is one busy core).

A sender's row says what was handed to the kernel, a receiver's row what arrived. Where a sender's UDP row prints
jitter and loss they are placeholders and are not kept. Up to 3.1 (and in `streams[].udp` of every version) one UDP row
mixes the sender's bytes and rate with the receiver's jitter and loss: such a result has no `direction`.
The duration is the side's own: `end - start`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, field_validator, model_validator

from weighbridge import tools
from weighbridge.errors import ParseError
from weighbridge.tools import Endpoint, Result, _iperf3_documents, _iperf3_json, _iperf3_text
from weighbridge.units import BitRate, Count, Duration, Size

PROGRAMS = ("iperf3",)
PACKAGE = "iperf3"
CLOSED_LOOP = True
CUSTOMARY = {"throughput": "Mbit/s", "jitter": "ms"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""
METRICS = (
    "throughput",
    "duration",
    "bytes_*",
    "packet*",
    "jitter",
    "retransmits",
    "congestion_window",
    "cpu_cores_*",
    "round_trip_time_*",
)
"""What it may print, as patterns of metric names; a budget on anything else is refused."""

_CONNECT_TIMEOUT_MS = 5000


class Load(tools.Load):
    """What iperf3 sends: for how long, how many streams, which way, and for UDP how fast."""

    duration: Duration = Field(default=10.0, ge=1)
    udp: bool = False
    bandwidth: BitRate | None = Field(default=None, ge=1)
    streams: Count = Field(default=1, ge=1, le=128)
    reverse: bool = False
    length: Size | None = Field(default=None, ge=1)
    bidir: bool = False
    omit: Duration | None = Field(default=None, ge=0, le=600)
    window: Size | None = Field(default=None, ge=1)
    mss: Count | None = Field(default=None, ge=1)

    @field_validator("duration", "omit")
    @classmethod
    def _whole_seconds(cls, value: float | None) -> float | None:
        if value is not None and value != int(value):
            raise ValueError(f"iperf3 counts whole seconds, not {value:g} s")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Load:
        if self.reverse and self.bidir:
            raise ValueError("reverse and bidir exclude each other")
        return self


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """Return the client's command line: JSON, and five seconds at most to connect."""
    words = [program, "-J", "--connect-timeout", str(_CONNECT_TIMEOUT_MS), "-c", server.host, "-p", str(server.port)]
    words += ["-t", str(int(load.duration))]
    words += ["-u"] if load.udp else []
    words += ["-b", str(round(load.bandwidth))] if load.bandwidth is not None else []
    words += ["-P", str(load.streams)] if load.streams > 1 else []
    words += ["-R"] if load.reverse else []
    words += ["--bidir"] if load.bidir else []
    words += ["-O", str(int(load.omit))] if load.omit else []
    words += ["-l", str(round(load.length))] if load.length is not None else []
    words += ["-w", str(round(load.window))] if load.window is not None else []
    words += ["-M", str(load.mss)] if load.mss is not None else []
    return words


def planned(load: Load) -> float:
    """How long one run should take, in seconds: the omitted start comes on top of the duration."""
    return load.duration + (load.omit or 0.0)


def parse(text: str) -> tuple[Result, ...]:
    """Every stream's and every SUM's sender and receiver figures, in the order printed.

    Labels: `test`, `stream`, `direction`; `role` (`TX-C`, `RX-C`) in bidirectional runs; `run` where there are several.
    Raises ParseError when the output is an error, cut short or unreadable, ContradictionError when bytes, time and
    rate, datagrams and percentage, or a SUM and its streams exclude each other.
    """
    results = _iperf3_json.parse(text) if _iperf3_documents.is_json(text) else _iperf3_text.parse(text)
    if not results:
        raise ParseError("no output of iperf3", text)
    return results


def select(results: Sequence[Result], load: Load) -> Mapping[str, float]:
    """Return the receiver's total, with the sender's `retransmits` (TCP) or `packets_sent` (UDP).

    Of a bidirectional run, the traffic that leaves the client. Raises ParseError when these figures are not there.
    """
    if any("run" in result.labels for result in results):
        raise ParseError("several runs of iperf3 where one was asked for")
    test = "udp" if load.udp else "tcp"
    ours = [r for r in results if r.labels.get("test") == test and r.labels.get("role", "TX-C") == "TX-C"]
    totals = [r for r in ours if r.labels["stream"] == "SUM"]
    if not totals and load.streams == 1:
        totals = ours
    receiver = [r for r in totals if r.labels.get("direction") == "receiver"]
    sender = [r for r in totals if r.labels.get("direction") == "sender"]
    if len(receiver) != 1:
        raise ParseError(f"{len(receiver)} results where the one {test} receiver's total is wanted")
    kept = ["packets_sent"] if load.udp else ["retransmits"]
    if load.streams == 1 and not load.udp:
        # one connection's state is the run's; with more there is no total of it
        kept += ["congestion_window", "round_trip_time_min", "round_trip_time_mean", "round_trip_time_max"]
        sender += [r for r in ours if r.labels["stream"] != "SUM" and r.labels.get("direction") == "sender"]
    if load.udp and load.streams == 1:
        # of JSON only the row that mixes both sides counts these
        kept += ["packets_out_of_order"]
        sender += [r for r in ours if "direction" not in r.labels]
    extra = {name: r.metrics[name] for r in sender for name in kept if name in r.metrics}
    return {**receiver[0].metrics, **extra}
