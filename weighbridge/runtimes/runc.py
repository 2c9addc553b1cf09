"""runc: a bundle on the host's own /usr, joined to the pod's network namespace, under its limits.

No image is needed: the root file system is made of read-only bind mounts, so the same binaries run
as on `host` and only the sandbox differs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Files
from weighbridge.shell import ENVIRONMENT, Deadline, Process, Shell

PACKAGE = "runc"
START_TIMEOUT = 10.0
STOP_TIMEOUT = 2.0
CPU_PERIOD_US = 100_000
"""The CFS period that Kubernetes uses."""

_CAPABILITIES = ["CAP_NET_BIND_SERVICE", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_DAC_OVERRIDE"]
_FROM_HOST = ("/usr", "/etc")
_LINKS = ("bin", "sbin", "lib", "lib64")


def unavailable(shell: Shell) -> str | None:
    """It needs the program and a cgroup hierarchy to write limits into."""
    if shell.which("runc") is None:
        return f"runc is not installed; install it with: apt-get install {PACKAGE}"
    version = cgroup_version()
    if version is None:
        return "no cgroup hierarchy is mounted on /sys/fs/cgroup, so runc cannot set limits"
    if not os.access("/sys/fs/cgroup/cpu" if version == 1 else "/sys/fs/cgroup", os.W_OK):
        return "no cgroup may be written by this user, so runc cannot set limits; run as root"
    return None


def cgroup_version() -> int | None:
    """1 or 2 by what limits CPU here; None when nothing does."""
    root = Path("/sys/fs/cgroup")
    if (root / "cpu/cgroup.procs").exists():
        return 1
    return 2 if (root / "cgroup.controllers").exists() else None


@dataclass(frozen=True)
class _Container:
    name: str
    process: Process
    shell: Shell
    files: Files
    root: str
    cgroup: str

    def evidence(self) -> Mapping[str, str]:
        state = json.loads(self.shell.run(["runc", "--root", self.root, "state", self.name]).stdout)
        inside = f"/proc/{state['pid']}"
        cgroups = self.files.read(f"{inside}/cgroup")
        return {
            "sandbox": "runc",
            "process": f"{state['id']} {state['status']}",
            "kernel": self.files.read(f"{inside}/root/proc/sys/kernel/osrelease").strip(),
            "cgroup": self.cgroup if self.cgroup in cgroups else "",
            "limits": _limits_in_force(self.cgroup),
        }

    def stop(self) -> None:
        self.shell.run(["runc", "--root", self.root, "delete", "--force", self.name], check=False)
        self.process.stop()
        _remove_cgroups(self.cgroup)


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _Container:
    """Start a container and wait until runc says it is running.

    Raises StandError with what runc said when it ends first.
    """
    name = f"wb-{run_id}-{command.workdir.rpartition('/')[2]}"
    bundle, root, cgroup = (
        f"{command.workdir}/bundle",
        f"/run/weighbridge/{run_id}/runc",
        f"/weighbridge/{run_id}/{name}",
    )
    for folder in (*_FROM_HOST, "/proc", "/dev", "/tmp", command.workdir):  # noqa: S108 - paths of the container
        files.write(f"{bundle}/rootfs{folder}/.keep", "")
    for link in _LINKS:
        target = Path(f"/{link}")
        if target.is_symlink():
            pod.node.shell.run(["ln", "-sfn", str(target.readlink()), f"{bundle}/rootfs/{link}"])
    files.write(f"{bundle}/config.json", json.dumps(_config(pod, command, limits, cgroup)))
    shell = pod.node.shell
    process = shell.start(["runc", "--root", root, "run", "--bundle", bundle, name])
    container = _Container(name, process, shell, files, root, cgroup)

    def up() -> bool:
        if not process.running():
            raise StandError(f"runc did not start the server: {process.said().strip() or 'it said nothing'}")
        state = shell.run(["runc", "--root", root, "state", name], check=False)
        return state.ok and json.loads(state.stdout)["status"] == "running"

    try:
        Deadline(START_TIMEOUT).until(up, f"container {name}", interval=0.02)
    except StandError:
        container.stop()
        raise
    return container


def unproven(evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The process has to be in the cgroup that carries the limits asked for."""
    if evidence.get("sandbox") != "runc" or not evidence.get("process", "").endswith("running"):
        return "runc does not report a running container"
    if not evidence.get("cgroup"):
        return "the server is not in its cgroup"
    wanted = _limits_text(limits.cpu, limits.memory)
    if evidence.get("limits") != wanted:
        return f"limits in force are {evidence.get('limits')}, not {wanted}"
    return None


def _config(pod: Pod, command: Command, limits: Limits, cgroup: str) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if limits.cpu is not None:
        resources["cpu"] = {"quota": int(limits.cpu * CPU_PERIOD_US), "period": CPU_PERIOD_US}
    if limits.memory is not None:
        resources["memory"] = {"limit": int(limits.memory)}
    bind = [
        {"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]} for path in _FROM_HOST
    ] + [{"destination": command.workdir, "source": command.workdir, "type": "bind", "options": ["rbind", "rw"]}]
    capabilities = dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES)
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(command.argv),
            "env": [f"{key}={value}" for key, value in ENVIRONMENT.items()],
            "cwd": "/",
            "capabilities": capabilities,
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": False},
        "hostname": pod.name,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},  # noqa: S108
            *bind,
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": resources,
            "namespaces": [
                {"type": "pid"},
                {"type": "mount"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "network", "path": f"/run/netns/{pod.namespace}"},
            ],
        },
    }


def _limits_text(cpu: float | None, memory: float | None) -> str:
    words = [f"cpu {cpu:g}"] if cpu is not None else []
    words += [f"memory {int(memory)}"] if memory is not None else []
    return " ".join(words) or "none"


def _limits_in_force(cgroup: str) -> str:
    """Read back from the kernel, not from the bundle."""
    root = Path("/sys/fs/cgroup")
    cpu = memory = None
    if cgroup_version() == 1:
        quota = _number(root / f"cpu{cgroup}/cpu.cfs_quota_us")
        cpu = quota / CPU_PERIOD_US if quota and quota > 0 else None
        memory = _number(root / f"memory{cgroup}/memory.limit_in_bytes")
    else:
        words = _text(root / f"{cgroup[1:]}/cpu.max").split()
        cpu = int(words[0]) / int(words[1]) if words and words[0] != "max" else None
        memory = _number(root / f"{cgroup[1:]}/memory.max")
    return _limits_text(cpu, memory if memory and memory < 2**60 else None)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.lstrip("-").isdecimal() else None


def _remove_cgroups(cgroup: str) -> None:
    """Remove the container's own cgroup and the folders above it, as far as they are empty.

    A cgroup stays busy until its last process is reaped, which may be a moment after it was killed.
    """
    root = Path("/sys/fs/cgroup")
    hierarchies = (root, *(folder for folder in root.iterdir() if folder.is_dir()))
    paths = [hierarchy / cgroup[1:] for hierarchy in hierarchies]

    def gone() -> bool:
        for path in paths:
            with suppress(OSError):
                path.rmdir()
        return not any(path.exists() for path in paths)

    with suppress(StandError):
        Deadline(STOP_TIMEOUT).until(gone, f"cgroup {cgroup} to be empty")
    for path in paths:
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()
