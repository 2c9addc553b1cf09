"""Open vSwitch with VXLAN tunnels between the nodes.

The lab cannot wire it, so its cells are skipped there; recordings of it are judged like any other.
"""

from __future__ import annotations

from weighbridge.shell import Shell

PODS = True
OVERHEAD = 50
PACKAGES = ()
SERVICES = False


def unavailable(shell: Shell) -> str | None:  # noqa: ARG001 - part of the protocol
    """Say that the lab has no wiring for it."""
    return "the lab has no wiring for ovs"
