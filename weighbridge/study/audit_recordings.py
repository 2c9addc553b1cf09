"""Recorded outputs against their commands, their places in the study, and one another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from urllib.parse import urlsplit

from weighbridge import units
from weighbridge.study import Host, Recording, Study
from weighbridge.study.discrepancy import Discrepancy, label, of_recording

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
            yield of_recording(study, recording, "refused", recording.file, arithmetic=refused[recording.file])


def places(study: Study) -> Iterator[Discrepancy]:
    """Find outputs under the heading of another cell, and runs of one load generator that overlap in time."""
    for recording in study.recordings:
        wrong = {axis: value for axis, value in recording.heading.items() if recording.axes.get(axis) != value}
        if wrong:
            own = label({axis: recording.axes.get(axis, "") for axis in wrong})
            yield of_recording(
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
            yield of_recording(
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
            yield of_recording(
                study, recording, "destination", recording.file, printed=target, computed=peer, arithmetic=text
            )
    listed = [
        host.address
        for host in study.hosts
        if recording.scenario in host.scenarios and host.axes.items() <= recording.axes.items()
    ]
    if listed and target not in listed:
        text = f"measured {target}, listed {', '.join(listed)}"
        yield of_recording(
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
            yield of_recording(
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
            yield of_recording(
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
