"""qperf: latency, bandwidth and CPU cost of TCP, UDP, SCTP, SDP, RDS and RDMA messages.

Units, from `view_band`, `view_time`, `view_cost`, `view_rate`, `view_cpus`, `view_size` and `nice_1024` in qperf.c,
the same in every version: K, M, G and T are powers of ten throughout. `MB/sec` is 10^6 bytes a second, and `Mb/sec`,
printed with `--use_bits_per_sec`, 10^6 bits; both become bit/s. Only `KiB (4,096)` is binary, and used when a size is a
whole multiple of 1024. A cost is CPU time per 10^9 bytes: `ms/GB ÷ 8` is CPU milliseconds, or milli-cores, per gigabit.
`150 % cpus` are 1.5 cores.

Meaning: `latency` is one way: elapsed time ÷ messages in both directions, half a round trip. `bw` is what arrived. CPU
figures are those of the whole machine on that side (/proc/stat), idle excepted, I/O wait and steal included. The
client is local, the server remote; the client is the sender, except in RDMA reads and where `flip` (RDMA only) is
printed. `udp_bw`, whose two sides differ by what was lost, gives a sender's and a receiver's result. Times have a
resolution of one clock tick, usually 10 ms. `duration` is the time measured at the sender (`real_time`), else the time
asked for. A message size printed as `1.47 KB` is rounded; `argv` asks for exact figures.

A closed loop: in the latency tests one message waits for the answer to the one before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

import weighbridge.tools
from weighbridge.errors import ParseError, UsageError
from weighbridge.tools import Endpoint, Label, Result
from weighbridge.tools._qperf_checks import check
from weighbridge.tools._qperf_text import TEST, Block, Run, read
from weighbridge.units import Count, Duration, Size

PROGRAMS: tuple[str, ...] = ("qperf",)
PACKAGE: str | None = "qperf"
CLOSED_LOOP = True
CUSTOMARY = {"latency": "us", "throughput": "MB/s"}
"""The units it prints, by the beginning of a metric's name; reports show its figures in them."""
METRICS = (
    "latency_mean",
    "throughput",
    "message_rate",
    "messages",
    "duration",
    "bytes_*",
    "errors_*",
    "cpu_cores_*",
    "cores_per_gbit_*",
)
"""What it may print, as patterns of metric names; a budget on anything else is refused."""

_Test = Annotated[str, Field(pattern=rf"^{TEST}$")]
_Size = Annotated[Size, Field(ge=1, le=2**31 - 1)]
_Port = Annotated[Count, Field(ge=1, le=65535)]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Load(weighbridge.tools.Load):
    """Which tests, for how long, with which messages, over which ports."""

    tests: Annotated[list[_Test], Field(min_length=1), BeforeValidator(_listed)] = Field(default=["tcp_lat", "tcp_bw"])
    """An axis names one test by each of its values."""
    duration: Annotated[Duration, Field(ge=1, le=86400)] = 2.0
    """Of each test at each message size; qperf knows whole seconds only."""
    message_size: _Size | list[_Size] | None = None
    """Bytes; qperf's default is 1 for TCP latency, 64 KiB for TCP bandwidth, 32 KiB for UDP bandwidth."""
    listen_port: _Port | None = None
    """Where the server listens for clients; the server has to be told the same. None: the endpoint's port."""
    ip_port: _Port | None = None
    """Where the server opens its test sockets; None leaves it to the kernel."""

    @field_validator("duration")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f"qperf measures whole seconds, not {value:g} s")
        return value

    @field_validator("message_size")
    @classmethod
    def _progression(cls, value: float | list[float] | None) -> float | list[float] | None:
        for size in value if isinstance(value, list) else [value or 1]:
            if size != int(size):
                raise ValueError(f"{size:g} is no whole number of bytes")
        if isinstance(value, list) and (not value or (len(value) > 1 and _loop(value) is None)):
            raise ValueError("qperf sweeps sizes that rise by one whole factor or one step, such as 1 B, 64 B, 4 KiB")
        return value


def _loop(sizes: Sequence[float]) -> str | None:
    """Write qperf's loop over the sizes, None when it has none: it knows `*factor` and `step`, no lists."""
    whole = [int(size) for size in sizes]
    pairs = list(itertools.pairwise(whole))
    if all(b > a and b % a == 0 and b // a == whole[1] // whole[0] for a, b in pairs):
        return f"msg_size:{whole[0]}:{whole[-1]}:*{whole[1] // whole[0]}"
    if all(b > a and b - a == whole[1] - whole[0] for a, b in pairs):
        return f"msg_size:{whole[0]}:{whole[-1]}:{whole[1] - whole[0]}"
    return None


def _sizes(load: Load) -> list[float]:
    if load.message_size is None:
        return []
    return load.message_size if isinstance(load.message_size, list) else [load.message_size]


def argv(program: str, load: Load, server: Endpoint) -> list[str]:
    """Everything verbose, nothing scaled (`-uu`) and six digits, so that sizes and counts come back exact.

    Options stand before the tests because qperf runs each test as soon as it reads its name.
    """
    if server.host.startswith("-"):
        raise UsageError(f"{server.host!r} is no host name")
    sizes = _sizes(load)
    size = ["-m", str(int(sizes[0]))] if len(sizes) == 1 else ["-oo", str(_loop(sizes))] if sizes else []
    connected = ["-cm", "1"] if "rdma" in needs(load) else []
    port = ["-ip", str(data_port)] if (data_port := load.ip_port or server.data_port) else []
    return [
        *(
            program,
            "-lp",
            str(load.listen_port or server.port),
            *port,
            "-t",
            str(int(load.duration)),
            *size,
            *connected,
        ),
        *("-vv", "-uu", "-e", "6", server.host, *load.tests),
    ]


def needs(load: Load) -> tuple[str, ...]:
    """RDMA tests need a device: reliable connections any, found by its address; the others one that has a LID.

    `rd_params()` in rdma.c lets only RC tests find each other by RDMA-CM (`-cm 1`), the one way that RoCE knows.
    """
    names = [test.removeprefix("ver_") for test in load.tests]
    reliable = ("rdma",) if any(name.startswith("rc_") for name in names) else ()
    return (*reliable, *(("infiniband",) if any(name.startswith(("uc_", "ud_", "xrc_")) for name in names) else ()))


def planned(load: Load) -> float:
    """Every test at every size lasts `duration`."""
    return load.duration * len(load.tests) * max(1, len(_sizes(load)))


def parse(text: str) -> tuple[Result, ...]:
    """One result per test and message size, two (`direction`) where sender and receiver are told apart.

    The label `message_size` is there when qperf printed it, `run` when the text holds several runs.
    Raises ParseError when a test failed, received nothing, is cut short or is not to be understood;
    ContradictionError when bandwidth, message rate and size, latency or costs exclude each other.
    """
    runs: list[list[tuple[dict[str, Label], dict[str, float]]]] = []
    for run in read(text):
        runs.append([])
        _check_same_fields(run, text)
        for block in run.blocks:
            found = list(_results(block, text))
            # The same test at the same size again: a listing without its command lines holds several runs.
            if any(labels == known for labels, _ in found for known, _ in runs[-1]):
                runs.append([])
            runs[-1] += found
    runs = [run for run in runs if run]
    if not runs:
        raise ParseError("no test with figures in the output", text)
    return tuple(
        Result(labels=labels | ({"run": number} if len(runs) > 1 else {}), metrics=metrics)
        for number, run in enumerate(runs)
        for labels, metrics in run
    )


def _check_same_fields(run: Run, text: str) -> None:
    """A last listing without what all before it had, in the same run, was cut short."""
    sockets = [block for block in run.blocks if block.test.startswith(("tcp_", "udp_", "sctp_"))]
    if len(sockets) < 2:
        return
    for name in ("msg_rate", "msg_size", "port", "time"):
        if name not in sockets[-1].figures and all(name in block.figures for block in sockets[:-1]):
            raise ParseError(f"truncated: the last {sockets[-1].test} lacks its {name}", text)
    for suffix in ("_cpus_used", "_real_time"):
        sides = [sum(name.endswith(suffix) for name in block.figures) for block in sockets]
        if sides[-1] < 2 and all(count == 2 for count in sides[:-1]):
            raise ParseError(f"truncated: the last {sockets[-1].test} lacks a side's{suffix}", text)


def _results(block: Block, text: str) -> Iterator[tuple[dict[str, Label], dict[str, float]]]:
    if block.test in {"conf", "quit"}:
        return
    _require(block, text)
    check(block, text)
    labels: dict[str, Label] = {"test": block.test}
    if "msg_size" in block.figures:
        labels["message_size"] = round(block.figures["msg_size"].value)
    if "send_bw" not in block.figures:
        yield labels, _pick(block, _BOTH | _sides(block, ("send", "recv")))
        return
    for side, direction in (("send", "sender"), ("recv", "receiver")):
        names = (_RECEIVED if side == "recv" else {}) | {"throughput": f"{side}_bw", "messages": f"{side}_msgs"}
        yield labels | {"direction": direction}, _pick(block, names | _sides(block, (side,)))


def _require(block: Block, text: str) -> None:
    """The figure a test is for has to be there and more than zero."""
    kind = block.test.rpartition("_")[2]
    wanted = {"lat": ["latency"], "bw": ["bw"]}.get(kind, ["msg_rate"])
    if kind == "bw" and {"send_bw", "recv_bw"} & set(block.figures):
        wanted = ["send_bw", "recv_bw"]
    for name in wanted:
        if name not in block.figures:
            cause = f", only {block.stray.strip()[:120]!r}" if block.stray else ""
            raise ParseError(f"{block.test} failed or was cut short: it has no {name}{cause}", text)
        if block.figures[name].value <= 0:
            raise ParseError(f"{block.test} measured nothing: {name} is 0", text)


_RECEIVED = {"message_rate": "msg_rate"}
_BOTH = _RECEIVED | {
    "latency_mean": "latency",
    "throughput": "bw",
    "cpu_cores_local": "loc_cpus_used",
    "cpu_cores_remote": "rem_cpus_used",
    "messages": "recv_msgs",
    "bytes_sent": "loc_send_bytes",
    "bytes_received": "loc_recv_bytes",
    "errors_write": "loc_send_errors",
    "errors_read": "loc_recv_errors",
}


def _sides(block: Block, sides: Sequence[str]) -> dict[str, str]:
    """Where the metrics of sender and receiver are printed, if qperf tells them apart."""
    reads = "rdma_read" in block.test
    names: dict[str, str] = {}
    for side in sides:
        place = "local" if (side == "send") != reads else "remote"
        names[f"cores_per_gbit_{place}"] = f"{side}_cost"
        if f"{side}_cpus_used" in block.figures:
            names[f"cpu_cores_{place}"] = f"{side}_cpus_used"
        for metric, field in _SIDE[side].items():
            if f"{side}_{field}" in block.figures:
                names[metric] = f"{side}_{field}"
    return names


_SIDE = {
    "send": {"bytes_sent": "bytes", "errors_write": "errors"},
    "recv": {"bytes_received": "bytes", "errors_read": "errors"},
}


def _pick(block: Block, names: Mapping[str, str]) -> dict[str, float]:
    metrics = {metric: block.figures[name].value for metric, name in names.items() if name in block.figures}
    for name in ("send_real_time", "loc_real_time", "time"):
        if name in block.figures:
            return metrics | {"duration": block.figures[name].value}
    return metrics


def select(results: Sequence[Result], load: Load) -> Mapping[str, float]:
    """The figures at the load's own message size, of all its tests together.

    Where latency and bandwidth tests stand together, everything but the latency itself is the bandwidth test's; of
    `udp_bw` the receiver counts. Raises ParseError for a test that is missing, or two that give the same metric.
    """
    sizes = _sizes(load)
    if len(sizes) > 1:
        raise ParseError(f"one message size is wanted, the load names {len(sizes)}")
    figures: dict[str, float] = {}
    for test in sorted(load.tests, key=lambda name: name.endswith("_lat")):
        found = [
            result.metrics
            for result in results
            if result.labels.get("test") == test
            and result.labels.get("direction") != "sender"
            and (not sizes or result.labels.get("message_size") == sizes[0])
        ]
        if len(found) != 1:
            at = f" at {sizes[0]:.0f} B" if sizes else ""
            raise ParseError(f"one result of {test}{at} is wanted, the output holds {len(found)}")
        rate = test.endswith(("_mr", "_swap", "_add"))
        main = "latency_mean" if test.endswith("_lat") else "message_rate" if rate else "throughput"
        if main in figures:
            raise ParseError(f"two of {', '.join(load.tests)} give {main}: ask for one of them at a time")
        figures = dict(found[0]) | figures
    return figures
