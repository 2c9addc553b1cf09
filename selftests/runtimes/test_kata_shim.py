"""The way to an installed Kata, tried with containerd's own shim where Kata's is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.runtimes import Command, _kata_shim, kata
from weighbridge.shell import Deadline
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

LIMITS = Limits(cpu=1.0, memory=2.0**28)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[lab.Lab]:
    """A lab in which containerd runs containers without a virtual machine."""
    monkeypatch.setattr(_kata_shim, "RUNTIME", "io.containerd.runc.v2")
    if reason := cgroups.unavailable():
        pytest.skip(reason)
    with lab.open_site(Request("shimtest", Path())) as opened:
        for program in ("containerd", "ctr", "containerd-shim-runc-v2", "runc"):
            if opened.shell().which(program) is None:
                pytest.skip(f"{program} is not installed; install it with: apt-get install containerd runc")
        yield opened


def test_container_without_a_machine_serves_and_is_not_proven(site: lab.Lab) -> None:
    """containerd, the bundle and the questions asked inside work, and a shim that makes no machine is found out."""
    pod = site.pod(site.nodes[1], "calico")
    folder = f"/run/weighbridge/shimtest/{pod.name}"
    command = Command(("/usr/bin/iperf3", "--server", "--port", "5201"), folder)
    sandbox = _kata_shim.start(pod, command, LIMITS, site.files, "shimtest")
    try:
        Deadline(5).until(lambda: sandbox.listens("tcp", 5201), "iperf3 to listen")
        evidence = sandbox.evidence()
        client = site.nodes[0].shell.run(["iperf3", "--client", pod.address, "--time", "1"])
    finally:
        sandbox.stop()

    assert "iperf Done" in client.stdout
    assert evidence["boot id"] == evidence["host boot id"]
    assert kata.unproven(evidence, LIMITS) == "no virtual machine is running"
    assert not sandbox.process.running()
    assert "containerd" not in site.shell().run(["ls", folder]).stdout.split()
    assert not list(Path("/sys/fs/cgroup").glob("**/weighbridge/shimtest/*"))


def test_what_cannot_start_says_why(site: lab.Lab) -> None:
    """A program that is not there is an error with the shim's words, and nothing is left."""
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/no/such",), f"/run/weighbridge/shimtest/{pod.name}")

    with pytest.raises(StandError, match="/no/such"):
        _kata_shim.start(pod, command, LIMITS, site.files, "shimtest")


PROVEN = {
    "sandbox": _kata_shim.SANDBOX,
    "process": "qemu-system-x86 running",
    "kernel": "6.12.0",
    "boot id": "a",
    "host boot id": "b",
    "acceleration": "kvm",
    "limits": "cpu 1 memory 268435456",
    "cgroup": "/weighbridge/x/y",
}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"process": "no hypervisor"}, "no virtual machine"),
        ({"kernel": ""}, "no kernel"),
        ({"boot id": "b"}, "host's own kernel"),
        ({"limits": "none"}, "limits in force"),
    ],
)
def test_claims_of_a_shim_are_checked(changed: dict[str, str], reason: str) -> None:
    """A hypervisor, a kernel of its own and the limits have to be seen."""
    assert kata.unproven(PROVEN, LIMITS) is None
    assert kata.caveat(PROVEN) is None
    assert reason in str(kata.unproven({**PROVEN, **changed}, LIMITS))
