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
    for group in campaign.groups:
        reasons = {slot: campaign.unavailable(slot.cells[0]) for slot in group.slots}
        lines: list[str] = []
        for slot, reason in reasons.items():
            for cell in slot.cells:
                notes = [] if cell.id in selected else ["only as a reference"]
                notes += [f"skipped: {reason}"] if reason else []
                lines.append(f"  {cell.id}" + (f"  ({'; '.join(notes)})" if notes else ""))
            if reason is None and live:
                lines.append(f"      $ {_command(slot)}")
        a_round = sum(slot.planned for slot, reason in reasons.items() if reason is None)
        least, most = group.looks[0], group.looks[-1]
        total += most * a_round
        if live:
            print(f"\n{_span(least, most)} rounds, {_span(least * a_round, most * a_round)} s", file=stream)
        else:
            print("\nrecorded", file=stream)
        print(*lines, sep="\n", file=stream)
    seconds = f"at most {total:.0f} s of load" if live else "nothing is measured"
    print(f"\n{len(selected)} cells, {len(campaign.groups)} groups, {seconds}", file=stream)


def _command(slot: Slot) -> str:
    tool = registry.find("tools", slot.cells[0].tool)
    return shlex.join(tool.argv(tool.PROGRAMS[0], slot.load, Endpoint("SERVER", 0)))


def _span(least: float, most: float) -> str:
    return f"{least:.0f}" if round(least) == round(most) else f"{least:.0f} to {most:.0f}"
