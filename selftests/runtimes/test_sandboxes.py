"""Every runtime that runs here: it serves, it proves itself, and it leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from selftests.runtimes.started import LIMITS, ROOT, RUN, cgroups_there, start
from weighbridge import registry
from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.runtimes import Command
from weighbridge.scenario import load
from weighbridge.shell import Deadline
from weighbridge.stand import stand_up, unavailable
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for all sandboxes."""
    with lab.open_site(Request(RUN, Path())) as opened:
        yield opened


@pytest.fixture(params=registry.keys("runtimes"))
def runtime(request: pytest.FixtureRequest, site: lab.Lab) -> ModuleType:
    """Every runtime module that this machine can run."""
    module: ModuleType = registry.find("runtimes", request.param)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return module


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
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/{RUN}/{pod.name}")
    sandbox = runtime.start(pod, command, limits, site.files, RUN)
    try:
        assert runtime.unproven(sandbox.evidence(), limits) is None
    finally:
        sandbox.stop()


def test_stop_ends_it_and_removes_its_cgroups(site: lab.Lab, runtime: ModuleType) -> None:
    """Tear-down leaves neither process nor cgroup."""
    sandbox = start(site, runtime, "/usr/bin/sleep", "60")

    sandbox.stop()

    assert not sandbox.process.running()
    assert not cgroups_there()


def test_server_that_ends_at_once_is_noticed(site: lab.Lab, runtime: ModuleType) -> None:
    """A server that cannot start is a stand error or a dead process, never a silent success."""
    try:
        sandbox = start(site, runtime, "/usr/bin/false")
    except StandError:
        return
    try:
        Deadline(5).until(lambda: not sandbox.process.running(), "the process to end")
    finally:
        sandbox.stop()
    assert not cgroups_there()


def test_dying_server_is_noticed(site: lab.Lab, runtime: ModuleType) -> None:
    """A server that is killed while it serves ends the process that the target watches."""
    sandbox = start(site, runtime, "/usr/bin/timeout", "--signal=KILL", "0.5", "/usr/bin/sleep", "60")
    try:
        Deadline(10).until(lambda: not sandbox.process.running(), "the process to end")
    finally:
        sandbox.stop()
    assert not cgroups_there()


def test_pod_serves_again_after_a_stop(site: lab.Lab, runtime: ModuleType) -> None:
    """A second server in the same pod, with the same folder, is reached like the first."""
    pod, client = site.pod(site.nodes[1], "calico"), site.pod(site.nodes[0], "calico")
    command = Command(("/usr/bin/iperf3", "-s"), f"/run/weighbridge/{RUN}/{pod.name}")
    for _ in range(2):
        sandbox = runtime.start(pod, command, LIMITS, site.files, RUN)
        try:
            Deadline(10).until(partial(sandbox.listens, "tcp", 5201), "iperf3 to listen")
            done = client.shell.run(["iperf3", "-c", pod.address, "-n", "64K"], check=False)
        finally:
            sandbox.stop()
        assert done.ok, done.explain()


def test_sockets_of_both_kinds_are_seen(site: lab.Lab, runtime: ModuleType) -> None:
    """A server that waits for connections or datagrams is ready; another port, and none, are not."""
    for transport, flags in (("tcp", ()), ("udp", ("-u",))):
        sandbox = start(site, runtime, "/usr/bin/iperf", "-s", *flags, "-p", "5077")
        try:
            Deadline(10).until(partial(sandbox.listens, transport, 5077), f"a {transport} server to wait")
            assert not sandbox.listens(transport, 5078)
            assert not sandbox.listens("udp" if transport == "tcp" else "tcp", 5077)
        finally:
            sandbox.stop()


@pytest.mark.parametrize(
    ("scenario", "network"),
    [
        ("http_rate", "host"),
        ("http_rate", "calico"),
        ("socket_1c2g", "calico"),
        ("socket_1c2g", "flannel"),
        ("network_stream3", "flannel"),
    ],
)
def test_server_answers_from_the_other_node(site: lab.Lab, runtime: ModuleType, scenario: str, network: str) -> None:
    """A real load crosses the link to the sandbox and back, and the whole stand is proven."""
    cell = load(ROOT / "scenarios" / f"{scenario}.toml", "smoke").cells[0]
    key = runtime.__name__.rpartition(".")[2]
    cell = replace(cell, axes={**cell.axes, "runtime": key, "network": network, "placement": "cross-node"})
    short = registry.find("tools", cell.tool).Load.model_validate({**cell.load_text, "duration": "1s"})
    if reason := unavailable(site, cell):
        pytest.skip(reason)
    stand = stand_up(site, cell)
    try:
        reading = stand.read(cell, short, 0)
        assert reading.problem is None
        assert registry.find("tools", cell.tool).parse(reading.output)
        assert stand.unproven() is None
    finally:
        stand.close()


def test_memory_is_plausible(site: lab.Lab) -> None:
    """Between a program's own pages and the machine's; a user-space kernel takes more than none."""
    found = {}
    for key in registry.keys("runtimes"):
        module = registry.find("runtimes", key)
        if module.unavailable(site.shell()) is None:
            sandbox = start(site, module, "/usr/bin/iperf3", "-s")
            try:
                Deadline(10).until(partial(sandbox.listens, "tcp", 5201), "iperf3 to listen")
                found[key] = sandbox.memory()
            finally:
                sandbox.stop()

    assert all(2**19 < size < 2**30 for size in found.values()), found
    if {"runc", "gvisor"} <= found.keys():
        assert found["gvisor"] > found["runc"]


@pytest.mark.parametrize("key", registry.keys("runtimes"))
def test_every_runtime_says_what_it_refuses_and_fetches(key: str) -> None:
    """The stand and the doctor ask every runtime alike, whether it can run here or not."""
    module = registry.find("runtimes", key)
    assert module.refuses(Limits(), pods=True) is None
    assert callable(module.fetch)
