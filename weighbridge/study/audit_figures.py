"""Figures printed without their output, against each other.

The rules are those of ab, whose tables study 004 prints: time per request = concurrency ÷ rate, the
mean across all concurrent requests = time per request ÷ concurrency, received + sent = total, and a
percentile p is the (requests × p ÷ 100)-th time, counted from zero, of all times in rising order,
rounded to whole milliseconds (`stats[done * percs[i] / 100]` and `ap_round_ms` in ab.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from weighbridge import units
from weighbridge.study import Figure, Study
from weighbridge.study.discrepancy import Discrepancy, label
from weighbridge.study.interval import exactly, like, printed, scale_of

_SHARE_ERROR = 0.5e-6
"""Shares of the requests are printed in percent with six decimals."""
_HALF = 0.5
"""Times are rounded to whole milliseconds."""
_LEADING_ZERO = re.compile(r"0\d")
_PERCENTILE = re.compile(r"latency_p(\d+)\Z")

_Found = Callable[..., Discrepancy]


def among_figures(study: Study) -> Iterator[Discrepancy]:
    """Find figure rows that contradict themselves."""
    for file, figure in study.figures():
        found = partial(_found, study, file, figure)
        for rule in (_leading_zero, _mean, _across, _transfer, _distribution, _percentiles, _size, _granularity):
            yield from rule(figure, found)


def _leading_zero(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    texts = {name: text.value for name, text in figure.metrics.items()}
    for name, text in texts.items():
        if _LEADING_ZERO.match(text):
            yield found(
                "lost digit", printed=text, arithmetic=f"{text} begins with 0: its first digit is missing", metric=name
            )


def _mean(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    rate, mean = figure.metrics.get("request_rate"), figure.metrics.get("latency_mean")
    if figure.concurrency is None or rate is None or mean is None or rate.bound or mean.bound:
        return
    computed = exactly(figure.concurrency) / printed(rate.value)
    if not computed.meets(printed(mean.value)):
        given = like(mean.value, computed.middle)
        yield found(
            "mean",
            printed=mean.value,
            computed=given,
            arithmetic=f"{figure.concurrency} / {rate.value} = {given}",
            metric="latency_mean",
        )


def _across(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    mean, across = figure.metrics.get("latency_mean"), figure.mean_across_all
    if figure.concurrency is None or mean is None or across is None:
        return
    computed = printed(mean.value) / exactly(figure.concurrency)
    if not computed.meets(printed(across)):
        given = like(across, computed.middle)
        yield found(
            "mean across all",
            printed=across,
            computed=given,
            arithmetic=f"{mean.value} / {figure.concurrency} = {given}",
        )


def _transfer(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    rates = figure.transfer
    if rates is None:
        return
    computed = printed(rates.received) + printed(rates.sent)
    if not computed.meets(printed(rates.total)):
        given = like(rates.total, computed.middle)
        rest = like(rates.received, (printed(rates.total) - printed(rates.sent)).middle)
        yield found(
            "transfer",
            printed=rates.total,
            computed=given,
            arithmetic=f"{rates.received} + {rates.sent} = {given}; total - sent = {rest}",
            metric="throughput",
        )


def _distribution(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    if not figure.distribution or figure.requests is None:
        return
    counts = [count for _, _, count in figure.distribution]
    if sum(counts) != figure.requests:
        sums = " + ".join(map(str, counts))
        yield found(
            "distribution",
            printed=f"{figure.requests} requests",
            computed=str(sum(counts)),
            arithmetic=f"{sums} = {sum(counts)}",
        )
    for percent, time, count in figure.distribution:
        share = 100 * count / figure.requests
        if abs(share - percent) > _SHARE_ERROR:
            yield found(
                "distribution",
                printed=f"{percent}% {time} {count}",
                computed=f"{share:.6f}%",
                arithmetic=f"{count} / {figure.requests} = {share:.6f}%",
            )
    times = [time for _, time, _ in figure.distribution]
    if any(later <= earlier for earlier, later in pairwise(times)):
        yield found("distribution", printed="times in ms", arithmetic=f"{', '.join(map(str, times))} do not rise")
    yield from _busy(figure, found)


def _busy(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    """Check that the requests fit side by side: their mean time is at most concurrency x duration ÷ requests."""
    mean = figure.metrics.get("latency_mean")
    if mean is None or mean.bound:
        return
    shortest = sum((time - _HALF) * count for _, time, count in figure.distribution) / sum(
        count for _, _, count in figure.distribution
    )
    if shortest / 1e3 > printed(mean.value).high:
        given = like(mean.value, (shortest + _HALF) / 1e3)
        yield found(
            "distribution",
            printed=mean.value,
            computed=given,
            arithmetic=f"the mean of the times is {given}, half a ms less at least",
            metric="latency_mean",
        )


def _percentiles(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    if sum(count for _, _, count in figure.distribution) != figure.requests:
        return  # an incomplete distribution says nothing about places in it
    for name, text in figure.metrics.items():
        percent = _PERCENTILE.match(name)
        if not percent and name != "latency_max":
            continue
        index = figure.requests * int(percent.group(1)) // 100 if percent else figure.requests - 1
        time = _time_at(figure, index)
        if time is not None and not exactly(time / 1e3).meets(printed(text.value)):
            yield found(
                "percentile",
                printed=text.value,
                computed=f"{time} ms",
                arithmetic=f"time {index} of {figure.requests} from 0 is {time} ms",
                metric=name,
            )


def _time_at(figure: Figure, index: int) -> int | None:
    """Give the time, in ms, at a place counted from zero in the distribution."""
    for _, time, count in figure.distribution:
        index -= count
        if index < 0:
            return time
    return None


def _size(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    """Check that no response is smaller than the body that was asked for."""
    asked, rate, received = (
        figure.axes.get("response_size"),
        figure.metrics.get("request_rate"),
        figure.metrics.get("throughput"),
    )
    if asked is None or rate is None or received is None or rate.bound:
        return
    computed = printed(received.value) / exactly(8.0) / printed(rate.value)
    if computed.high + computed.margin < units.parse_as(asked, units.BYTE):
        given = like(asked, computed.middle)
        yield found(
            "response size",
            printed=asked,
            computed=given,
            arithmetic=f"{received.value} / {rate.value} = {given} per response",
            metric="throughput",
        )


def _granularity(figure: Figure, found: _Found) -> Iterator[Discrepancy]:
    """Check that a mean of n readings is a whole number of steps ÷ n (the GRIM test of Brown and Heathers, 2017)."""
    if figure.readings is None or figure.resolution is None:
        return
    step, count = units.parse(figure.resolution).value, figure.readings
    for name, text in figure.metrics.items():
        steps = round(units.parse(text.value).value * count / step)
        nearest = exactly(steps * step / count)
        if not nearest.meets(printed(text.value)):
            total = f"{steps * step / scale_of(text.value):.7g}"
            given = like(text.value, nearest.middle)
            yield found(
                "impossible mean",
                printed=text.value,
                computed=given,
                arithmetic=f"the nearest mean of {count} readings is {total} / {count} = {given}",
                metric=name,
            )


def _found(
    study: Study,
    file: str,
    figure: Figure,
    kind: str,
    *,
    printed: str,
    computed: str = "",
    arithmetic: str,
    metric: str = "",
) -> Discrepancy:
    where = f"{file} | {figure.scenario} {label(figure.axes)}" + (f" | {metric}" if metric else "")
    return Discrepancy(
        study=study.name,
        kind=kind,
        where=where,
        printed=printed,
        computed=computed,
        arithmetic=arithmetic,
        file=file,
        scenario=figure.scenario,
        axes=figure.axes,
        metric=metric,
    )
