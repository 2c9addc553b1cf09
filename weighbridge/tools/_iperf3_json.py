"""Reading iperf3's `-J` and `--json-stream`, fields from `iperf_print_results` in its `src/iperf_api.c`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf3_documents import DUPLICATE, Object, Reader, documents

# A side of which the program was told nothing is all zeros.
_SIDES = {"sender": "sum_sent", "receiver": "sum_received"}


def parse(text: str) -> tuple[Result, ...]:
    """Every stream's figures, then the sums; see `weighbridge.tools.iperf3.parse`."""
    runs = list(documents(text))
    starts = {json.dumps(run.get("start"), default=str) for run in runs}
    if len(starts) != len(runs):
        raise ParseError("the same document is printed twice", text)
    found = [list(_results(document, text)) for document in runs]
    if len(found) == 1:
        return tuple(found[0])
    return tuple(
        Result({**result.labels, "run": index}, result.metrics)
        for index, results in enumerate(found)
        for result in results
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The summary of one run and what is needed to read it."""

    end: Object
    test: str
    client: bool
    reverse: bool
    text: str

    @property
    def both(self) -> bool:
        """Whether traffic went both ways."""
        return any(name.endswith("_bidir_reverse") for name in self.end)

    def reader(self, name: str) -> Reader:
        """Return the object `name` of the summary."""
        return Reader(f"end.{name}", self.end[name], self.text)

    def times(self) -> list[float]:
        """Every time by which a rate may have been divided, in seconds."""
        sums = [self.reader(name) for name in self.end if name.startswith("sum")]
        return [total.duration for total in sums] + [total("seconds") for total in sums if total.has("seconds")]


def _results(document: Object, text: str) -> Iterator[Result]:
    if "error" in document:
        raise ParseError(f"iperf3 reports: {str(document['error'])[:200]}", text)
    start, end = document.get("start"), document.get("end")
    if not isinstance(start, dict) or not isinstance(end, dict) or DUPLICATE in {**document, **end}:
        raise ParseError("no output of iperf3: start or end is missing, or there twice", text)
    test_start = start.get("test_start")
    if not isinstance(test_start, dict) or str(test_start.get("protocol")) not in {"TCP", "UDP", "SCTP"}:
        raise ParseError("no output of iperf3: start.test_start is missing", text)
    if (
        not isinstance(end.get("streams"), list)
        or not end["streams"]
        or not any(name.startswith("sum") for name in end)
    ):
        raise ParseError("truncated: the run has no summary", text)
    run = _Run(
        end,
        str(test_start["protocol"]).lower(),
        client="accepted_connection" not in start,
        reverse=test_start.get("reverse") not in (None, 0),
        text=text,
    )
    results = [*_streams(run), *_totals(run)]
    if not results:
        raise ParseError("nothing was transferred", text)
    _check_sums(end, text)
    yield from results


def _role(reverse: bool) -> str:
    return "RX-C" if reverse else "TX-C"


def _streams(run: _Run) -> Iterator[Result]:
    for index, stream in enumerate(run.end["streams"]):
        if not isinstance(stream, dict):
            raise ParseError(f"end.streams[{index}] is no object", run.text)
        for side in ("udp", "sender", "receiver"):
            if side not in stream:
                continue
            reader = Reader(f"end.streams[{index}].{side}", stream[side], run.text)
            if reader.empty:
                continue
            labels: dict[str, Label] = {"test": run.test, "stream": str(int(reader.whole("socket")))}
            if side != "udp":
                labels["direction"] = side
            if run.both and reader.sender is not None:
                labels["role"] = _role(reader.sender != run.client)
            local = reader.sender if reader.sender is not None else run.client and not run.reverse
            yield Result(labels, _figures(reader, side, local, run))


def _totals(run: _Run) -> Iterator[Result]:
    cores: dict[str, float] = {}
    if "cpu_utilization_percent" in run.end:
        cpu = run.reader("cpu_utilization_percent")
        for metric, name in (("cpu_cores_local", "host_total"), ("cpu_cores_remote", "remote_total")):
            if cpu.has(name):
                cores[metric] = cpu(name) / 100
    for suffix in ("", "_bidir_reverse"):
        names = [(name + suffix, side) for side, name in _SIDES.items() if name + suffix in run.end]
        if not names and "sum" + suffix in run.end:
            names = [("sum" + suffix, "udp")]
        for name, side in names:
            reader = run.reader(name)
            if reader.empty:
                if side == "receiver" and run.test == "udp" and run.client:
                    raise ParseError(f"100 % loss: end.{name} is empty", run.text)
                continue
            labels: dict[str, Label] = {"test": run.test, "stream": "SUM"}
            if side != "udp":
                labels["direction"] = side
            if run.both:
                labels["role"] = _role(bool(suffix))
            yield Result(labels, {**_figures(reader, side, False, run), **cores})


def _figures(reader: Reader, side: str, local: bool, run: _Run) -> dict[str, float]:
    """`local` says that this program itself sent, so that its socket's state is the sender's."""
    size, rate, duration = reader.whole("bytes"), reader("bits_per_second"), reader.duration
    if duration <= 0:
        raise ParseError(f"{reader.place}: no time passed", run.text)
    _check_rate(reader, [duration, *run.times(), *([reader("seconds")] if reader.has("seconds") else [])], run.text)
    figures = {
        "throughput": rate,
        "duration": duration,
        "bytes_received" if side == "receiver" else "bytes_sent": size,
    }
    if side == "sender" and reader.has("retransmits"):
        figures["retransmits"] = reader.whole("retransmits")
    if side == "sender" and local:
        if reader.has("max_snd_cwnd") and reader.whole("max_snd_cwnd"):
            figures["congestion_window"] = reader.whole("max_snd_cwnd")
        figures |= _round_trip(reader, run.text)
    if reader.has("packets"):
        figures |= _datagrams(reader, side, run.text)
    return figures


def _round_trip(reader: Reader, text: str) -> dict[str, float]:
    if not all(reader.has(name) for name in ("min_rtt", "mean_rtt", "max_rtt")):
        return {}
    low, mean, high = (reader(name) for name in ("min_rtt", "mean_rtt", "max_rtt"))
    if high == 0:
        return {}
    if not low <= mean <= high:
        raise ContradictionError(f"{reader.place}: a mean_rtt of {mean:g} µs outside {low:g} µs to {high:g} µs", text)
    return {"round_trip_time_min": low / 1e6, "round_trip_time_mean": mean / 1e6, "round_trip_time_max": high / 1e6}


def _datagrams(reader: Reader, side: str, text: str) -> dict[str, float]:
    total = reader.whole("packets")
    if side == "sender":
        return {"packets_sent": total} if total else {}
    lost, percent = reader.whole("lost_packets"), reader.exact("lost_percent")
    if total == 0:
        raise ParseError(f"{reader.place}: no datagram arrived", text)
    computed = 100 * lost / total
    if lost > total or not math.isclose(float(percent), computed, rel_tol=1e-4, abs_tol=1e-6):
        raise ContradictionError(
            f"{reader.place}: {lost:g} ÷ {total:g} = {computed:g} %, but lost_percent is {percent}", text
        )
    if lost == total:
        raise ParseError(f"100 % loss in {reader.place}", text)
    figures = {
        "jitter": reader("jitter_ms") / 1e3,
        "packets_lost": lost,
        "packet_loss": lost / total,
        "packets_sent": total,
        "packets_received": total - lost,
    }
    if reader.has("out_of_order"):
        figures["packets_out_of_order"] = reader.whole("out_of_order")
    return figures


def _check_rate(reader: Reader, times: list[float], text: str) -> None:
    """8 × bytes ÷ time = bit/s, by one of the times printed.

    UDP's `sum` ends with the receiver, but its rate is over the sender's time. 3.0 and 3.1 print six significant
    digits, so that is how near they have to be.
    """
    size, rate = reader("bytes"), reader("bits_per_second")
    if not any(time > 0 and math.isclose(8 * size / time, rate, rel_tol=2e-5) for time in times):
        raise ContradictionError(
            f"{reader.place}: {size:.0f} byte × 8 ÷ {times[0]:g} s = {8 * size / times[0]:.6g} bit/s,"
            f" but bits_per_second is {rate:.6g}",
            text,
        )


def _check_sums(end: Object, text: str) -> None:
    """Refuse a sum that is not the sum of its streams."""
    for name, side in (("sum_sent", "sender"), ("sum_received", "receiver")):
        if name not in end or any(side not in stream for stream in end["streams"]):
            continue
        total = Reader(f"end.{name}", end[name], text)
        whole = total.whole("bytes")
        if (reverse := end.get(name + "_bidir_reverse")) is not None:
            whole += Reader(f"end.{name}_bidir_reverse", reverse, text).whole("bytes")
        parts = sum(Reader("end.streams[]", stream[side], text).whole("bytes") for stream in end["streams"])
        if whole != parts:
            raise ContradictionError(
                f"end.{name}: the streams add up to {parts:.0f} byte, but {whole:.0f} byte is printed", text
            )
