"""Every network in a lab of an ordinary user."""

from __future__ import annotations

import textwrap

import pytest

from selftests.ordinary_user import run_as_ordinary_user
from weighbridge import registry


@pytest.mark.parametrize("key", registry.keys("networks"))
def test_an_ordinary_user_gets_the_network_or_a_reason(key: str) -> None:
    """Nothing about a network needs real root: where the kernel lets an ordinary user wire it, packets cross it."""
    program = textwrap.dedent(f"""
        from pathlib import Path
        from selftests.networks.traffic import ping
        from weighbridge import registry
        from weighbridge.targets import Request, lab
        network = registry.find("networks", "{key}")
        with lab.open_site(Request("rootless", Path("."))) as site:
            if reason := network.unavailable(site.shell()):
                print("unavailable:", reason)
            else:
                client, server = site.pod(site.nodes[0], "{key}"), site.pod(site.nodes[1], "{key}")
                assert ping(client.shell, server.address)
                before = network.carried(server).bytes
                assert ping(client.shell, server.address, 1000)
                print("carried:", network.carried(server).bytes - before >= 10000)
    """)

    done = run_as_ordinary_user(program)

    if done.stdout.startswith("unavailable:"):
        pytest.skip(done.stdout.partition(":")[2].strip())
    assert done.stdout == "carried: True\n", done.stderr
