"""Every network in a lab of an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weighbridge import registry

ROOT = Path(__file__).parents[2]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.mark.parametrize("key", registry.keys("networks"))
def test_an_ordinary_user_gets_the_network_or_a_reason(key: str) -> None:
    """Nothing about a network needs real root: where the kernel lets an ordinary user wire it, packets cross it."""
    inside = [*NOBODY, "unshare", "--user", "--map-root-user"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("ordinary users may not make user namespaces here")
    if subprocess.run([*inside, sys.executable, "-c", "import pydantic"], check=False, capture_output=True).returncode:
        pytest.skip("an ordinary user cannot read this Python environment")
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

    done = subprocess.run(
        [*NOBODY, sys.executable, "-B", "-c", program],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )

    if done.stdout.startswith("unavailable:"):
        pytest.skip(done.stdout.partition(":")[2].strip())
    assert done.stdout == "carried: True\n", done.stderr
