"""Container networks, one module each: how nodes and pods are joined, and what proves it.

A network gets nodes and pods with a shell in their namespaces and types `ip` and its kin there: the
same commands work for root, inside a user namespace and on a remote host, which a netlink socket of
this process does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weighbridge.hosts import Node, Pod
from weighbridge.shell import Shell


class Network(Protocol):
    """What a module under `weighbridge.networks` offers to a target that has bare nodes."""

    PODS: bool
    """Whether pods have namespaces of their own."""
    OVERHEAD: int
    """Bytes that every packet between nodes carries on top of a pod's own."""
    DEVICE: str | None
    """The device on every node that all cross-node traffic of this network passes."""

    def unavailable(self, shell: Shell) -> str | None:
        """Why it cannot be wired where `shell` runs; None when it can."""

    def wire(self, nodes: Sequence[Node]) -> None:
        """Join the nodes; called once per lab."""

    def address(self, node: Node, number: int) -> str:
        """The address of the `number`th pod (from 1) of a node."""

    def join(self, pod: Pod, nodes: Sequence[Node]) -> None:
        """Give a pod its interface `eth0`, its address and its routes."""


def missing_device(shell: Shell, kind: str) -> str | None:
    """Why a kernel device kind cannot be made where `shell` runs; None when it can.

    Makes one and removes it: a module may be loadable on demand, so listing modules would not tell.
    """
    name = f"wbprobe{kind[:6]}"
    extra = {"vxlan": ["id", "1", "dstport", "4789"]}.get(kind, [])
    made = shell.run(["ip", "link", "add", name, "type", kind, *extra], check=False)
    if not made.ok:
        return f"this kernel has no {kind} device ({made.stderr.strip() or made.code})"
    shell.run(["ip", "link", "del", name], check=False)
    return None
