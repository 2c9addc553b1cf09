"""Kata's `tcfilter`: everything that reaches the pod's interface goes to the tap of its VM, and back.

    eth0 (of the pod) ── ingress ──mirred redirect──▸ tap ── virtio-net of the guest
    eth0 ◂──mirred redirect── ingress ── tap

The pod's own IP stack sees no packet any more; its address lives on inside the guest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weighbridge.shell import Shell

DEVICE = "eth0"
TAP = "tap0_kata"
"""Kata's own name for it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Packets: received by the pod's interface, redirected into the VM, redirected out of it."""

    received: int
    inward: int
    outward: int


def make(shell: Shell, mtu: int) -> None:
    """Make the tap, with room for a header of offloads in front of every packet, and both redirections.

    Raises CommandError when the kernel refuses; `remove` undoes what was made until then.
    """
    shell.run(["ip", "tuntap", "add", "dev", TAP, "mode", "tap", "vnet_hdr"])
    shell.run(["ip", "link", "set", TAP, "mtu", str(mtu), "up"])
    for source, sink in ((DEVICE, TAP), (TAP, DEVICE)):
        shell.run(["tc", "qdisc", "add", "dev", source, "ingress"])
        redirect = ["action", "mirred", "egress", "redirect", "dev", sink]
        every = ["protocol", "all", "u32", "match", "u8", "0", "0"]
        shell.run(["tc", "filter", "add", "dev", source, "parent", "ffff:", *every, *redirect])


def remove(shell: Shell) -> None:
    """Take the tap and the redirections away; what is not there is no error."""
    shell.run(["tc", "qdisc", "delete", "dev", DEVICE, "ingress"], check=False)
    shell.run(["ip", "link", "delete", TAP], check=False)


def unavailable(shell: Shell) -> str | None:
    """Why the datapath cannot be made where `shell` runs; None when it can. Tries it on a tap of its own."""
    probe = "wbprobetap"
    steps = (
        ["ip", "tuntap", "add", "dev", probe, "mode", "tap", "vnet_hdr"],
        ["tc", "qdisc", "add", "dev", probe, "ingress"],
        [
            *("tc", "filter", "add", "dev", probe, "parent", "ffff:", "protocol", "all"),
            *("u32", "match", "u8", "0", "0", "action", "mirred", "egress", "redirect", "dev", "lo"),
        ],
    )
    try:
        for step in steps:
            done = shell.run(step, check=False)
            if not done.ok:
                return f"no VM can be joined to a pod here: {done.explain()}"
    finally:
        shell.run(["ip", "link", "delete", probe], check=False)
    return None


def count(shell: Shell) -> Counted:
    """What has passed so far; zeros where nothing is redirected."""
    listing = shell.run(["ip", "-json", "-statistics", "link", "show", DEVICE], check=False).stdout
    received = json.loads(listing)[0]["stats64"]["rx"]["packets"] if listing.strip() else 0
    return Counted(int(received), _redirected(shell, DEVICE), _redirected(shell, TAP))


def _redirected(shell: Shell, device: str) -> int:
    """Packets that the filter on a device's ingress has redirected."""
    listing = shell.run(["tc", "-json", "-statistics", "filter", "show", "dev", device, "ingress"], check=False).stdout
    filters: list[Mapping[str, Any]] = json.loads(listing) if listing.strip() else []
    actions = (action for found in filters for action in found.get("options", {}).get("actions", []))
    return sum(int(action.get("stats", {}).get("packets", 0)) for action in actions if action["kind"] == "mirred")
