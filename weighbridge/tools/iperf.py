"""iperf 2: bulk TCP and UDP throughput, from one side or both.

Units, from its `compat/stdio.c` and `man iperf`: bytes in powers of 1024 ("MBytes" = 2^20 byte, "MBytes/sec" =
2^20 byte/s), bits in powers of 1000 ("Mbits/sec" = 10^6 bit/s), whatever `-f` says; jitter and latency in ms; "K" in
Cwnd is 1024 byte. `-f b` prints whole bytes and bit/s, which loses nothing, so `argv` asks for it.

The TCP client prints its own view only: what it handed to the kernel. UDP has the receiver's view in the "Server
Report"; its Lost/Total is counted by the receiver from sequence numbers, so Total is what was sent until then
(`packets_sent`) and Total - Lost is `packets_received`. Cwnd/RTT is the kernel's smoothed state at the last moment:
the window is kept, the RTT, NetPwr and read sizes are not, for they are no mean of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, model_validator

from weighbridge import tools
from weighbridge.errors import ParseError
from weighbridge.tools import Endpoint, Result, _iperf2_csv, _iperf2_text
from weighbridge.units import BitRate, Count, Duration, Size

PROGRAMS = ("iperf", "iperf2")
PACKAGE = "iperf"
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
    "errors_write",
    "latency_mean",
    "latency_stdev",
    "latency_min",
    "latency_max",
)
"""What it may print, as patterns of metric names; a budget on anything else is refused."""


class Load(tools.Load):
    """What iperf sends: for how long, how many streams, which way, and for UDP how fast."""

    duration: Duration = Field(default=10.0, gt=0)
    udp: bool = False
    bandwidth: BitRate | None = Field(default=None, ge=1)
    streams: Count = Field(default=1, ge=1, le=128)
    reverse: bool = False
    length: Size | None = Field(default=None, ge=1)
    bidir: bool = False
    window: Size | None = Field(default=None, ge=1)
    mss: Count | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_way(self) -> Load:
        if self.reverse and self.bidir:
            raise ValueError("reverse and bidir exclude each other")
        return self


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """Return the client's command line; without `-i`, which 2.0.5 would take as half a second when it is 0."""
    words = [program, "-c", server.host, "-p", str(server.port), "-t", f"{load.duration:g}", "-f", "b"]
    words += ["-u"] if load.udp else []
    words += ["-b", str(round(load.bandwidth))] if load.bandwidth is not None else []
    words += ["-P", str(load.streams)] if load.streams > 1 else []
    words += ["-R"] if load.reverse else []
    words += ["-d"] if load.bidir else []
    words += ["-l", str(round(load.length))] if load.length is not None else []
    words += ["-w", str(round(load.window))] if load.window is not None else []
    words += ["-M", str(load.mss)] if load.mss is not None else []
    return words


def planned(load: Load) -> float:
    """How long one run should take, in seconds."""
    return load.duration


def parse(text: str) -> tuple[Result, ...]:
    """Every summary in the output, in the order printed: a client's own rows, then the server's reports.

    Labels: `test`, `stream` (as printed, `SUM` for the total), `direction`; `role` where traffic goes both ways
    (`TX-C` leaves the client, `RX-C` reaches it; `-S` in a server's own output); `run` where there are several.
    Raises ParseError when the output is an error, cut short or unreadable, ContradictionError when a row's bytes, time
    and rate, its datagrams and its percentage, or a SUM and its streams exclude each other.
    """
    results = _iperf2_csv.parse(text) if _iperf2_csv.is_csv(text) else _iperf2_text.parse(text)
    if not results:
        raise ParseError("no output of iperf", text)
    return results


def select(results: Sequence[Result], load: Load) -> Mapping[str, float]:
    """Return the figures of the whole run: for TCP the only view there is, for UDP the receiver's and `packets_sent`.

    Both ways at once count as what leaves the client. Raises ParseError when they are not there.
    """
    if any("run" in result.labels for result in results):
        raise ParseError("several runs of iperf where one was asked for")
    test = "udp" if load.udp else "tcp"
    ours = [r for r in results if r.labels.get("test") == test and r.labels.get("role", "TX-C") == "TX-C"]
    if load.streams > 1 and not load.udp:
        ours = [result for result in ours if result.labels["stream"] == "SUM"]
    totals = [result for result in ours if result.labels["stream"] == "SUM"]
    senders = [result for result in totals or ours if result.labels.get("direction") == "sender"]
    receivers = [result for result in ours if result.labels.get("direction") == "receiver"]
    receivers = [result for result in receivers if result.labels["stream"] == "SUM"] or receivers
    if load.udp and not load.bidir and len(receivers) == load.streams > 1:
        receivers = [_together(receivers)]
    # What a TCP server prints of its own is one view of the same stream.
    chosen = receivers if load.udp or load.reverse else senders or receivers
    if len(chosen) != 1:
        view = "receiver's server report" if load.udp else f"{'receiver' if load.reverse else 'sender'}'s total"
        raise ParseError(f"{len(chosen)} results where the one {test} {view} is wanted")
    sent = [result.metrics["packets_sent"] for result in senders if "packets_sent" in result.metrics]
    return {**chosen[0].metrics, **({"packets_sent": sent[0]} if load.udp and sent else {})}


def _together(reports: Sequence[Result]) -> Result:
    """One result of the server reports of parallel streams, of which iperf 2 prints no total; jitter has none."""
    added = ("throughput", "bytes_received", "packets_sent", "packets_received", "packets_lost")
    figures = {name: sum(report.metrics[name] for report in reports) for name in added}
    figures["duration"] = max(report.metrics["duration"] for report in reports)
    figures["packet_loss"] = figures["packets_lost"] / figures["packets_sent"]
    return Result({**reports[0].labels, "stream": "SUM"}, figures)
