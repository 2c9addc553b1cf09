"""Reading iperf 2's `-y C`: one line per interval or summary, bytes and bit/s unrounded (`reportCSV_*` in its source).

timestamp,local address,local port,remote address,remote port,id,start-end,bytes,bits/s
and for a datagram receiver also ,jitter ms,lost,total,loss %,out of order; 2.1 fills these fields of a sender with
0.000,0,-1,-0.000,0. The id -1 is the sum of all streams.
"""

from __future__ import annotations

import re
from collections import Counter

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf_printed import NUMBER, check_loss, lines

LINE = re.compile(
    r"\A\s*(?:[+-]\d{4}:)?\d{14}(?:\.\d{1,6})?,(?P<local>[\w.:%-]*,\d{1,5}),(?P<remote>[\w.:%-]*,\d{1,5}),"
    rf"(?P<id>-?\d{{1,6}}),(?P<start>{NUMBER})-(?P<end>{NUMBER}),(?P<bytes>\d{{1,18}}),(?P<rate>\d{{1,18}})"
    rf"(?P<udp>,(?P<jitter>{NUMBER}),(?P<lost>\d{{1,18}}),(?P<total>\d{{1,18}}),(?P<percent>{NUMBER}),"
    r"(?P<disorder>\d{1,18})|(?P<sends>,0\.000,0,-1,-0\.000,0))?(?P<ended>\s*)\Z"
)
_LIKE = re.compile(r"\A\s*(?:[+-]\d{4}:)?\d{14}(?:\.\d{1,9})?,")


def is_csv(text: str) -> bool:
    """Whether `text` has a line that begins as those of `-y C` do."""
    return any(_LIKE.match(line) for line in text[: 2**20].splitlines())


def parse(text: str) -> tuple[Result, ...]:
    """Every summary line; the interval lines of `-i` come before it and do not count."""
    found: dict[tuple[str, ...], list[re.Match[str]]] = {}
    for line in lines(text):
        match = LINE.match(line)
        if match is not None:
            kind = "report" if match["udp"] else ""
            found.setdefault((kind, match["id"], match["local"], match["remote"]), []).append(match)
        elif _LIKE.match(line):
            raise ParseError(f"unreadable line: {line.strip()!r}", text)
        elif re.search(r"failed|refused|unreachable|error|timed out", line, re.IGNORECASE):
            raise ParseError(f"iperf reports: {line.strip()}", text)
    with_intervals = any(len(group) > 1 for group in found.values())
    results: list[tuple[int, Result]] = []
    seen: Counter[tuple[str, str]] = Counter()
    for (kind, id_, local, remote), group in found.items():
        if not kind and ("", id_, remote, local) in found:
            raise ParseError(f"truncated server report: {group[-1][0].strip()!r}", text)
        # another connection under the same id is another run of the program
        results.append((seen[kind, id_], _result(id_, group, with_intervals, text)))
        seen[kind, id_] += 1
    if len({run for run, _ in results}) < 2:
        return tuple(result for _, result in results)
    return tuple(Result({**result.labels, "run": run}, result.metrics) for run, result in results)


def _result(id_: str, group: list[re.Match[str]], with_intervals: bool, text: str) -> Result:
    last = group[-1]
    size, rate = int(last["bytes"]), int(last["rate"])
    start, end = float(last["start"]), float(last["end"])
    if size == 0 or rate == 0:
        raise ParseError(f"nothing was transferred: {last[0].strip()!r}", text)
    # Both figures are whole, so they hold the duration with more digits than the printed one.
    exact = 8 * size / rate
    if abs(exact - (end - start)) > 0.051 + 1e-6 * exact:
        raise ContradictionError(
            f"{last[0].strip()!r}: {size} byte × 8 ÷ {rate} bit/s = {exact:.4g} s, but {start}-{end} s is printed", text
        )
    is_report = last["udp"] is not None
    cut = (
        len(group) == 1
        and not is_report
        and (with_intervals or (end <= 2 and abs(exact * 2 - round(exact * 2)) < 1e-6))
    )
    if start != 0 or cut or any(float(line["end"]) > end for line in group):
        raise ParseError(f"truncated: no summary after {last[0].strip()!r}", text)
    labels: dict[str, Label] = {"stream": "SUM" if id_ == "-1" else id_}
    figures = {"throughput": float(rate), "duration": end - start}
    if last["sends"] is not None:
        return Result({"test": "udp", **labels, "direction": "sender"}, {**figures, "bytes_sent": float(size)})
    if last["udp"] is None:
        return Result(labels, figures)
    lost, total = int(last["lost"]), int(last["total"])
    check_loss(lost, total, last["percent"], last[0], text)
    figures |= {
        "bytes_received": float(size),
        "jitter": float(last["jitter"]) / 1e3,
        "packets_lost": float(lost),
        "packet_loss": lost / total,
        "packets_sent": float(total),
        "packets_received": float(total - lost),
    }
    if last["ended"]:
        figures["packets_out_of_order"] = float(last["disorder"])
    return Result({"test": "udp", **labels, "direction": "receiver"}, figures)
