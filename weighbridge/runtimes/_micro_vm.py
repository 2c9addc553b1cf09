"""The built-in sandbox: a QEMU micro-VM in the place of the pod's interface, under the limits of a cgroup."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import memory, processors, read
from weighbridge.runtimes import Command, Files, _guest, _guest_kernel, _pod_interface, _qemu, _tc_filter, _vm_limits
from weighbridge.runtimes import _initramfs as initramfs
from weighbridge.runtimes._pod_interface import Interface
from weighbridge.shell import Deadline, Process, Shell, last_line

SANDBOX = "kata: QEMU micro-VM, tcfilter"
BOOT_TIMEOUT = 60.0
STOP_TIMEOUT = 2.0


@dataclass(frozen=True)
class _Console:
    """QEMU as the server's process: what it says is what the server said."""

    qemu: Process

    @property
    def pid(self) -> int:
        return self.qemu.pid

    def running(self) -> bool:
        return self.qemu.running()

    def said(self) -> str:
        return _guest.server_said(self.qemu.said())

    def stop(self) -> None:
        self.qemu.stop()


@dataclass(frozen=True)
class MicroVm:
    """A running micro-VM."""

    process: _Console
    pid: int
    """QEMU's own."""
    shell: Shell
    machine: _qemu.Machine
    limits: Limits
    cgroup: str | None
    received_before: int
    undo: ExitStack = field(default_factory=ExitStack)

    def evidence(self) -> Mapping[str, str]:
        """What the guest told, what the kernel tells of QEMU, and what passed between pod and guest."""
        passed = _tc_filter.count(self.shell)
        return {
            "sandbox": SANDBOX,
            "process": f"{read(Path(f'/proc/{self.pid}/comm')).strip()} {'running' if self._alive else 'ended'}",
            **_guest.evidence(self.process.qemu.said()),
            "host boot id": read(Path("/proc/sys/kernel/random/boot_id")).strip(),
            "guest kernel": self.machine.kernel.release,
            "acceleration": self.machine.acceleration,
            "vhost": "on" if self._holds(_qemu.VHOST) else "off",
            "cgroup": self._cgroup_in_force,
            "sandbox overhead": self.limits.sandbox_overhead,
            "limits": _vm_limits.in_force(self.cgroup, self.limits, self.machine.processors, self.machine.memory),
            **({"cpu weight": cgroups.weight_in_force(self.cgroup)} if self.cgroup else {}),
            "processors": processors(self.pid),
            "packets to the pod": str(passed.received - self.received_before),
            "packets into the guest": str(passed.inward),
            "packets out of the guest": str(passed.outward),
        }

    @property
    def _cgroup_in_force(self) -> str:
        return self.cgroup if self.cgroup and _vm_limits.confined(self.pid, self.cgroup, self.limits) else ""

    @property
    def _alive(self) -> bool:
        return self.process.running() and bool(read(Path(f"/proc/{self.pid}/comm")))

    def _holds(self, device: str) -> bool:
        """Whether QEMU has a device open."""
        with suppress(OSError):
            descriptors = list(Path(f"/proc/{self.pid}/fd").iterdir())
            return any(os.path.realpath(descriptor).endswith(device) for descriptor in descriptors)
        return False

    def memory(self) -> int:
        """QEMU's, which holds the guest's."""
        return memory([self.pid])

    def listens(self, transport: str, port: int) -> bool:
        """As process 1 of the guest has seen it."""
        return _guest.listens(self.process.qemu.said(), transport, port)

    def stop(self) -> None:
        """End QEMU, give the pod its interface back, remove the cgroups."""
        self.undo.close()


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> MicroVm:
    """Boot a guest in the pod's place and wait until its process 1 has started the server.

    Raises StandError with what the guest said last when it does not come that far.
    """
    if pod.namespace == pod.node.name:
        raise StandError("a virtual machine cannot take over the node's own interface; choose a network with pods")
    if reason := _vm_limits.refuses(limits):
        raise StandError(reason)
    with ExitStack() as undo:
        cgroup = None if cgroups.unavailable() else cgroups.path_of(run_id, command.workdir.rpartition("/")[2])
        started = _Starting(pod, command, limits, files, undo).started(cgroup)
        return replace(started, undo=undo.pop_all())


@dataclass(frozen=True)
class _Starting:
    """A micro-VM being started; what is made goes onto `undo` at once."""

    pod: Pod
    command: Command
    limits: Limits
    files: Files
    undo: ExitStack

    def started(self, cgroup: str | None) -> MicroVm:
        """The machine, its server started."""
        pod, limits, undo = self.pod, self.limits, self.undo
        folder = f"{self.command.workdir}/vm"
        undo.callback(pod.node.shell.run, ["rm", "-rf", folder], check=False)
        interface = _pod_interface.read(pod.shell)
        machine = self.machine(interface, folder)
        undo.callback(_tc_filter.remove, pod.shell)
        _tc_filter.make(pod.shell, interface.mtu)
        before = _tc_filter.count(pod.shell)
        vhost = machine.acceleration == "kvm" and pod.node.shell.run(["test", "-w", _qemu.VHOST], check=False).ok
        network, monitor = _qemu.network(interface.mac, vhost=vhost), _qemu.monitored(f"{folder}/qmp")
        if cgroup:
            undo.callback(_vm_limits.remove, cgroup)
        process = pod.shell.start([*self.command.pinned, *machine.argv, *network, *monitor])
        undo.callback(process.stop)
        pid = _vm_limits.begin(process, f"{folder}/qmp", cgroup, limits)
        undo.callback(_end, process, pid)
        _await_server(process)
        return MicroVm(_Console(process), pid, pod.shell, machine, limits, cgroup, before.received)

    def machine(self, interface: Interface, folder: str) -> _qemu.Machine:
        """Its kernel, its initramfs written, its size."""
        shell = self.pod.node.shell
        kernel, busybox = _guest_kernel.find(), _guest.static_busybox(shell)
        if kernel is None or busybox is None:
            raise StandError("there is no kernel or no static busybox for a guest; see: weighbridge doctor")
        acceleration = _qemu.acceleration(shell, kernel)
        entries = _guest.root_file_system(shell, busybox, kernel, interface, self.command)
        self.files.write(f"{folder}/root.cpio", initramfs.archive(entries))
        processors = math.ceil(self.limits.cpu or 1)
        memory = _vm_limits.guest_memory(self.limits)
        return _qemu.Machine(kernel, f"{folder}/root.cpio", processors, memory, acceleration)


def _await_server(process: Process) -> None:
    def up() -> bool:
        if not process.running():
            raise StandError(f"the virtual machine ended: {last_line(process.said())}")
        return "up" in _guest.facts(process.said())

    Deadline(BOOT_TIMEOUT).until(up, "the guest to boot")


def _end(process: Process, pid: int) -> None:
    """Kill QEMU and wait until the kernel has let go of its memory and its tap.

    QEMU goes before the process that led it into the lab, which then reaps it; left behind, it would wait as a
    zombie until the machine's own process 1 looked.
    """
    if process.running():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(StandError):
            Deadline(STOP_TIMEOUT).until(lambda: not process.running(), "QEMU to end", interval=0.002)
    process.stop()
