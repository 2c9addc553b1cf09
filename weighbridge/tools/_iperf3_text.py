"""Reading what iperf3 prints for people, 3.0 to 3.19; formats from its `src/iperf_locale.c`.

A client's run is whole when every stream has its summary rows; the summary rows name their side ("sender",
"receiver"), except for UDP up to 3.1, where "Sent N datagrams" follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Label, Result
from weighbridge.tools._iperf3_runs import Run, Summary, runs
from weighbridge.tools._iperf_printed import (
    NUMBER,
    PERCENT,
    check_loss,
    check_rate,
    check_sum,
)

_JITTER = re.compile(
    rf"\A\s*(?P<jitter>{NUMBER}) ms\s+(?P<lost>\d{{1,18}})/(?P<total>\d{{1,18}}) \((?P<percent>{PERCENT})%\)\s*\Z"
)
_DATAGRAMS = re.compile(r"\A\s*(?P<total>\d{1,18})\s*\Z")


def parse(text: str) -> tuple[Result, ...]:
    """Every summary row; see `weighbridge.tools.iperf3.parse`."""
    found_runs = list(runs(text))
    if not any(run.begun for run in found_runs):
        raise ParseError("truncated or no output of iperf3: it has no row of figures", text)
    found = [list(_results(run, text)) for run in found_runs]
    if len(found) == 1:
        return tuple(found[0])
    return tuple(
        Result({**result.labels, "run": index}, result.metrics)
        for index, results in enumerate(found)
        for result in results
    )


def _results(run: Run, text: str) -> Iterator[Result]:
    if not run.summaries:
        raise ParseError("truncated: a run ends before its summary", text)
    total, separated = run.last.get("SUM", (None, False))
    if total is not None and separated and total.whole and all(not summary.side for summary in run.summaries):
        run.summaries += [Summary(total, "", total.rest)] if "SUM" not in run.sent else []
    summaries = [summary for summary in run.summaries if not _unknown(run, summary)]
    if not summaries:
        raise ParseError(f"nothing was transferred: {run.summaries[0].row.line!r}", text)
    for summary in summaries:
        if summary.row.size.value == 0 or summary.row.rate.value == 0:
            raise ParseError(f"nothing was transferred: {summary.row.line!r}", text)
        if not summary.row.whole:
            raise ParseError(f"unreadable row: {summary.row.line!r}", text)
        check_rate(summary.row, text)
    _check_whole(run, summaries, text)
    _check_sides(summaries, text)
    totals = {summary.row.role for summary in summaries if summary.row.id == "SUM"}
    for summary in summaries:
        figures = _figures(run, summary, text)
        if run.cpu and (summary.row.id == "SUM" or not totals):
            figures |= _cores(run, summary.row.role)
        labels: dict[str, Label] = {"test": _test(run), "stream": summary.row.id}
        if summary.side:
            labels["direction"] = summary.side
        if summary.row.role:
            labels["role"] = summary.row.role
        yield Result(labels, figures)


def _test(run: Run) -> str:
    if run.protocol:
        return run.protocol
    return "udp" if "Datagrams" in run.header or "Jitter" in run.header else "tcp"


def _unknown(run: Run, summary: Summary) -> bool:
    """Tell a side of which the program knew nothing: it prints zeros, as for the sender at a server up to 3.6."""
    zero = summary.row.size.value == 0 and summary.row.rate.value == 0
    twin = any(
        other.row.id == summary.row.id
        and other.row.role == summary.row.role
        and other.side != summary.side
        and other.row.size.value > 0
        for other in run.summaries
    )
    return zero and twin and (run.serves or summary.side == "sender")


def _check_whole(run: Run, summaries: list[Summary], text: str) -> None:
    """Every stream has to have its rows, and several streams their SUM."""
    seen = [(summary.row.id, summary.row.role, summary.side) for summary in summaries]
    if len(seen) != len(set(seen)):
        raise ParseError("the same row is printed twice", text)
    ids = {summary.row.id for summary in run.summaries}
    if missing := [id_ for id_ in run.streams if id_ not in ids]:
        raise ParseError(f"truncated: stream {missing[0]} has no summary", text)
    roles = {role for _, role, _ in seen}
    for role in roles:
        singles = [id_ for id_ in ids if id_ != "SUM" and any((id_, role, side) in seen for side in _SIDES)]
        if len(singles) > 1 and not any(("SUM", role, side) in seen for side in _SIDES):
            raise ParseError(f"truncated: {len(singles)} streams, but no SUM", text)
    if run.serves or run.done:
        return
    for summary in run.summaries:
        twin = {"sender": "receiver", "receiver": "sender"}.get(summary.side)
        printed = any(s.row.id == summary.row.id and s.side == twin for s in run.summaries)
        if twin and not printed and (summary.row.id, twin) not in run.unavailable:
            raise ParseError(f"truncated: stream {summary.row.id} has no {twin} row", text)


_SIDES = ("sender", "receiver", "")


def _check_sides(summaries: list[Summary], text: str) -> None:
    """Refuse a SUM that is not its streams', and more received than sent (10 % and 16 MiB aside)."""
    for total in (summary for summary in summaries if summary.row.id == "SUM"):
        parts = [
            s.row for s in summaries if s.row.id != "SUM" and s.side == total.side and s.row.role == total.row.role
        ]
        if len(parts) > 1:
            check_sum(total.row, parts, text)
    for sent in (summary for summary in summaries if summary.side == "sender"):
        for got in summaries:
            pair = got.side == "receiver" and got.row.id == sent.row.id and got.row.role == sent.row.role
            if pair and got.row.size.low > sent.row.size.high * 1.1 + 2**24:
                raise ContradictionError(
                    f"{got.row.size.value:.6g} byte received, but {sent.row.size.value:.6g} byte sent:"
                    f" {got.row.line!r}",
                    text,
                )


def _figures(run: Run, summary: Summary, text: str) -> dict[str, float]:
    found, side = summary.row, summary.side
    figures = {
        **found.figures,
        "bytes_received" if side == "receiver" else "bytes_sent": found.size.value,
    }
    rest = summary.figures
    if match := _JITTER.match(rest):
        lost, total = int(match["lost"]), int(match["total"])
        if side == "sender":
            return {**figures, "packets_sent": float(total)} if total else figures
        check_loss(lost, total, match["percent"], found.line, text)
        figures |= {
            "jitter": float(match["jitter"]) / 1e3,
            "packets_lost": float(lost),
            "packet_loss": lost / total,
            "packets_sent": float(run.sent.get(found.id, total) if not side else total),
            "packets_received": float(total - lost),
        }
        # the line names SUM also where there is but one stream
        name = "SUM" if len(run.streams) == 1 and found.id not in run.disorder else found.id
        if name in run.disorder:
            figures["packets_out_of_order"] = float(run.disorder[name])
    elif "Jitter" in run.header:
        raise ParseError(f"truncated: jitter and loss are missing in {found.line!r}", text)
    elif match := _DATAGRAMS.match(rest):
        figures["packets_sent" if "Datagrams" in run.header else "retransmits"] = float(match["total"])
        if side == "receiver":
            raise ParseError(f"unreadable row: {found.line!r}", text)
    elif rest.strip():
        raise ParseError(f"unreadable row: {found.line!r}", text)
    return figures


def _cores(run: Run, role: str) -> dict[str, float]:
    """Return both CPU loads: "local/sender" belongs to what the client sends, "local/receiver" to what it gets."""
    wanted = {"TX-C": "sender", "RX-C": "receiver"}.get(role)
    local, remote = run.cpu.get(wanted or "", next(iter(run.cpu.values())))
    return {"cpu_cores_local": local, "cpu_cores_remote": remote}
