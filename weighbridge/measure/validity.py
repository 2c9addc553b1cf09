"""From a tool's output to samples, each with the reason why it must not be judged, if there is one.

Every rule is blind to which runtime or network was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from weighbridge import metrics, registry
from weighbridge.errors import ParseError
from weighbridge.measure.group import Slot
from weighbridge.model import Cell, Sample
from weighbridge.stand import Reading

DURATION_REACHED = 0.95
"""A tool that stopped before this share of the time asked for did not measure what was asked."""
BEYOND = 1.01
"""A throughput above this share of what the wire can carry was not held back by it: Linux 6.1, for one, charges a
token bucket too little for packets in a tunnel that are not cut into segments yet."""
LOST = 0.05
"""The share of lost packets up to which the round trips of the others stand for all."""
RATE_REACHED = 0.99
"""Below this share of the rate asked for, a fixed-rate run is saturated."""


_ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout", "errors_http", "errors_exception")


def samples_of(slot: Slot, reading: Reading, number: int) -> dict[str, list[Sample]]:
    """The samples of every cell of a slot; each says why it must not be judged, if so.

    Raises ParseError when the output is no trustworthy figure.
    """
    tool = registry.find("tools", slot.cells[0].tool)
    results = tool.parse(reading.output) if reading.results is None else reading.results
    samples = {}
    for cell in slot.cells:
        figures = results[0].metrics if reading.results is not None else tool.select(results, cell.load)
        figures = dict(figures)
        if broken := [name for name, value in figures.items() if not math.isfinite(value) or value < 0]:
            raise ParseError(f"{broken[0]} is {figures[broken[0]]}", reading.output)
        if cell.per_core and "request_rate" in figures:
            figures["request_rate_per_core"] = figures["request_rate"] / (reading.cores or cell.per_core)
        figures |= reading.figures
        whole = _too_many_errors(cell, figures) or (_implausible(cell, figures, reading) if reading.live else None)
        latency = _saturated(cell, figures)
        samples[cell.id] = [
            Sample(
                name,
                metrics.metric(name).unit,
                number,
                None if name in reading.refuted else value,
                reading.refuted.get(name) or whole or (latency if name.startswith("latency") else None),
            )
            for name, value in figures.items()
        ]
    return samples


def _too_many_errors(cell: Cell, figures: Mapping[str, float]) -> str | None:
    errors, requests = sum(figures.get(name, 0.0) for name in _ERRORS), figures.get("requests", 0.0)
    if errors > cell.tolerated_errors * requests:
        return f"{errors:.0f} errors in {requests:.0f} requests, more than {cell.tolerated_errors * 100:.3g} %"
    return None


def _implausible(cell: Cell, figures: Mapping[str, float], reading: Reading) -> str | None:
    return _cut_short(cell, figures) or _beyond_the_wire(figures, reading) or _unsent(cell, figures)


def _unsent(cell: Cell, figures: Mapping[str, float]) -> str | None:
    """A round trip of the few that came back, or the loss of datagrams that were never sent, is no figure."""
    lost = figures.get("packet_loss", 0.0)
    if "round_trip_time_mean" in figures and lost > LOST:
        return f"{lost * 100:.3g} % of the packets did not come back, more than {LOST * 100:.3g} %"
    asked = getattr(cell.load, "bandwidth", None) if getattr(cell.load, "udp", False) else None
    sent = figures.get("throughput", math.inf) / max(1.0 - lost, 1e-9)
    if asked and sent < RATE_REACHED * asked:
        return f"{sent / 1e6:.2f} Mbit/s of the {asked / 1e6:g} Mbit/s asked for were sent"
    return None


def _beyond_the_wire(figures: Mapping[str, float], reading: Reading) -> str | None:
    found = figures.get("throughput", 0.0)
    if found > BEYOND * reading.carries:
        told = f"{found / 1e6:.2f} Mbit/s is more than the link can have carried, {reading.carries / 1e6:.2f} Mbit/s"
        return f"{told}: the link is not shaped as it should be"
    return None


def _cut_short(cell: Cell, figures: Mapping[str, float]) -> str | None:
    asked, lasted = getattr(cell.load, "duration", None), figures.get("duration")
    if asked and lasted is not None and lasted < DURATION_REACHED * asked:
        return f"ended after {lasted:g} s of {asked:g} s"
    return None


def _saturated(cell: Cell, figures: Mapping[str, float]) -> str | None:
    asked, reached = getattr(cell.load, "rate", None), figures.get("request_rate")
    if asked and reached is not None and reached < RATE_REACHED * asked:
        return f"saturated: {reached:.0f}/s of {asked:.0f}/s reached, so latency is not judged"
    return None
