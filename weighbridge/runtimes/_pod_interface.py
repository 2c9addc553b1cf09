"""What a pod's interface is: the guest's own takes over its MAC, MTU, addresses, routes and neighbours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weighbridge.errors import StandError
from weighbridge.shell import Shell

DEVICE = "eth0"


@dataclass(frozen=True, slots=True)
class Interface:
    """`configuration` holds the commands, after `ip` or `arp`, that give another interface the same."""

    mac: str
    mtu: int
    configuration: tuple[tuple[str, ...], ...]


def read(shell: Shell) -> Interface:
    """The interface of the pod whose shell this is.

    Raises StandError when it has none, CommandError when it cannot be asked.
    """
    listing = shell.run(["ip", "-json", "-4", "address", "show", "dev", DEVICE], check=False)
    found = json.loads(listing.stdout or "[]")
    if not listing.ok or not found:
        raise StandError(f"the pod has no {DEVICE} for a virtual machine to take over")
    link = json.loads(shell.run(["ip", "-json", "link", "show", "dev", DEVICE]).stdout)[0]
    routes = json.loads(shell.run(["ip", "-json", "-4", "route", "show", "dev", DEVICE]).stdout or "[]")
    neighbours = json.loads(shell.run(["ip", "-json", "-4", "neighbour", "show", "dev", DEVICE]).stdout or "[]")
    addresses = [f"{entry['local']}/{entry['prefixlen']}" for entry in found[0]["addr_info"]]
    commands = [
        ("ip", "link", "set", DEVICE, "mtu", str(link["mtu"])),
        *(("ip", "address", "add", address, "dev", DEVICE) for address in addresses),
        ("ip", "link", "set", DEVICE, "up"),
        # A gateway has to be reachable before a route may name it; the kernel made its own routes itself.
        *sorted((_route(route) for route in routes if route.get("protocol") != "kernel"), key=lambda r: "via" in r),
        *(
            ("arp", "-i", DEVICE, "-s", entry["dst"], entry["lladdr"])
            for entry in neighbours
            if "PERMANENT" in entry.get("state", []) and "lladdr" in entry
        ),
    ]
    return Interface(link["address"], int(link["mtu"]), tuple(commands))


def _route(route: Mapping[str, Any]) -> tuple[str, ...]:
    words = ["ip", "route", "add", route["dst"]]
    if "gateway" in route:
        words += ["via", route["gateway"]]
    words += ["dev", DEVICE]
    if "prefsrc" in route:
        words += ["src", route["prefsrc"]]
    if "gateway" not in route:
        words += ["scope", route.get("scope", "link")]
    return (*words, *(flag for flag in route.get("flags", []) if flag == "onlink"))
