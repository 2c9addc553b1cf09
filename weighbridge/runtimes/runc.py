"""runc: a bundle on the host's own /usr, joined to the pod's network namespace, under its limits.

No image is needed: the root file system is made of read-only bind mounts, so the same binaries run
as on `host` and only the sandbox differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import memory, processors, sockets
from weighbridge.runtimes import Command, Files, waits_on
from weighbridge.runtimes import no_caveat as caveat
from weighbridge.shell import ENVIRONMENT, Deadline, Process, Shell

__all__ = ["PACKAGES", "caveat", "start", "unavailable", "unproven"]

PACKAGES = ("runc",)
START_TIMEOUT = 10.0

_CAPABILITIES = ["CAP_NET_BIND_SERVICE", "CAP_CHOWN", "CAP_SETUID", "CAP_SETGID", "CAP_DAC_OVERRIDE"]
_FROM_HOST = ("/usr", "/etc")
_LINKS = ("bin", "sbin", "lib", "lib64")


def unavailable(shell: Shell) -> str | None:
    """It needs the program and a cgroup hierarchy to write limits into."""
    if shell.which("runc") is None:
        return f"runc is not installed; install it with: apt-get install {PACKAGES[0]}"
    return cgroups.unavailable()


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
        inside_cgroups = self.files.read(f"{inside}/cgroup")
        return {
            "sandbox": "runc",
            "process": f"{state['id']} {state['status']}",
            "kernel": self.files.read(f"{inside}/root/proc/sys/kernel/osrelease").strip(),
            "cgroup": self.cgroup if self.cgroup in inside_cgroups else "",
            "limits": cgroups.limits_in_force(self.cgroup),
            "processors": processors((cgroups.processes(self.cgroup) or [0])[0]),
        }

    def memory(self) -> int:
        return memory(cgroups.processes(self.cgroup))

    def listens(self, transport: str, port: int) -> bool:
        return any(waits_on(sockets(pid, transport), port) for pid in cgroups.processes(self.cgroup))

    def stop(self) -> None:
        self.shell.run(["runc", "--root", self.root, "delete", "--force", self.name], check=False)
        self.process.stop()
        cgroups.remove(self.cgroup)


def start(pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> _Container:
    """Start a container and wait until runc says it is running.

    Raises StandError with what runc said when it ends first.
    """
    name = f"wb-{run_id}-{command.workdir.rpartition('/')[2]}"
    bundle, root, cgroup = (
        f"{command.workdir}/bundle",
        f"/run/weighbridge/{run_id}/runc",
        cgroups.path_of(run_id, name),
    )
    for folder in (*_FROM_HOST, "/proc", "/dev", "/tmp", command.workdir):  # noqa: S108 - paths of the container
        files.write(f"{bundle}/rootfs{folder}/.keep", "")
    for link in _LINKS:
        target = Path(f"/{link}")
        if target.is_symlink():
            pod.node.shell.run(["ln", "-sfn", str(target.readlink()), f"{bundle}/rootfs/{link}"])
    files.write(f"{bundle}/config.json", json.dumps(_config(pod, command, limits, cgroup)))
    shell = pod.node.shell
    process = shell.start([*command.pinned, "runc", "--root", root, "run", "--bundle", bundle, name])
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
    wanted = cgroups.limits_text(limits.cpu, limits.memory)
    if evidence.get("limits") != wanted:
        return f"limits in force are {evidence.get('limits')}, not {wanted}"
    return None


def _config(pod: Pod, command: Command, limits: Limits, cgroup: str) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if limits.cpu is not None:
        resources["cpu"] = {"quota": int(limits.cpu * cgroups.CPU_PERIOD_US), "period": cgroups.CPU_PERIOD_US}
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
