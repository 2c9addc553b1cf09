"""Reliable RDMA connections between addresses of the nodes: an adapter's, or Soft-RoCE's.

    qperf ─ verbs, RDMA-CM ─ rxe-<run>-node1 ─ node1 eth0 ═══ link ═══ eth0 node2 ─ rxe-<run>-node2 ─ qperf

A node whose device has no RDMA of its own gets Soft-RoCE (kernel module rdma_rxe, RoCE v2 over UDP port
4791), which `rdma link` puts on any Ethernet device. Devices belong to a node, not to its pods, and a
sandbox would have to be given their files, so it is for servers on the host network and in no sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from weighbridge.hosts import Node
from weighbridge.model import Cell
from weighbridge.shell import Shell

TRAFFIC = "RDMA"
_NAME = 63
"""Characters that the kernel allows in a device's name."""


def unavailable(shell: Shell, cell: Cell) -> str | None:
    """It needs a node's own device, or a kernel that can make one."""
    if reason := off_the_node(cell):
        return reason
    if shell.which("rdma") is None:
        return "rdma is not installed; install it with: apt-get install iproute2"
    if any(link.get("netdev") for link in links(shell)):
        return None
    return _missing_soft_roce(shell)


def provide(nodes: Sequence[Node], run_id: str) -> Callable[[], None]:
    """Put Soft-RoCE on the device of every node that has no RDMA there.

    Raises CommandError when the kernel refuses; nothing is left behind then.
    """
    with ExitStack() as undo:
        for node in nodes:
            if any(link.get("netdev") == node.device for link in links(node.shell)):
                continue
            name = f"rxe-{run_id}-{node.name}"[-_NAME:]
            node.shell.run(["rdma", "link", "add", name, "type", "rxe", "netdev", node.device])
            undo.callback(node.shell.run, ["rdma", "link", "delete", name], check=False)
        return undo.pop_all().close


def off_the_node(cell: Cell) -> str | None:
    """Why a cell's server has no way to the devices of its node; None when it has."""
    if (network := cell.axis("network", "host")) != "host":
        return f"RDMA needs a node's own device, which pods of network {network} do not have; use network = host"
    if (runtime := cell.axis("runtime", "host")) != "host":
        return f"RDMA needs a node's own device, which runtime {runtime} hands to no sandbox; use runtime = host"
    return None


def links(shell: Shell) -> list[dict[str, Any]]:
    """The RDMA devices in a namespace, as `rdma link` tells them: `ifname`, `netdev`, `lid`; none where it cannot."""
    listing = shell.run(["rdma", "-json", "link", "show"], check=False)
    if not listing.ok or not listing.stdout.strip():
        return []
    found: list[dict[str, Any]] = json.loads(listing.stdout)
    return found


def _missing_soft_roce(shell: Shell) -> str | None:
    """Why Soft-RoCE cannot be made; makes one on a device of its own, and removes it."""
    shell.run(["ip", "link", "add", "wbprobe", "type", "veth", "peer", "name", "wbprobe-peer"])
    try:
        made = shell.run(["rdma", "link", "add", "rxe-wbprobe", "type", "rxe", "netdev", "wbprobe"], check=False)
        if made.ok:
            shell.run(["rdma", "link", "delete", "rxe-wbprobe"], check=False)
            return None
    finally:
        shell.run(["ip", "link", "delete", "wbprobe"], check=False)
    said = (made.stderr.strip() or f"code {made.code}").splitlines()[-1]
    return f"this kernel has no RDMA device and no Soft-RoCE (rdma_rxe): {said}"
