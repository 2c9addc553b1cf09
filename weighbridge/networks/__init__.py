"""Container networks, one module each: how nodes and pods are joined, and what proves it.

A network gets nodes and pods with a shell in their namespaces and types `ip` and its kin there: the
same commands work for root, inside a user namespace and on a remote host, which a netlink socket of
this process does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weighbridge.hosts import Node, Pod
from weighbridge.shell import Shell


@dataclass(frozen=True, slots=True)
class Carried:
    """How many bytes a part of a network has carried since it was made; `part` says which part that is."""

    part: str
    bytes: int


class Network(Protocol):
    """What a module under `weighbridge.networks` offers to a target that has bare nodes."""

    PODS: bool
    """Whether pods have namespaces of their own."""
    OVERHEAD: int
    """Bytes that every packet between nodes carries on top of a pod's own."""
    PACKAGES: tuple[str, ...]
    """The Debian packages that bring what it types, beyond what the lab itself needs."""
    SERVICES: bool
    """Whether pods' packets pass their node's IP stack, where the rules of a service address are."""

    def unavailable(self, shell: Shell) -> str | None:
        """Why it cannot be wired where `shell` runs; None when it can."""

    def wire(self, nodes: Sequence[Node]) -> None:
        """Join the nodes; called once per lab."""

    def address(self, node: Node, number: int) -> str:
        """The address of the `number`th pod (from 1) of a node."""

    def join(self, pod: Pod, nodes: Sequence[Node]) -> None:
        """Give a pod its interface `eth0`, its address and its routes."""

    def leave(self, pod: Pod, nodes: Sequence[Node]) -> None:
        """Take away what `join` made outside the pod's own namespace and what does not go with that."""

    def carried(self, pod: Pod) -> Carried:
        """What the part that makes this network what it is has carried; all cross-node traffic of the pod passes it."""

    def evidence(self, pod: Pod) -> Mapping[str, str]:
        """What else tells this network from others, for the report (its datapath, its version, its chains)."""

    def caveat(self, pod: Pod) -> str | None:
        """Why no verdict may rest on its figures although they are true (a stand-in's datapath); None when one may."""


def nothing_to_leave(pod: Pod, nodes: Sequence[Node]) -> None:
    """All that was made goes with the pod's namespace."""


def no_caveat(pod: Pod) -> str | None:  # noqa: ARG001 - a network's `caveat`
    """Its datapath is the one that its users run."""
    return None


def no_evidence(pod: Pod) -> Mapping[str, str]:  # noqa: ARG001 - a network's `evidence`
    """The device that carries its traffic says everything."""
    return {}


def device_carried(node: Node, device: str) -> Carried:
    """What a device of a node has received and sent."""
    listing = node.shell.run(["ip", "-json", "-statistics", "link", "show", device]).stdout
    return Carried(f"{device} on {node.name}", device_bytes(listing))


def device_bytes(listing: str) -> int:
    """Bytes received and sent, from what `ip -json -statistics link show` says of one device or of several."""
    counts = [device["stats64"] for device in json.loads(listing)]
    return sum(int(stats["rx"]["bytes"]) + int(stats["tx"]["bytes"]) for stats in counts)


def missing_device(shell: Shell, kind: str, *arguments: str, parent: str | None = None) -> str | None:
    """Why a kernel device kind cannot be made where `shell` runs; None when it can.

    Makes one with the `arguments` that the kind demands, and removes it: a module may be loadable on
    demand, so listing modules would not tell. A kind that sits on another device finds it as `parent`.
    """
    name, on = f"wbprobe{kind[:6]}", ["link", parent] if parent else []
    made = shell.run(["ip", "link", "add", *on, "name", name, "type", kind, *arguments], check=False)
    if not made.ok:
        said = (made.stderr.strip() or f"exit code {made.code}").splitlines()[-1]
        if any(words in said for words in ("Unknown device type", "not supported")):
            return f"this kernel has no {kind} device; load it with: modprobe {kind}"
        return f"no {kind} device can be made: {said}"
    shell.run(["ip", "link", "del", name], check=False)
    return None


def missing_program(shell: Shell, programs: Sequence[str], packages: Sequence[str]) -> str | None:
    """Which of the programs that a network types is not installed, and what installs it; None when none is missing."""
    missing = [program for program in programs if shell.which(program) is None]
    return f"{missing[0]} is not installed; install it with: apt-get install {' '.join(packages)}" if missing else None
