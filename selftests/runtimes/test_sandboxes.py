"""Every runtime that runs here: it serves, it proves itself, and it leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from weighbridge import registry
from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Sandbox
from weighbridge.shell import Deadline
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

LIMITS = Limits(cpu=0.5, memory=256 * 2**20)


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for all sandboxes."""
    with lab.open_site(Request("selftest", Path())) as opened:
        yield opened


@pytest.fixture(params=registry.keys("runtimes"))
def runtime(request: pytest.FixtureRequest, site: lab.Lab) -> ModuleType:
    """Every runtime module that this machine can run."""
    module: ModuleType = registry.find("runtimes", request.param)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return module


def start(site: lab.Lab, runtime: ModuleType, *argv: str) -> Sandbox:
    pod = site.pod(site.nodes[1], "calico")
    command = Command(argv, f"/run/weighbridge/selftest/{pod.name}")
    sandbox: Sandbox = runtime.start(pod, command, LIMITS, site.files, "selftest")
    return sandbox


def cgroups() -> set[Path]:
    return {path for path in Path("/sys/fs/cgroup").glob("**/weighbridge/selftest/*") if path.is_dir()}


def test_server_runs_and_evidence_proves_it(site: lab.Lab, runtime: ModuleType) -> None:
    """The claim holds: sandbox, cgroup and limits are read back from the kernel."""
    sandbox = start(site, runtime, "/usr/bin/sleep", "60")
    try:
        evidence = sandbox.evidence()

        assert runtime.unproven(evidence, LIMITS) is None
        assert evidence["kernel"]
    finally:
        sandbox.stop()


@pytest.mark.parametrize("limits", [Limits(), Limits(cpu=1.0), Limits(memory=2.0**28)], ids=["none", "cpu", "memory"])
def test_limits_may_be_left_out(site: lab.Lab, runtime: ModuleType, limits: Limits) -> None:
    """A scenario without limits, or with only one of them, is proven like any other."""
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/selftest/{pod.name}")
    sandbox = runtime.start(pod, command, limits, site.files, "selftest")
    try:
        assert runtime.unproven(sandbox.evidence(), limits) is None
    finally:
        sandbox.stop()


def test_stop_ends_it_and_removes_its_cgroups(site: lab.Lab, runtime: ModuleType) -> None:
    """Tear-down leaves neither process nor cgroup."""
    sandbox = start(site, runtime, "/usr/bin/sleep", "60")

    sandbox.stop()

    assert not sandbox.process.running()
    assert not cgroups()


def test_server_that_ends_at_once_is_noticed(site: lab.Lab, runtime: ModuleType) -> None:
    """A server that cannot start is a stand error or a dead process, never a silent success."""
    try:
        sandbox = start(site, runtime, "/usr/bin/false")
    except StandError:
        return
    Deadline(5).until(lambda: not sandbox.process.running(), "the process to end")
    sandbox.stop()


def test_limits_in_force_bind(site: lab.Lab) -> None:
    """Half a CPU is half a CPU: a busy loop inside runc is given about 0.5 s per second."""
    module = registry.find("runtimes", "runc")
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    sandbox = start(site, module, "/usr/bin/timeout", "20", "/usr/bin/sha256sum", "/dev/zero")
    try:
        cgroup = sandbox.evidence()["cgroup"]
        Deadline(5).until(lambda: cpu_seconds(cgroup) > 0.2, "the loop to be busy")
        started, used = time.monotonic(), cpu_seconds(cgroup)
        Deadline(10).until(lambda: time.monotonic() - started > 2, "two seconds")
        share = (cpu_seconds(cgroup) - used) / (time.monotonic() - started)
    finally:
        sandbox.stop()

    assert 0.25 < share < 0.6


def cpu_seconds(cgroup: str) -> float:
    root = Path("/sys/fs/cgroup")
    first = root / f"cpuacct{cgroup}/cpuacct.usage"
    if first.exists():
        return int(first.read_text()) / 1e9
    second = (root / cgroup[1:] / "cpu.stat").read_text().split()
    return int(second[second.index("usage_usec") + 1]) / 1e6


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({}, "no running container"),
        ({"sandbox": "none"}, "no running container"),
        ({"sandbox": "runc", "process": "x running", "cgroup": "", "limits": "none"}, "not in its cgroup"),
        ({"sandbox": "runc", "process": "x running", "cgroup": "/x", "limits": "none"}, "limits in force"),
        ({"sandbox": "runc", "process": "x stopped", "cgroup": "/x", "limits": "none"}, "no running container"),
    ],
)
def test_unproven_claims_are_refused(evidence: Mapping[str, str], reason: str) -> None:
    """A mislabelled runtime, or limits that are not in force, make a cell invalid."""
    found = registry.find("runtimes", "runc").unproven(evidence, LIMITS)

    assert found is not None
    assert reason.removeprefix("no ") in found
