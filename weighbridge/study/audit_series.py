"""Figures of recorded outputs against what they were told to reach, and against their siblings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weighbridge import units
from weighbridge.metrics import metric
from weighbridge.study import Recording, Study
from weighbridge.study.audit_tables import Lookup
from weighbridge.study.discrepancy import Discrepancy, label, of_recording

SPREAD = 1.2
"""Series of one cell that differ by more than this factor are not one figure."""
REACHED = 0.95
"""wrk2 alone stays 0.3 % below an asked rate, because connections start one after the other."""
SAME_SIZE = 1e-3
"""Two decimals of a size are rounded by less than this from 5.00 upwards."""


def asked(study: Study, lookup: Lookup) -> Iterator[Discrepancy]:
    """Find runs that did not reach the rate that they were told to."""
    for recording in study.recordings:
        for name, text in recording.asked.items():
            value = _of(lookup, recording, name)
            wanted = units.parse(text).value
            if math.isfinite(value) and value < REACHED * wanted:
                given = units.show(value, metric(name).unit)
                reason = f"{given} / {text} = {value / wanted:.3f}"
                yield of_recording(
                    study,
                    recording,
                    "asked rate",
                    recording.file,
                    printed=text,
                    computed=given,
                    arithmetic=reason,
                    metric=name,
                )


def spreads(study: Study, lookup: Lookup) -> Iterator[Discrepancy]:
    """Find series of one cell that differ by more than 20 % in a figure that the study tabulates."""
    names = {
        (column.scenario, column.metric) for table in study.tables.values() for column in table.columns if column.metric
    }
    for recording in study.recordings:
        for scenario, name in sorted(names):
            if recording.series or scenario != recording.scenario or metric(name).unit == "1":
                continue
            values = [value for value in lookup(scenario, recording.axes, name) if math.isfinite(value)]
            if len(values) > 1 and min(values) > 0 and max(values) > SPREAD * min(values):
                shown = [units.show(value, metric(name).unit) for value in values]
                ratio = f"{units.show(max(values), metric(name).unit)} / {units.show(min(values), metric(name).unit)}"
                where = f"{scenario} {label(recording.axes)} | {name}"
                text = f"{ratio} = {max(values) / min(values):.3f}"
                yield of_recording(
                    study,
                    recording,
                    "series",
                    where,
                    printed=", ".join(shown),
                    computed=f"{max(values) / min(values):.3f}",
                    arithmetic=text,
                    metric=name,
                )


def sizes(study: Study, lookup: Lookup) -> Iterator[Discrepancy]:
    """Find outputs whose bytes per response are not those of most runs of their scenario."""
    for scenario in dict.fromkeys(r.scenario for r in study.recordings):
        groups: list[list[tuple[Recording, tuple[float, float]]]] = []
        for recording in (r for r in study.recordings if r.scenario == scenario):
            estimates = _response_sizes(lookup, recording)
            if all(map(math.isnan, estimates)):
                continue
            group = next((g for g in groups if _same_size(g[0][1], estimates)), None)
            if group is None:
                groups.append([(recording, estimates)])
            else:
                group.append((recording, estimates))
        groups.sort(key=len, reverse=True)
        for group in groups[1:]:
            usual, other = (next(filter(math.isfinite, g[0][1])) for g in (groups[0], group))
            files = ", ".join(recording.file for recording, _ in group)
            text = f"{other:.2f} B per response, {usual:.2f} B in {len(groups[0])} runs of {scenario}"
            yield of_recording(
                study,
                group[0][0],
                "response size differs",
                files,
                printed=f"{usual:.2f} B",
                computed=f"{other:.2f} B",
                arithmetic=text,
            )


def _response_sizes(lookup: Lookup, recording: Recording) -> tuple[float, float]:
    """Estimate bytes per response from the totals and from the rates, which are rounded independently."""
    received, requests = _of(lookup, recording, "bytes_received"), _of(lookup, recording, "requests")
    throughput, rate = _of(lookup, recording, "throughput"), _of(lookup, recording, "request_rate")
    return received / (requests or math.nan), throughput / 8 / (rate or math.nan)


def _same_size(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one of the two estimates allows the same size; NaN allows nothing."""
    return any(abs(a - b) <= SAME_SIZE * max(a, b) for a, b in zip(one, other, strict=True))


def _of(lookup: Lookup, recording: Recording, name: str) -> float:
    values = lookup(recording.scenario, recording.axes, name)
    return values[recording.series] if len(values) > recording.series else math.nan
