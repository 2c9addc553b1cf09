"""Kata Containers: a virtual machine per pod, in the place of the pod's interface.

Where Kata's shim, containerd and ctr are installed they run the server (`_kata_shim`). Elsewhere a QEMU micro-VM
does, joined to the pod as Kata joins it (its `tcfilter` model):

    pod's network namespace                              │ guest: own kernel, Debian's for virtual machines
                                                         │
    veth eth0 ── ingress ──mirred redirect──▸ tap0_kata ═╪═ virtio-net eth0: the pod's MAC, address, MTU, routes
         ◂──────mirred redirect── ingress ──  (vnet_hdr) │      server program, in an initramfs with its libraries
                                                         │
    QEMU q35, in the pod's cgroup ───────────────────────┘ console: what the guest tells the suite

What differs from an installed Kata: no agent and no container inside the guest, so the server is a plain process
there; no shared file system, the server's files are in the initramfs; one queue per virtio-net; vhost only where
/dev/vhost-net is and KVM works. Virtual CPUs are the CPU limit rounded up, one without a limit; memory is what
`_vm_limits` says. Under KVM figures count. Without it QEMU emulates the processor (TCG), and no verdict may
rest on them: `emulated CPU`.

The proof is what the guest's own kernel said on the console (its release is that of the kernel booted, its boot
id is not the host's), and that what the pod's interface received was redirected into the guest and answered.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping

from weighbridge import cgroups
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.runtimes import (
    Command,
    Files,
    Sandbox,
    _guest,
    _guest_kernel,
    _kata_shim,
    _micro_vm,
    _qemu,
    _tc_filter,
    _vm_limits,
)
from weighbridge.runtimes._guest_kernel import fetch
from weighbridge.shell import Shell

__all__ = ["PACKAGES", "caveat", "fetch", "refuses", "start", "unavailable", "unproven"]

PACKAGES = ("qemu-system-x86", "busybox-static")
REDIRECTED = 0.5
"""The share of what the pod's interface received that has to have gone into the guest; the counters are read one
after the other, and one counts the segments of a large packet where the other counts the packet."""


def unavailable(shell: Shell) -> str | None:
    """Without an installed Kata it needs QEMU, a static busybox, a guest kernel, and tap and mirred of the host's."""
    if _kata_shim.usable(shell):
        return None
    if reason := _not_installed(shell):
        return reason
    kernel = _guest_kernel.find()
    if kernel is None:
        return "no guest kernel is here; bring one with: weighbridge fetch"
    if reason := _tc_filter.unavailable(shell):
        return reason
    # Asked here, and remembered: it may take seconds, which are not the first server's start-up time.
    _qemu.acceleration(shell, kernel)
    return None


def _not_installed(shell: Shell) -> str | None:
    if platform.machine() != "x86_64":
        return f"the built-in micro-VM is made for x86_64, not {platform.machine()}"
    install = f"install it with: apt-get install --no-install-recommends {' '.join(PACKAGES)}"
    if shell.which(_qemu.PROGRAM) is None:
        return f"{_qemu.PROGRAM} is not installed; {install}"
    return None if _guest.static_busybox(shell) else f"busybox (static) is not installed; {install}"


def refuses(limits: Limits, pods: bool) -> str | None:
    """Why a cell cannot be measured under these limits, or on a network with or without pods of its own."""
    if not pods:
        return "kata cannot take over a node's own interface; choose a network with pods"
    return _vm_limits.refuses(limits)


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> Sandbox:
    """Boot a guest in the pod's place and start the server in it.

    Raises StandError with what was said last when it does not come that far.
    """
    if _kata_shim.usable(pod.node.shell):
        return _kata_shim.start(pod, command, limits, files, run_id)
    return _micro_vm.start(pod, command, limits, files, run_id)


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The guest has to have told of a kernel of its own and to have had the pod's packets; the limits have to bind."""
    if not evidence.get("process", "").endswith("running"):
        return "no virtual machine is running"
    if evidence.get("sandbox") == _kata_shim.SANDBOX:
        return _no_guest(evidence) or _unlimited(evidence, limits, cgroups.held(limits))
    if evidence.get("sandbox") != _micro_vm.SANDBOX:
        return "no virtual machine is running"
    if evidence.get("kernel") != evidence.get("guest kernel"):
        return f"the console names the kernel {evidence.get('kernel') or '(none)'}, not {evidence.get('guest kernel')}"
    return _no_guest(evidence) or _bypassed(evidence) or _unlimited(evidence, limits, _vm_limits.held(limits))


def _no_guest(evidence: Mapping[str, str]) -> str | None:
    if not evidence.get("kernel"):
        return "the guest named no kernel"
    if not evidence.get("boot id") or evidence.get("boot id") == evidence.get("host boot id"):
        return "the server sees the host's own kernel"
    return None


def _bypassed(evidence: Mapping[str, str]) -> str | None:
    ways = ("packets to the pod", "packets into the guest", "packets out of the guest")
    received, inward, outward = (int(evidence.get(way, "0")) for way in ways)
    if outward <= 0 or inward < REDIRECTED * received:
        return f"of {received} packets to the pod {inward} went into the guest, and {outward} came out"
    return None


def _unlimited(evidence: Mapping[str, str], limits: Limits, held: Limits) -> str | None:
    wanted = cgroups.limits_text(held.cpu, held.memory)
    if evidence.get("limits") != wanted:
        return f"limits in force are {evidence.get('limits')}, not {wanted}"
    if cgroups.unavailable() is None and not evidence.get("cgroup"):
        return "the virtual machine is not in its cgroup"
    if limits.request_cpu is not None and evidence.get("cpu weight") not in cgroups.weights_for(limits.request_cpu):
        return (
            f"the weight in force is {evidence.get('cpu weight')}, not that of a request of {limits.request_cpu:g} CPUs"
        )
    return None


def caveat(evidence: Mapping[str, str]) -> str | None:
    """Figures of an emulated processor are true of nothing that anybody runs."""
    return "emulated CPU" if evidence.get("acceleration") == "tcg" else None
