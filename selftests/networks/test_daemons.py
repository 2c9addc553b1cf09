"""The daemons of a switch: they live with their lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from weighbridge import registry
from weighbridge.shell import Deadline
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))


def inhabitants(namespace: str) -> dict[str, str]:
    """Process id and name of everything in a PID namespace."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "ns/pid").readlink()) == namespace:
                found[process.name] = (process / "comm").read_text().strip()
        except OSError:
            continue
    return found


@pytest.mark.parametrize("key", ["ovs", "neutron"])
def test_daemons_end_with_their_lab(key: str) -> None:
    """A daemon that leaves its parent is adopted by the lab's first process and dies with it."""
    with lab.open_site(Request("daemons", Path())) as site:
        if reason := registry.find("networks", key).unavailable(site.shell()):
            pytest.skip(reason)
        site.pod(site.nodes[0], key)
        namespace = str(Path(f"/proc/{site.namespace.pid}/ns/pid").readlink())
        assert sorted(inhabitants(namespace).values()).count("ovs-vswitchd") == len(site.nodes)
        assert sorted(inhabitants(namespace).values()).count("ovsdb-server") == len(site.nodes)

    Deadline(5).until(lambda: not inhabitants(namespace), "the daemons to end")
