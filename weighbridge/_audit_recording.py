"""Recorded outputs against their commands, their places in the study, and one another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from urllib.parse import urlsplit

from weighbridge import units
from weighbridge._audit_table import Lookup
from weighbridge._discrepancy import Discrepancy, label
from weighbridge.metrics import metric
from weighbridge.study import Host, Recording, Study

SPREAD = 1.2
"""Series of one cell that differ by more than this factor are not one figure."""
REACHED = 0.95
"""wrk2 alone stays 0.3 % below an asked rate, because connections start one after the other."""
SAME_SIZE = 1e-3
"""Two decimals of a size are rounded by less than this from 5.00 upwards."""
COPIED = 15
"""So many equal numbers in one paragraph are no coincidence; progress lines of ab have twelve."""

_ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_PEER = re.compile(
    r"(?:connected with|[Cc]onnecting to|Server Hostname:|Benchmarking|PING|test @ https?://)\s*(\d+(?:\.\d+){3})"
)
_NUMBER = re.compile(r"\d[\d.]*")


def refusals(study: Study, refused: Mapping[str, str]) -> Iterator[Discrepancy]:
    """Report outputs whose parser found no trustworthy figure in them."""
    for recording in study.recordings:
        if recording.file in refused:
            yield _found(study, recording, "refused", recording.file, arithmetic=refused[recording.file])


def places(study: Study) -> Iterator[Discrepancy]:
    """Find outputs under the heading of another cell, and runs of one load generator that overlap in time."""
    for recording in study.recordings:
        wrong = {axis: value for axis, value in recording.heading.items() if recording.axes.get(axis) != value}
        if wrong:
            own = label({axis: recording.axes.get(axis, "") for axis in wrong})
            yield _found(
                study,
                recording,
                "heading",
                recording.file,
                printed=label(wrong),
                computed=own,
                arithmetic=f"under {label(wrong)}, measured {own}",
            )
    stamped = [
        (r, datetime.fromisoformat(f"1970-01-01T{r.at}"), units.parse_as(r.lasts, "s"))
        for r in study.recordings
        if r.at and r.lasts
    ]
    for first, second in combinations(stamped, 2):
        earlier, later = sorted((first, second), key=lambda item: item[1])
        apart = (later[1] - earlier[1]).total_seconds()
        if apart < earlier[2]:
            where = f"{earlier[0].file} and {later[0].file}"
            text = f"{later[0].at} - {earlier[0].at} = {apart:g} s, while the first lasts {earlier[0].lasts}"
            yield _found(
                study,
                later[0],
                "overlap",
                where,
                printed=f"{later[0].at}",
                computed=f"{apart:g} s apart",
                arithmetic=text,
            )


def destinations(study: Study) -> Iterator[Discrepancy]:
    """Find outputs that speak of another server than their command, or of hosts listed for other cells."""
    for recording in study.recordings:
        first, _, rest = study.texts[recording.file].partition("\n")
        yield from _target(study, recording, first, rest)
        yield from _strangers(study, recording, f"{first}\n{rest}")
    for file, listing in study.listings.items():
        command = next((urlsplit(word).hostname for word in listing.command.split() if "://" in word), None)
        stated = urlsplit(listing.stated_target).hostname
        if command and stated and command != stated:
            yield Discrepancy(
                study.name,
                "destination",
                file,
                stated,
                command,
                f"the command names {command}, the text {stated}",
                file,
            )


def _target(study: Study, recording: Recording, first: str, rest: str) -> Iterator[Discrepancy]:
    named = _ADDRESS.search(first)
    if named is None:
        return
    target = named.group()
    for peer in dict.fromkeys(_PEER.findall(rest)):
        if peer != target:
            text = f"the command names {target}, the output {peer}"
            yield _found(
                study, recording, "destination", recording.file, printed=target, computed=peer, arithmetic=text
            )
    listed = [
        host.address
        for host in study.hosts
        if recording.scenario in host.scenarios and host.axes.items() <= recording.axes.items()
    ]
    if listed and target not in listed:
        text = f"measured {target}, listed {', '.join(listed)}"
        yield _found(
            study,
            recording,
            "destination",
            f"{recording.file} (listed)",
            printed=", ".join(listed),
            computed=target,
            arithmetic=text,
        )


def _strangers(study: Study, recording: Recording, text: str) -> Iterator[Discrepancy]:
    seen = set(_ADDRESS.findall(text)) | {recording.client}
    own = {name for host in study.hosts if not _conflict(host, recording) for name in (host.name, host.address)}
    for host in study.hosts:
        named = ({host.name, host.address} & seen) - own
        if named and _conflict(host, recording):
            name = ", ".join(sorted(str(n) for n in named))
            reason = f"{name} is listed for {label(host.axes)}, the output stands for {label(recording.axes)}"
            yield _found(
                study,
                recording,
                "host",
                f"{recording.file} {name}",
                printed=label(recording.axes),
                computed=label(host.axes),
                arithmetic=reason,
            )


def _conflict(host: Host, recording: Recording) -> bool:
    return any(recording.axes.get(axis, value) != value for axis, value in host.axes.items())


def asked(study: Study, lookup: Lookup) -> Iterator[Discrepancy]:
    """Find runs that did not reach the rate that they were told to."""
    for recording in study.recordings:
        for name, text in recording.asked.items():
            value = _of(lookup, recording, name)
            wanted = units.parse(text).value
            if math.isfinite(value) and value < REACHED * wanted:
                given = units.show(value, metric(name).unit)
                reason = f"{given} / {text} = {value / wanted:.3f}"
                yield _found(
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
                yield _found(
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
        groups: list[list[tuple[Recording, tuple[float, ...]]]] = []
        for recording in (r for r in study.recordings if r.scenario == scenario):
            estimates = _response_sizes(lookup, recording)
            if not estimates:
                continue
            group = next((g for g in groups if _same_size(g[0][1], estimates)), None)
            if group is None:
                groups.append([(recording, estimates)])
            else:
                group.append((recording, estimates))
        groups.sort(key=len, reverse=True)
        for group in groups[1:]:
            usual, other = groups[0][0][1][0], group[0][1][0]
            files = ", ".join(recording.file for recording, _ in group)
            text = f"{other:.2f} B per response, {usual:.2f} B in {len(groups[0])} runs of {scenario}"
            yield _found(
                study,
                group[0][0],
                "response size differs",
                files,
                printed=f"{usual:.2f} B",
                computed=f"{other:.2f} B",
                arithmetic=text,
            )


def _response_sizes(lookup: Lookup, recording: Recording) -> tuple[float, ...]:
    received, requests = _of(lookup, recording, "bytes_received"), _of(lookup, recording, "requests")
    throughput, rate = _of(lookup, recording, "throughput"), _of(lookup, recording, "request_rate")
    pairs = ((received, requests), (throughput / 8, rate))
    return tuple(
        a / b if math.isfinite(a) and math.isfinite(b) and b > 0 else math.nan
        for a, b in pairs
        if not math.isnan(a / (b or 1))
    )


def _same_size(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the two estimates, each rounded on its own, allow the same size."""
    return any(abs(a - b) <= SAME_SIZE * max(a, b) for a, b in zip(one, other, strict=False))


def copies(study: Study, earlier: Sequence[Study]) -> Iterator[Discrepancy]:
    """Find outputs that repeat another's figures, paragraph by paragraph, in this study or an earlier one."""
    own = [(study, recording) for recording in study.recordings]
    old = [(other, recording) for other in earlier for recording in other.recordings]
    pairs = [*combinations(own, 2), *((before, now) for now in own for before in old)]
    for (first_study, first), (_, second) in pairs:
        shared = _paragraphs(first_study.texts[first.file]) & _paragraphs(study.texts[second.file])
        count = sum(len(_NUMBER.findall(paragraph)) for paragraph in shared)
        if shared:
            origin = first.file if first_study is study else f"{first_study.name}/{first.file}"
            text = f"{count} numbers in {len(shared)} paragraphs are those of {origin}"
            yield _found(
                study,
                second,
                "repeated output",
                f"{second.file} = {origin}",
                printed=label(second.axes),
                computed=label(first.axes),
                arithmetic=text,
            )


def _paragraphs(text: str) -> set[str]:
    parts = (re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text))
    return {part for part in parts if len(_NUMBER.findall(part)) >= COPIED}


def _of(lookup: Lookup, recording: Recording, name: str) -> float:
    values = lookup(recording.scenario, recording.axes, name)
    return values[recording.series] if len(values) > recording.series else math.nan


def _found(
    study: Study,
    recording: Recording,
    kind: str,
    where: str,
    *,
    printed: str = "",
    computed: str = "",
    arithmetic: str,
    metric: str = "",
) -> Discrepancy:
    return Discrepancy(
        study=study.name,
        kind=kind,
        where=where,
        printed=printed,
        computed=computed,
        arithmetic=arithmetic,
        file=recording.file,
        scenario=recording.scenario,
        axes=recording.axes,
        metric=metric,
    )
