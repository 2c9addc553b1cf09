"""What a run would do: cells, commands and predicted time; nothing is measured."""

from __future__ import annotations

import shlex
from typing import TextIO

from weighbridge import registry
from weighbridge.campaign import Campaign
from weighbridge.tools import Endpoint


def show_plan(campaign: Campaign, stream: TextIO) -> None:
    """Print every group: its cells, the command of each slot, and how long its rounds take."""
    total = 0.0
    for group in campaign.groups:
        least, most = group.planned(group.looks[0]), group.planned(group.looks[-1])
        lines: list[str] = []
        for slot in group.slots:
            first = slot.cells[0]
            tool = registry.find("tools", first.tool)
            reason = campaign.unavailable(first)
            lines.extend(f"  {cell.id}" + (f"  (skipped: {reason})" if reason else "") for cell in slot.cells)
            if reason is None and campaign.target.LIVE:
                lines.append(f"      $ {shlex.join(tool.argv(tool.PROGRAMS[0], slot.load, Endpoint('SERVER', 0)))}")
        runnable = [slot for slot in group.slots if campaign.unavailable(slot.cells[0]) is None]
        share = len(runnable) / len(group.slots)
        total += most * share
        rounds = "recorded" if not campaign.target.LIVE else f"{group.looks[0]} to {group.looks[-1]} rounds"
        time = "" if not campaign.target.LIVE else f", {least * share:.0f} to {most * share:.0f} s"
        print(f"\n{rounds}{time}", *lines, sep="\n", file=stream)
    seconds = f"at most {total:.0f} s of load" if campaign.target.LIVE else "nothing is measured"
    print(f"\n{len(campaign.selected)} cells, {len(campaign.groups)} groups, {seconds}", file=stream)
