"""Every runtime that runs here: it serves, it proves itself, and it leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from weighbridge import cgroups, registry
from weighbridge.errors import StandError
from weighbridge.model import Limits
from weighbridge.procfs import command_line, processors
from weighbridge.runtimes import Command, Sandbox
from weighbridge.scenario import load
from weighbridge.shell import Deadline
from weighbridge.stand import stand_up, unavailable
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

ROOT = Path(__file__).parents[2]
LIMITS = Limits(cpu=0.5, memory=256 * 2**20)
OCI = ["runc", "crun", "gvisor"]


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


def usable(site: lab.Lab, key: str) -> ModuleType:
    module: ModuleType = registry.find("runtimes", key)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return module


def start(site: lab.Lab, runtime: ModuleType, *argv: str) -> Sandbox:
    pod = site.pod(site.nodes[1], "calico")
    command = Command(argv, f"/run/weighbridge/selftest/{pod.name}")
    sandbox: Sandbox = runtime.start(pod, command, LIMITS, site.files, "selftest")
    return sandbox


def cgroups_there() -> set[Path]:
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
    command = Command(("/usr/bin/iperf3", "-s"), f"/run/weighbridge/selftest/{pod.name}")
    for _ in range(2):
        sandbox = runtime.start(pod, command, LIMITS, site.files, "selftest")
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


@pytest.mark.parametrize("key", OCI)
def test_server_keeps_to_its_processors(site: lab.Lab, key: str) -> None:
    """Every thread of the sandbox is held to the processors asked for, a user-space kernel's included."""
    module = usable(site, key)
    last = str(site.capacity.processors[-1])
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/selftest/{pod.name}", cpus=last)
    sandbox = module.start(pod, command, LIMITS, site.files, "selftest")
    try:
        evidence = sandbox.evidence()
        threads = [
            task.name for pid in cgroups.processes(evidence["cgroup"]) for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        assert evidence["processors"] == last
        assert {processors(int(thread)) for thread in threads} == {last}
    finally:
        sandbox.stop()


@pytest.mark.parametrize("key", OCI)
def test_limits_in_force_bind(site: lab.Lab, key: str) -> None:
    """Half a CPU is half a CPU: the kernel throttles a busy loop, which never gets more."""
    sandbox = start(site, usable(site, key), "/usr/bin/timeout", "20", "/usr/bin/sha256sum", "/dev/zero")
    try:
        cgroup = sandbox.evidence()["cgroup"]
        Deadline(10).until(lambda: throttled(cgroup) > 0, "the loop to be throttled")
        started, used = time.monotonic(), cpu_seconds(cgroup)
        Deadline(10).until(lambda: time.monotonic() - started > 2, "two seconds")
        share = (cpu_seconds(cgroup) - used) / (time.monotonic() - started)
    finally:
        sandbox.stop()

    assert 0 < share < 0.6


@pytest.mark.parametrize("key", OCI)
def test_cpu_request_is_in_force(site: lab.Lab, key: str) -> None:
    """A request becomes the cgroup's weight; without the weight asked for the claim is refused."""
    module = usable(site, key)
    asked = Limits(request_cpu=0.25)
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/selftest/{pod.name}")
    sandbox = module.start(pod, command, asked, site.files, "selftest")
    try:
        evidence = sandbox.evidence()
        assert module.unproven(evidence, asked) is None
        if cgroups.version() == 1:
            assert evidence["cpu weight"] == "cpu.shares 256"
        assert "CPU weight in force" in str(module.unproven(evidence, Limits(request_cpu=0.5)))
    finally:
        sandbox.stop()


@pytest.mark.parametrize("key", OCI)
def test_killing_the_suite_leaves_nothing(site: lab.Lab, key: str) -> None:
    """After SIGKILL no process of the sandbox is left, and the next lab takes its cgroups away."""
    usable(site, key)
    run = f"killed-{key}-{os.getpid()}"
    program = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from weighbridge import registry
        from weighbridge.model import Limits
        from weighbridge.runtimes import Command
        from weighbridge.targets import Request, lab
        with lab.open_site(Request("{run}", Path("."))) as site:
            pod = site.pod(site.nodes[1], "calico")
            command = Command(("/usr/bin/sleep", "60"), "/run/weighbridge/{run}/server")
            module = registry.find("runtimes", "{key}")
            sandbox = module.start(pod, command, Limits(cpu=0.5), site.files, "{run}")
            print("up", flush=True)
            time.sleep(60)
    """)
    popen = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    inside = [pid for top in run_folders(run) for folder in top.glob("**/") for pid in processes_in(folder)]
    assert inside

    popen.kill()
    popen.wait()
    popen.stdout.close()

    Deadline(2).until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside), "the sandbox to die")
    Deadline(2).until(lambda: not lines_with(f"/run/weighbridge/{run}"), "the rest of the lab to die")
    with lab.open_site(Request("selftest-next", ROOT)):
        assert not run_folders(run)


def run_folders(run: str) -> list[Path]:
    return [path for root in cgroups.hierarchies() if (path := root / "weighbridge" / run).exists()]


def processes_in(folder: Path) -> list[str]:
    return (folder / "cgroup.procs").read_text().split()


def lines_with(text: str) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if any(text in word for word in command_line(pid))]


def throttled(cgroup: str) -> int:
    folder = cgroups.ROOT / "cpu" / cgroup[1:] if cgroups.version() == 1 else cgroups.ROOT / cgroup[1:]
    words = (folder / "cpu.stat").read_text().split()
    return int(words[words.index("nr_throttled") + 1])


def cpu_seconds(cgroup: str) -> float:
    root = Path("/sys/fs/cgroup")
    first = root / f"cpuacct{cgroup}/cpuacct.usage"
    if first.exists():
        return int(first.read_text()) / 1e9
    second = (root / cgroup[1:] / "cpu.stat").read_text().split()
    return int(second[second.index("usage_usec") + 1]) / 1e6


@pytest.mark.parametrize("key", OCI)
@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({}, "running container"),
        ({"sandbox": "none"}, "running container"),
        ({"process": "x running", "cgroup": "", "limits": "none"}, "not in its cgroup"),
        ({"process": "x running", "cgroup": "/x", "limits": "none"}, "limits in force"),
        ({"process": "x stopped", "cgroup": "/x", "limits": "none"}, "running container"),
    ],
)
def test_unproven_claims_are_refused(key: str, evidence: Mapping[str, str], reason: str) -> None:
    """A mislabelled runtime, or limits that are not in force, make a cell invalid."""
    found = registry.find("runtimes", key).unproven({"sandbox": key, **evidence} if evidence else {}, LIMITS)

    assert found is not None
    assert reason in found


@pytest.mark.parametrize("key", registry.keys("runtimes"))
def test_every_runtime_says_what_it_refuses_and_fetches(key: str) -> None:
    """The stand and the doctor ask every runtime alike, whether it can run here or not."""
    module = registry.find("runtimes", key)
    assert module.refuses(Limits(), pods=True) is None
    assert callable(module.fetch)
