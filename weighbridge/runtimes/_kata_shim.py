"""An installed Kata: its containerd shim runs the same bundle that OCI runtimes are given.

A containerd of its own is started inside the lab for each sandbox, since the machine's knows none of the lab's
namespaces; it dies with the lab. Whatever Kata's configuration says holds: hypervisor, kernel, what its
sandbox cgroup covers. So the limits in evidence are those of the cgroup in which the kernel has the hypervisor, and
a configuration that puts it elsewhere shows as unproven limits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import descendants, memory, processors, read
from weighbridge.runtimes import Command, Files, _bundle, waits_on
from weighbridge.shell import Deadline, Process, Shell, last_line

SANDBOX = "kata: containerd shim"
PROGRAMS = ("containerd-shim-kata-v2", "containerd", "ctr")
RUNTIME = "io.containerd.kata.v2"
START_TIMEOUT = 60.0
_HYPERVISORS = ("qemu", "cloud-hyp", "firecracker")
"""How the names of their processes begin; Dragonball has none of its own and cannot be told from its shim."""


def usable(shell: Shell) -> bool:
    """Whether everything that it takes is on PATH, and there is a cgroup to put its sandbox into."""
    return all(shell.which(program) for program in PROGRAMS) and cgroups.unavailable() is None


@dataclass(frozen=True)
class ShimSandbox:
    """A server under Kata's shim; `undo` holds what ends it."""

    process: Process
    containerd: Process
    shell: Shell
    ctr: tuple[str, ...]
    name: str
    undo: ExitStack

    def evidence(self) -> Mapping[str, str]:
        """What the guest's kernel says of itself, and what the host's says of the hypervisor."""
        hypervisor = self.hypervisor()
        cgroup = _cgroup_of(hypervisor) if hypervisor else ""
        return {
            "sandbox": SANDBOX,
            "process": f"{read(Path(f'/proc/{hypervisor}/comm')).strip()} running" if hypervisor else "no hypervisor",
            "kernel": self.inside("cat", "/proc/sys/kernel/osrelease").strip(),
            "kernel version": self.inside("cat", "/proc/version").strip(),
            "boot id": self.inside("cat", "/proc/sys/kernel/random/boot_id").strip(),
            "host boot id": read(Path("/proc/sys/kernel/random/boot_id")).strip(),
            "acceleration": "kvm" if hypervisor and _holds_kvm(hypervisor) else "tcg",
            "cgroup": cgroup,
            "limits": cgroups.limits_in_force(cgroup) if cgroup else "none",
            "cpu weight": cgroups.weight_in_force(cgroup) if cgroup else "",
            "processors": processors(hypervisor) if hypervisor else "",
        }

    def hypervisor(self) -> int | None:
        """The process of the virtual machine: the shim is a child of the lab's process 1, so all are looked through."""
        for path in Path("/proc").glob("[0-9]*"):
            if read(path / "comm").startswith(_HYPERVISORS) and self.name in read(path / "cmdline"):
                return int(path.name)
        return None

    def inside(self, *argv: str) -> str:
        """What a command in the container prints; '' when it cannot run."""
        probe = ["tasks", "exec", "--exec-id", f"probe{os.urandom(4).hex()}", self.name, *argv]
        return self.shell.run([*self.ctr, *probe], check=False).stdout

    def memory(self) -> int:
        """Of every process that names the container: the shim, the hypervisor, what shares its files."""
        named = [int(p.name) for p in Path("/proc").glob("[0-9]*") if self.name in read(p / "cmdline")]
        outside = {self.process.pid, *descendants(self.process.pid)}
        return memory(pid for pid in named if pid not in outside)

    def listens(self, transport: str, port: int) -> bool:
        """As the guest's own kernel lists its sockets."""
        return waits_on(self.inside("cat", f"/proc/net/{transport}", f"/proc/net/{transport}6"), port)

    def stop(self) -> None:
        """End the container, let the shim undo what it made, end containerd."""
        self.undo.close()


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> ShimSandbox:
    """Start a containerd and, with it, the server.

    Raises StandError with what either said when it ends first.
    """
    name = f"wb-{run_id}-{command.workdir.rpartition('/')[2]}"
    folder, cgroup = f"{command.workdir}/containerd", cgroups.path_of(run_id, name)
    shell = pod.node.shell
    with ExitStack() as undo:
        undo.callback(shell.run, ["rm", "-rf", folder], check=False)
        spec = _specification(pod, command, limits, files, cgroup)
        address = f"{folder}/socket"
        files.write(f"{folder}/config.toml", _configuration(folder, address))
        containerd = shell.start(["containerd", "--config", f"{folder}/config.toml"])
        undo.callback(containerd.stop)
        ctr = ("ctr", "--address", address, "--namespace", "weighbridge")
        deadline = Deadline(START_TIMEOUT)
        deadline.until(lambda: _answers(shell, ctr, containerd), "containerd", interval=0.05)
        undo.callback(cgroups.remove, cgroup)
        run = ["run", "--rm", "--runtime", RUNTIME, "--config", spec, name]
        process = shell.start([*command.pinned, *ctr, *run])
        undo.callback(process.stop)
        undo.callback(_end, shell, ctr, name, process)
        sandbox = ShimSandbox(process, containerd, shell, ctr, name, undo)

        def runs() -> bool:
            if not process.running():
                raise StandError(f"kata did not start the server: {last_line(process.said())}")
            return "RUNNING" in shell.run([*ctr, "tasks", "list"], check=False).stdout

        deadline.until(runs, f"container {name}", interval=0.05)
        return replace(sandbox, undo=undo.pop_all())


def _specification(pod: Pod, command: Command, limits: Limits, files: Files, cgroup: str) -> str:
    """The bundle's configuration with its root file system named in full: the shim has a bundle of its own."""
    bundle = _bundle.write(pod, command, limits, files, cgroup)
    configuration = json.loads(files.read(f"{bundle}/config.json"))
    configuration["root"]["path"] = f"{bundle}/rootfs"
    files.write(f"{bundle}/kata.json", json.dumps(configuration))
    return f"{bundle}/kata.json"


def _configuration(folder: str, address: str) -> str:
    return (
        f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f'[grpc]\naddress = "{address}"\n[ttrpc]\naddress = "{address}.ttrpc"\n'
    )


def _answers(shell: Shell, ctr: tuple[str, ...], containerd: Process) -> bool:
    if not containerd.running():
        raise StandError(f"containerd ended: {last_line(containerd.said())}")
    return shell.run([*ctr, "version"], check=False).ok


def _end(shell: Shell, ctr: tuple[str, ...], name: str, process: Process) -> None:
    shell.run([*ctr, "tasks", "kill", "--signal", "SIGKILL", name], check=False)
    with suppress(StandError):
        Deadline(5.0).until(lambda: not process.running(), "the container to end")


def _cgroup_of(pid: int) -> str:
    """The cgroup that limits both CPU and memory of a process; '' when none does."""
    membership = read(Path(f"/proc/{pid}/cgroup"))
    found = {line.split(":", 2)[2] for line in membership.splitlines()} - {"/"}
    return next((path for path in sorted(found) if cgroups.holds(membership, path)), "")


def _holds_kvm(pid: int) -> bool:
    """Whether a process holds a virtual machine of KVM's."""
    with suppress(OSError):
        return any("kvm-vm" in str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    return False
