"""What a run would do: cells, commands and predicted time; nothing is measured."""

from __future__ import annotations

import shlex
from typing import TextIO

from weighbridge import registry
from weighbridge.campaign import Campaign
from weighbridge.measure import Slot
from weighbridge.tools import Endpoint


def show_plan(campaign: Campaign, stream: TextIO) -> None:
    """Print every group: its cells, the command of each slot, and how long its rounds take.

    Raises InfrastructureError when the target cannot even be asked what it can run.
    """
    total = 0.0
    live = campaign.target.LIVE
    selected = {cell.id for cell in campaign.selected}
    skipped: dict[str, list[str]] = {}
    for group in campaign.groups:
        reasons = {slot: campaign.unavailable(slot.cells[0]) for slot in group.slots}
        for slot, reason in reasons.items():
            if reason is not None:
                skipped.setdefault(reason, []).extend(cell.id for cell in slot.cells)
        runnable = [slot for slot, reason in reasons.items() if reason is None]
        if not any(cell.id in selected for slot in runnable for cell in slot.cells):
            continue  # references alone are not measured
        a_round = sum(slot.planned for slot in runnable)
        least, most = group.looks[0], group.looks[-1]
        total += most * a_round
        head = f"{_span(least, most)} rounds, {_span(least * a_round, most * a_round)} s" if live else "recorded"
        print(f"\n{head}", file=stream)
        for slot in runnable:
            for cell in slot.cells:
                print(f"  {cell.id}" + ("" if cell.id in selected else "  (only as a reference)"), file=stream)
            if live:
                print(f"      $ {_command(slot)}", file=stream)
    for reason, cells in skipped.items():
        print(f"\nskipped: {reason}", *(f"  {cell}" for cell in cells), sep="\n", file=stream)
    seconds = f"at most {total:.0f} s of load" if live else "nothing is measured"
    print(f"\n{len(selected)} cells, {len(campaign.groups)} groups, {seconds}", file=stream)


def _command(slot: Slot) -> str:
    first = slot.cells[0]
    tool, server = registry.find("tools", first.tool), registry.find("servers", str(first.server))
    return shlex.join(tool.argv(tool.PROGRAMS[0], slot.load, Endpoint("SERVER", server.PORT)))


def _span(least: float, most: float) -> str:
    return f"{least:.0f}" if round(least) == round(most) else f"{least:.0f} to {most:.0f}"
