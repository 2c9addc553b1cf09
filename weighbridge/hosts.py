"""Nodes and pods: places with a network namespace and a shell, whoever made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.shell import Finished, Shell


def ip_batch(shell: Shell, *commands: Sequence[str]) -> None:
    """Run several `ip` commands in one go, which saves most of the time of entering a namespace.

    Raises CommandError at the first that fails; those before it stay.
    """
    shell.run(["ip", "-batch", "-"], given=batch(*commands))


def batch(*commands: Sequence[str]) -> str:
    """Commands as a program reads them from its input, one a line."""
    return "".join(f"{' '.join(words)}\n" for words in commands)


@dataclass(frozen=True, slots=True)
class Node:
    """A host: its network namespace, its place in the order of nodes and its address on the link."""

    name: str
    number: int
    shell: Shell
    address: str
    device: str
    mtu: int

    def ip(self, *arguments: str) -> Finished:
        """Run `ip` in the node's namespace."""
        return self.shell.run(["ip", *arguments])

    def sysctl(self, **settings: str) -> None:
        """Set kernel parameters of the node's namespace; `__` in a name stands for a dot."""
        self.shell.run(["sysctl", "-q", "-w", *(f"{k.replace('__', '.')}={v}" for k, v in settings.items())])


@dataclass(frozen=True, slots=True)
class Pod:
    """A network namespace on a node with an address of its own (the node's, on the host network)."""

    name: str
    number: int
    node: Node
    namespace: str
    shell: Shell
    address: str
