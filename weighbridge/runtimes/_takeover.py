"""A pod's interface while a user-space network stack has it.

gVisor's netstack takes the address and the routes of `eth0` for itself and removes them from the kernel, which
would answer for them otherwise. They are read before, and given back when the sandbox has ended, so that the pod
can hold another server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.runtimes import Files

_DEVICE = "eth0"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pod's interface had: the `ip` commands that give it back."""

    commands: tuple[str, ...]

    def give_back(self, pod: Pod, files: Files, workdir: str) -> None:
        """Set address and routes again, as they were; what is there already stays.

        Raises CommandError when the kernel refuses one.
        """
        _batch(pod, files, workdir, self.commands)


def taken(pod: Pod, files: Files, workdir: str) -> Taken:
    """Address and routes of the pod's interface, before they are taken.

    Raises StandError when it has no address, CommandError when the interface is missing.
    """
    said = _batch(pod, files, workdir, [f"address show dev {_DEVICE}", f"route show dev {_DEVICE}"])
    addresses, routes = _documents(said)
    own = [info for entry in addresses for info in entry.get("addr_info", []) if info["family"] == "inet"]
    if not own:
        raise StandError(f"{_DEVICE} of {pod.name} has no address that a sandbox could take over")
    commands = [f"address replace {info['local']}/{info['prefixlen']} dev {_DEVICE}" for info in own]
    # A gateway has to be reachable before it is named; the kernel sets the routes of an address by itself.
    ordered = sorted(routes, key=lambda route: "gateway" in route)
    return Taken((*commands, *(_route(route) for route in ordered if route.get("protocol") != "kernel")))


def _route(route: Mapping[str, Any]) -> str:
    words = ["route", "replace", route["dst"], "dev", _DEVICE]
    for key, word in (("gateway", "via"), ("scope", "scope"), ("prefsrc", "src"), ("metric", "metric")):
        if key in route:
            words += [word, str(route[key])]
    if "onlink" in route.get("flags", []):
        words.append("onlink")
    return " ".join(words)


def _batch(pod: Pod, files: Files, workdir: str, commands: Sequence[str]) -> str:
    """Several `ip` commands in one process: entering a namespace costs more than they do."""
    path = f"{workdir}/ip.batch"
    files.write(path, "".join(f"{command}\n" for command in commands))
    return pod.shell.run(["ip", "-json", "-batch", path]).stdout


def _documents(text: str) -> list[list[dict[str, Any]]]:
    """The JSON lists that `ip -json -batch` prints one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(document)
        rest = rest[end:].strip()
    return found
