"""InfiniBand proper, whose packets are addressed by LID: unconnected and unreliable RDMA tests know nothing else."""

from __future__ import annotations

from weighbridge.features import nothing_to_provide as provide
from weighbridge.features.rdma import links, off_the_node
from weighbridge.model import Cell
from weighbridge.shell import Shell

__all__ = ["TRAFFIC", "provide", "unavailable"]

TRAFFIC = "RDMA"


def unavailable(shell: Shell, cell: Cell) -> str | None:
    """It needs an adapter with a LID, which a subnet manager gives; RoCE, soft or not, has none."""
    if reason := off_the_node(cell):
        return reason
    if shell.which("rdma") is None:
        return "rdma is not installed; install it with: apt-get install iproute2"
    if any(int(link.get("lid", 0)) for link in links(shell)):
        return None
    return "this machine has no InfiniBand adapter with a LID; UC, UD and XRC tests of qperf do not work over RoCE"
