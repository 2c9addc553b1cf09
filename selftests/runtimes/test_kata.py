"""The micro-VM of kata: it boots, serves, proves itself, keeps its limits and leaves nothing, all for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from weighbridge import cgroups, registry
from weighbridge.errors import MissingToolError, StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import read
from weighbridge.runtimes import Command, Sandbox, _guest_kernel, _tc_filter, _vm_limits, kata
from weighbridge.shell import Deadline, find_program
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

ROOT = Path(__file__).parents[2]
MIB = 2**20
LIMITS = Limits(cpu=1.0, memory=256.0 * MIB)
LOAD = SimpleNamespace(udp=False)


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for all machines; nothing in it can be tried where kata cannot run."""
    with lab.open_site(Request("katatest", Path())) as opened:
        if reason := kata.unavailable(opened.shell()):
            pytest.skip(reason)
        yield opened


@pytest.fixture
def limits() -> Limits:
    """Limits on CPU and memory, where they can be set."""
    if reason := kata.refuses(LIMITS, pods=True):
        pytest.skip(reason)
    return LIMITS


def start(site: lab.Lab, pod: Pod, limits: Limits, *argv: str, files: Mapping[str, str] | None = None) -> Sandbox:
    command = Command(argv, f"/run/weighbridge/katatest/{pod.name}", files or {})
    return kata.start(pod, command, limits, site.files, "katatest")


def serve(site: lab.Lab, pod: Pod, server: str, limits: Limits) -> Sandbox:
    """A server of the suite in a guest, waiting for its clients."""
    module = registry.find("servers", server)
    try:
        program = find_program(pod.shell, module.PROGRAMS, module.PACKAGE)
    except MissingToolError as error:
        pytest.skip(str(error))
    workdir = f"/run/weighbridge/katatest/{pod.name}"
    files = module.files(module.PORT, workdir)
    sandbox = start(site, pod, limits, *module.argv(program, module.PORT, workdir, LOAD), files=files)
    Deadline(30).until(lambda: sandbox.listens("tcp", module.PORT), f"{server} to listen")
    return sandbox


CLIENTS = {
    "qperf": (["qperf", "--time", "1", "{host}", "tcp_lat", "tcp_bw"], "tcp_bw"),
    "iperf3": (["iperf3", "--client", "{host}", "--time", "1"], "iperf Done"),
    "iperf": (["iperf", "--client", "{host}", "--time", "1"], "bits/sec"),
    "nginx": (
        ["wrk", "--threads", "1", "--connections", "4", "--duration", "1", "http://{host}:8080/index.html"],
        "requests in",
    ),
}


@pytest.mark.parametrize("placement", ["cross-node", "same-node"])
@pytest.mark.parametrize("network", ["calico", "flannel"])
@pytest.mark.parametrize("server", ["qperf", "nginx"])
def test_servers_answer_on_every_way(site: lab.Lab, server: str, network: str, placement: str) -> None:
    """A server in the guest answers real clients over routes and bridges, and the evidence proves the guest."""
    if reason := registry.find("networks", network).unavailable(site.shell()):
        pytest.skip(reason)
    pod, client = site.pod(site.nodes[1], network), site.pod(site.nodes[placement == "same-node"], network)
    answers(site, pod, client, server)


@pytest.mark.parametrize("server", ["iperf3", "iperf"])
def test_other_servers_answer(site: lab.Lab, server: str) -> None:
    """Every server that the suite can start in a sandbox finds in the guest what it needs."""
    answers(site, site.pod(site.nodes[1], "calico"), site.pod(site.nodes[0], "calico"), server)


def answers(site: lab.Lab, pod: Pod, client: Pod, server: str) -> None:
    argv, sign = CLIENTS[server]
    if client.shell.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    sandbox = serve(site, pod, server, Limits())
    try:
        done = client.shell.run([word.format(host=pod.address) for word in argv], timeout=30)
        evidence = sandbox.evidence()
    finally:
        sandbox.stop()

    assert sign in done.stdout
    assert kata.unproven(evidence, Limits()) is None
    assert int(evidence["packets into the guest"]) > 10


def test_guest_has_the_pods_interface_and_a_kernel_of_its_own(site: lab.Lab) -> None:
    """The machine stands in the pod's place: its MAC and MTU, its address answers, and the kernel is another one."""
    pod = site.pod(site.nodes[1], "flannel")
    mac = json.loads(pod.shell.run(["ip", "-json", "link", "show", "eth0"]).stdout)[0]["address"]
    sandbox = start(site, pod, Limits(), "/usr/bin/sleep", "60")
    try:
        pinged = site.nodes[1].shell.run(["ping", "-c", "2", "-W", "2", pod.address], check=False)
        evidence = sandbox.evidence()
    finally:
        sandbox.stop()

    assert pinged.ok
    assert evidence["guest mac"] == mac
    assert evidence["guest mtu"] == "1450"
    assert evidence["boot id"] != read(Path("/proc/sys/kernel/random/boot_id")).strip()
    assert evidence["kernel"] == evidence["guest kernel"]
    assert kata.caveat(evidence) == ("emulated CPU" if evidence["acceleration"] == "tcg" else None)


@pytest.mark.parametrize("overhead", ["inside", "outside"])
def test_limits_are_in_force_and_bind(site: lab.Lab, overhead: str) -> None:
    """Half a CPU for the guest is half a CPU on the host, whichever of QEMU's threads the limit is for."""
    limits = Limits(cpu=0.5, memory=256.0 * MIB, request_cpu=0.25, sandbox_overhead="inside")
    if overhead == "outside":
        limits = replace(limits, sandbox_overhead="outside")
    if reason := kata.refuses(limits, pods=True):
        pytest.skip(reason)
    sandbox = start(site, site.pod(site.nodes[1], "calico"), limits, "/usr/bin/sha256sum", "/dev/zero")
    try:
        evidence = sandbox.evidence()
        cgroup = evidence["cgroup"]
        started, used = time.monotonic(), cpu_seconds(cgroup)
        Deadline(10).until(lambda: time.monotonic() - started > 2, "two seconds")
        share = (cpu_seconds(cgroup) - used) / (time.monotonic() - started)
    finally:
        sandbox.stop()

    assert kata.unproven(evidence, limits) is None
    assert evidence["limits"] == f"cpu 0.5 memory {256 * MIB}"
    assert 0.2 < share < 0.6


def cpu_seconds(cgroup: str) -> float:
    """CPU time of a cgroup; version 1 may count it in another hierarchy, so the threads in it are asked."""
    if cgroups.version() == 1:
        threads = (cgroups.ROOT / f"cpu{cgroup}/tasks").read_text().split()
        stats = [read(Path(f"/proc/{thread}/task/{thread}/stat")).rpartition(")")[2].split() for thread in threads]
        # utime and stime, fields 14 and 15 of proc(5).
        return sum(int(word) for words in stats for word in words[11:13]) / os.sysconf("SC_CLK_TCK")
    usage = (cgroups.ROOT / cgroup[1:] / "cpu.stat").read_text().split()
    return int(usage[usage.index("usage_usec") + 1]) / 1e6


def test_guest_that_uses_all_its_memory_dies_within_the_limit(site: lab.Lab, limits: Limits) -> None:
    """The guest's own kernel ends the greedy server: QEMU and guest together fit into the pod's limit."""
    sandbox = start(site, site.pod(site.nodes[1], "calico"), limits, "/usr/bin/tail", "/dev/zero")
    Deadline(60).until(lambda: not sandbox.process.running(), "the server to use all memory")
    said = sandbox.process.said()
    sandbox.stop()

    assert said.strip().splitlines()[-1] == "the server was killed by signal 9"


def test_server_that_ends_ends_the_machine_with_its_words(site: lab.Lab) -> None:
    """Why a server died in the guest is told as on the host: by the last line that it wrote."""
    sandbox = start(site, site.pod(site.nodes[1], "calico"), Limits(), "/usr/bin/cat", "/no/such/file")
    Deadline(30).until(lambda: not sandbox.process.running(), "the machine to end")
    said = sandbox.process.said()
    sandbox.stop()

    assert said.strip() == "/usr/bin/cat: /no/such/file: No such file or directory"


def test_stop_leaves_nothing(site: lab.Lab) -> None:
    """Neither tap, redirection, QEMU, cgroup nor file is left, and the pod answers on its own again."""
    pod = site.pod(site.nodes[1], "calico")
    sandbox = start(site, pod, Limits(), "/usr/bin/sleep", "60")
    pid = sandbox.process.pid

    sandbox.stop()

    assert not Path(f"/proc/{pid}").exists()
    assert _tc_filter.TAP not in pod.shell.run(["ip", "link"]).stdout
    assert "ingress" not in pod.shell.run(["tc", "qdisc", "show"]).stdout
    assert not list(Path("/sys/fs/cgroup").glob(f"**/weighbridge/katatest/{pod.name}*"))
    assert "vm" not in site.shell().run(["ls", f"/run/weighbridge/katatest/{pod.name}"], check=False).stdout.split()
    assert site.nodes[0].shell.run(["ping", "-c", "1", "-W", "2", pod.address]).ok


def test_failed_start_leaves_nothing(site: lab.Lab) -> None:
    """A program that cannot go into the guest is refused, and the pod is as before."""
    pod = site.pod(site.nodes[1], "calico")

    with pytest.raises(StandError, match="no ELF program"):
        start(site, pod, Limits(), "/usr/bin/ldd")

    assert _tc_filter.TAP not in pod.shell.run(["ip", "link"]).stdout
    assert not list(Path("/sys/fs/cgroup").glob(f"**/weighbridge/katatest/{pod.name}*"))


def test_node_without_pods_is_refused(site: lab.Lab) -> None:
    """The node's own interface is never taken: a cell on the host network is skipped, a start refused."""
    assert "node's own interface" in str(kata.refuses(Limits(), pods=False))
    with pytest.raises(StandError, match="node's own interface"):
        start(site, site.pod(site.nodes[1], "host"), Limits(), "/usr/bin/sleep", "60")


@pytest.mark.parametrize("overhead", ["inside", "outside"])
def test_memory_that_holds_no_guest_is_refused(overhead: str) -> None:
    """Too small a limit is told beforehand, not by a guest that does not boot."""
    limits = Limits(memory=100.0 * MIB, sandbox_overhead="outside" if overhead == "outside" else "inside")

    assert "MiB at least" in str(kata.refuses(limits, pods=True))


def test_limits_that_cannot_be_set_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cgroups only the machine's size limits it: whole CPUs, and not what QEMU itself uses."""
    monkeypatch.setattr(cgroups, "unavailable", lambda: "no cgroups")

    assert kata.refuses(Limits(), pods=True) is None
    assert kata.refuses(Limits(cpu=2.0, memory=256.0 * MIB, sandbox_overhead="outside"), pods=True) is None
    assert kata.refuses(Limits(cpu=0.5, sandbox_overhead="outside"), pods=True) == "no cgroups"
    assert kata.refuses(Limits(cpu=1.0), pods=True) == "no cgroups"
    assert kata.refuses(Limits(memory=256.0 * MIB), pods=True) == "no cgroups"
    assert kata.refuses(Limits(request_cpu=0.5, sandbox_overhead="outside"), pods=True) == "no cgroups"


def test_guest_and_monitor_share_the_limit() -> None:
    """Inside, the guest gets what QEMU leaves of the limit; outside, all of it."""
    limits = Limits(memory=512.0 * MIB)

    assert _vm_limits.guest_memory(limits) + _vm_limits.MONITOR_MEMORY == 512 * MIB
    assert _vm_limits.guest_memory(replace(limits, sandbox_overhead="outside")) == 512 * MIB


PROVEN = {
    "sandbox": "kata: QEMU micro-VM, tcfilter",
    "process": "qemu-system-x86 running",
    "kernel": "6.1.0-cloud",
    "guest kernel": "6.1.0-cloud",
    "boot id": "a",
    "host boot id": "b",
    "packets to the pod": "100",
    "packets into the guest": "100",
    "packets out of the guest": "90",
    "limits": "cpu 1 memory 268435456",
    "cgroup": "/weighbridge/x/y",
}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sandbox": "none"}, "no virtual machine"),
        ({"process": "qemu-system-x86 ended"}, "no virtual machine"),
        ({"kernel": ""}, "names the kernel (none)"),
        ({"kernel": "6.18.0-host"}, "names the kernel 6.18.0-host"),
        ({"boot id": ""}, "host's own kernel"),
        ({"boot id": "b"}, "host's own kernel"),
        ({"packets into the guest": "3"}, "of 100 packets to the pod 3"),
        ({"packets out of the guest": "0"}, "0 came out"),
        ({"limits": "none"}, "limits in force"),
    ],
)
def test_claims_without_a_guest_are_refused(changed: Mapping[str, str], reason: str) -> None:
    """A server beside the machine, a guest that carried nothing, a limit not in force: the cell is invalid."""
    assert kata.unproven(PROVEN, LIMITS) is None
    assert reason in str(kata.unproven({**PROVEN, **changed}, LIMITS))


def test_server_outside_a_machine_is_not_proven(site: lab.Lab) -> None:
    """The evidence of a plain process, taken for kata, is refused."""
    host = registry.find("runtimes", "host")
    pod = site.pod(site.nodes[1], "calico")
    command = Command(("/usr/bin/sleep", "60"), f"/run/weighbridge/katatest/{pod.name}")
    sandbox = host.start(pod, command, Limits(), site.files, "katatest")
    try:
        assert kata.unproven(sandbox.evidence(), Limits()) == "no virtual machine is running"
    finally:
        sandbox.stop()


def test_server_that_bypasses_the_guest_is_not_proven(site: lab.Lab) -> None:
    """When the redirection is gone the pod's own kernel answers; the counters tell."""
    pod = site.pod(site.nodes[1], "calico")
    sandbox = start(site, pod, Limits(), "/usr/bin/sleep", "60")
    try:
        pod.shell.run(["tc", "qdisc", "delete", "dev", "eth0", "ingress"])
        assert site.nodes[0].shell.run(["ping", "-c", "3", "-i", "0.2", "-W", "2", pod.address]).ok
        reason = kata.unproven(sandbox.evidence(), Limits())
    finally:
        sandbox.stop()

    assert "packets to the pod" in str(reason)


def qemus(run_id: str) -> list[str]:
    """The QEMU processes of a run; their command line names its folder."""
    commands = (read(path / "cmdline") for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [command for command in commands if command.startswith("qemu") and f"/{run_id}/" in command]


PROGRAM = """
    import sys, time
    from pathlib import Path
    from weighbridge.model import Limits
    from weighbridge.runtimes import Command, kata
    from weighbridge.targets import Request, lab
    with lab.open_site(Request("{run_id}", Path("."))) as site:
        if reason := kata.unavailable(site.shell()):
            sys.exit(f"unavailable: {{reason}}")
        pod = site.pod(site.nodes[1], "flannel")
        command = Command(("/usr/bin/sleep", "60"), "/run/weighbridge/{run_id}/x")
        sandbox = kata.start(pod, command, Limits(), site.files, "{run_id}")
        {then}
"""


def test_killing_the_suite_leaves_no_machine(site: lab.Lab) -> None:
    """QEMU dies with the process that started it, also by SIGKILL."""
    program = textwrap.dedent(PROGRAM.format(run_id="katakill", then='print("up", flush=True); time.sleep(60)'))
    popen = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    assert qemus("katakill")

    popen.send_signal(signal.SIGKILL)
    popen.wait()
    popen.stdout.close()

    Deadline(2).until(lambda: not qemus("katakill"), "QEMU to die")
    cgroups.remove("/weighbridge/katakill")


_TUN = "mount -t tmpfs tun /dev/net && mknod -m 666 /dev/net/tun c 10 200"
_WITH_TUN = ["unshare", "--mount", "sh", "-c", f'{_TUN} && exec "$@"', "sh"]
"""A mount namespace in which everybody may open /dev/net/tun, as distributions have it; a machine may differ."""


@pytest.fixture
def readable_cache() -> Iterator[Path]:
    """The user's guest kernels where every user may read them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if _guest_kernel.cache().exists():
            shutil.copytree(_guest_kernel.cache(), Path(folder) / "weighbridge/guest-kernel")
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_gets_a_machine_too(site: lab.Lab, readable_cache: Path) -> None:
    """The tap, its redirection and the guest work in a user namespace, where nothing limits but the machine's size."""
    then = """node = site.nodes[0].shell.run(["ping", "-c", "2", "-W", "2", pod.address], check=False)
        print(node.ok, kata.unproven(sandbox.evidence(), Limits()))
        sandbox.stop()"""
    program = textwrap.dedent(PROGRAM.format(run_id="katauser", then=then))
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    probe = subprocess.run([*nobody, "unshare", "--user", "--map-root-user", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("ordinary users may not make user namespaces here")
    inside = [*nobody, "unshare", "--user", "--map-root-user", sys.executable, "-c", "import pydantic"]
    if subprocess.run(inside, check=False, capture_output=True).returncode:
        pytest.skip("an ordinary user cannot read this Python environment")
    command = [*_WITH_TUN, *nobody, sys.executable, "-B", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(readable_cache)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", env=environment)
    if done.stderr.startswith("unavailable: "):
        pytest.skip(f"to an ordinary user {done.stderr.strip()}")

    assert done.stdout.strip() == "True None", done.stderr
