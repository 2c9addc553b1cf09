"""OCI runtimes: the limits bind, the processors hold, and the kernel and the next run clear up after a killed one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from selftests.runtimes.started import LIMITS, ROOT, RUN, start, usable
from weighbridge import cgroups, registry
from weighbridge.model import Limits
from weighbridge.procfs import command_line, processors
from weighbridge.runtimes import Command, _oci
from weighbridge.shell import Deadline, LocalShell
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

OCI = ["runc", "crun", "gvisor"]


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for all sandboxes."""
    with lab.open_site(Request(RUN, Path())) as opened:
        yield opened


@pytest.mark.parametrize("key", OCI)
def test_server_keeps_to_its_processors(site: lab.Lab, key: str) -> None:
    """Every thread of the sandbox is held to the processors asked for, a user-space kernel's included."""
    module = usable(site, key)
    last = str(site.capacity.processors[-1])
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/{RUN}/{pod.name}", cpus=last)
    sandbox = module.start(pod, command, LIMITS, site.files, RUN)
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
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/{RUN}/{pod.name}")
    sandbox = module.start(pod, command, asked, site.files, RUN)
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
        ({"process": "x running", "cgroup": "", "limits": "none"}, "not in its cgroup"),
        ({"process": "x running", "cgroup": "/x", "limits": "none"}, "limits in force"),
        ({"process": "x stopped", "cgroup": "/x", "limits": "none"}, "running container"),
    ],
)
def test_unproven_claims_are_refused(key: str, evidence: Mapping[str, str], reason: str) -> None:
    """A mislabelled runtime, or limits that are not in force, make a cell invalid."""
    found = registry.find("runtimes", key).unproven({"runtime": f"{key} version 1", **evidence}, LIMITS)

    assert found is not None
    assert reason in found


@pytest.mark.parametrize("key", ["runc", "crun"])
def test_runtime_says_what_it_is(site: lab.Lab, key: str) -> None:
    """A container's evidence names program and version, as the program itself does."""
    sandbox = start(site, usable(site, key), "/usr/bin/sleep", "60")
    try:
        assert sandbox.evidence()["runtime"].startswith(f"{key} version ")
    finally:
        sandbox.stop()


def test_runtime_under_another_name_is_found_out(site: lab.Lab, tmp_path: Path) -> None:
    """A program called runc that is crun makes no figures of runc's."""
    usable(site, "crun")
    found = site.shell().which("crun")
    assert found is not None
    (tmp_path / "runc").symlink_to(found)

    said = _oci._version(LocalShell(), (str(tmp_path / "runc"),))

    assert said.startswith("crun version ")
    evidence = {"runtime": said, "process": "x running", "cgroup": "/x", "limits": "none"}
    assert "runc calls itself crun version" in str(registry.find("runtimes", "runc").unproven(evidence, Limits()))
    assert registry.find("runtimes", "crun").unproven(evidence, Limits()) is None


def test_runtime_is_asked_for_its_version_once(tmp_path: Path) -> None:
    """Evidence is taken for every stand, and a process for each would be in the way of what is measured."""
    program = tmp_path / "runc"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/times\necho runc version 9\necho more\n")
    program.chmod(0o755)

    said = {_oci._version(LocalShell(), (str(program),)) for _ in range(3)}

    assert said == {"runc version 9"}
    assert (tmp_path / "times").read_text() == "asked\n"
