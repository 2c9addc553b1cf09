"""The OCI bundle of a server: the host's own programs in the pod's network namespace, under the limits asked for.

No image is needed: the root file system is made of read-only bind mounts, so the same binaries run as on `host`
and only the sandbox differs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weighbridge import cgroups
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Files
from weighbridge.shell import ENVIRONMENT

_CAPABILITIES = ["CAP_NET_BIND_SERVICE", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_DAC_OVERRIDE"]
_FROM_HOST = ("/usr", "/etc")
_MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders of the root that are links into /usr on most systems, and folders of their own on some."""


def write(pod: Pod, command: Command, limits: Limits, files: Files, cgroup: str) -> str:
    """Write the bundle into the command's `workdir`; gives its folder.

    Raises CommandError when a link cannot be made.
    """
    bundle = f"{command.workdir}/bundle"
    folders = [name for name in _MERGED if (path := Path(f"/{name}")).is_dir() and not path.is_symlink()]
    bound = (*_FROM_HOST, *(f"/{name}" for name in folders))
    for folder in (*bound, "/proc", "/dev", "/tmp", command.workdir):  # noqa: S108 - paths of the container
        files.write(f"{bundle}/rootfs{folder}/.keep", "")
    links = [path.readlink() for name in _MERGED if (path := Path(f"/{name}")).is_symlink()]
    # One command for all: a link into /usr has the name of what it leads to.
    pod.node.shell.run(["ln", "-sfn", "-t", f"{bundle}/rootfs", *(str(target) for target in links)])
    files.write(f"{bundle}/config.json", json.dumps(_config(pod, command, limits, cgroup, bound)))
    return bundle


def _config(pod: Pod, command: Command, limits: Limits, cgroup: str, bound: tuple[str, ...]) -> dict[str, Any]:
    bind = [{"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]} for path in bound]
    bind += [{"destination": command.workdir, "source": command.workdir, "type": "bind", "options": ["rbind", "rw"]}]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(command.argv),
            "env": [f"{key}={value}" for key, value in ENVIRONMENT.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES),
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
            "resources": _resources(limits, command.cpus),
            "namespaces": [
                {"type": "pid"},
                {"type": "mount"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "network", "path": f"/run/netns/{pod.namespace}"},
            ],
        },
    }


def _resources(limits: Limits, cpus: str | None) -> dict[str, Any]:
    """What the kernel is to enforce. A memory request is a promise of the scheduler alone and sets nothing."""
    limits = cgroups.held(limits)
    cpu: dict[str, int | str] = {}
    if cpus and cgroups.controls("cpuset"):
        # A kernel before 6.2 forgets what `taskset` asked for when a process enters another cpuset.
        cpu |= {"cpus": cpus}
    if limits.cpu is not None:
        cpu |= {"quota": cgroups.quota(limits.cpu), "period": cgroups.CPU_PERIOD_US}
    if limits.request_cpu is not None:
        cpu |= {"shares": cgroups.shares(limits.request_cpu)}
    memory = {"limit": int(limits.memory)} if limits.memory is not None else {}
    return {name: values for name, values in (("cpu", cpu), ("memory", memory)) if values}
