"""QEMU's command line for a micro-VM, and whether KVM can run one here.

Kernel parameters and devices are those of Kata's QEMU driver (qemu_amd64.go) as far as a guest without disks
needs them: machine q35, virtio-net over PCI without option ROM, vhost when the kernel offers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.runtimes._guest_kernel import GuestKernel
from weighbridge.runtimes._tc_filter import TAP
from weighbridge.shell import Shell

PROGRAM = "qemu-system-x86_64"
KVM = "/dev/kvm"
VHOST = "/dev/vhost-net"
MIB = 2**20
_PROBE_TIMEOUT = 3.0
_PROBE_MEMORY = 128 * MIB
_BOOTED = "Unable to mount root fs"
TRANSLATION_CACHE_MIB = 32
"""Under TCG the translated code is kept; QEMU's default of up to 1 GiB would count against a memory limit."""

_KERNEL_PARAMETERS = (
    "console=ttyS0 quiet loglevel=1 panic=-1 reboot=t tsc=reliable no_timer_check rcupdate.rcu_expedited=1 "
    "i8042.nokbd i8042.noaux i8042.nomux i8042.nopnp noreplace-smp cryptomgr.notests pci=lastbus=0 "
    "random.trust_cpu=on nokaslr 8250.nr_uarts=1"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual machine: what it boots, its size (virtual CPUs, bytes), and who runs its instructions."""

    kernel: GuestKernel
    initramfs: str | None
    processors: int
    memory: int
    acceleration: str
    """`kvm` or `tcg`."""

    @property
    def argv(self) -> list[str]:
        """The command line; the console is the standard output."""
        accelerator = self.acceleration
        if accelerator == "tcg":
            accelerator += f",tb-size={TRANSLATION_CACHE_MIB}"
        return [
            *(PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35", "-accel", accelerator, "-cpu", "host" if self.acceleration == "kvm" else "max"),
            *("-smp", str(self.processors), "-m", f"{self.memory // MIB}M"),
            *("-kernel", str(self.kernel.image), *(("-initrd", self.initramfs) if self.initramfs else ())),
            *("-append", f"{_KERNEL_PARAMETERS} nr_cpus={self.processors}"),
            *("-serial", "stdio"),
        ]


def network(mac: str, *, vhost: bool) -> Sequence[str]:
    """The arguments for a virtio-net on the pod's tap."""
    tap = f"tap,id=pod,ifname={TAP},script=no,downscript=no,vhost={'on' if vhost else 'off'}"
    return ("-netdev", tap, "-device", f"virtio-net-pci,netdev=pod,mac={mac},romfile=")


def monitored(socket: str) -> Sequence[str]:
    """The arguments to begin paused, under a monitor on a Unix socket."""
    return ("-name", "kata,debug-threads=on", "-S", "-qmp", f"unix:{socket},server=on,wait=off")


_found: dict[str, str] = {}


def acceleration(shell: Shell, kernel: GuestKernel) -> str:
    """`kvm` when the guest's kernel really boots on it within three seconds, else `tcg`; tried once per process.

    The device alone proves nothing: nested or filtered virtualisation may hang or abort the guest. Without an
    initramfs a kernel that boots ends by saying that it finds no root file system.
    """
    if kernel.release not in _found:
        usable = shell.run(["test", "-w", KVM], check=False).ok and _boots(shell, kernel)
        _found[kernel.release] = "kvm" if usable else "tcg"
    return _found[kernel.release]


def _boots(shell: Shell, kernel: GuestKernel) -> bool:
    machine = Machine(kernel, None, 1, _PROBE_MEMORY, "kvm")
    return _BOOTED in shell.run(machine.argv, timeout=_PROBE_TIMEOUT, check=False).stdout
