"""The life of a container under any OCI runtime: started in the foreground, proven, watched, ended.

What the runtimes differ in is their command line and what shows that the server itself runs.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weighbridge import cgroups
from weighbridge.errors import StandError
from weighbridge.hosts import Pod
from weighbridge.model import Limits
from weighbridge.procfs import command_line, memory, processors, sockets
from weighbridge.runtimes import Command, Files, _bundle, waits_on
from weighbridge.shell import Deadline, Process, Shell

START_TIMEOUT = 10.0
STOP_TIMEOUT = 2.0
_STATE_TIMEOUT = 2.0
_INTERVAL = 0.004
_numbers = itertools.count(1)
_versions: dict[tuple[str, ...], str] = {}
"""What each runtime calls itself, by its command line: it is asked once, not for every container."""


@dataclass(frozen=True)
class Container:
    """A server under an OCI runtime: `kind` names it, `runtime` is its command line, global flags included."""

    kind: str
    name: str
    runtime: tuple[str, ...]
    root: str
    process: Process
    shell: Shell
    files: Files
    cgroup: str

    @property
    def processes(self) -> list[int]:
        """Every process in the container's cgroup, by its id as seen from where the suite runs."""
        return cgroups.processes(self.cgroup)

    def state(self) -> Mapping[str, str]:
        """What the runtime says of it: `id`, `status`, `pid` as the sandbox's host sees it.

        A container that is still being started says `created` for a moment after its server runs.
        Raises StandError when that moment does not pass, CommandError when the runtime knows no such container.
        """
        found: dict[str, str] = {}

        def settled() -> bool:
            said = json.loads(self.shell.run([*self.runtime, "state", self.name]).stdout)
            found.update({key: str(said[key]) for key in ("id", "status", "pid")})
            return found["status"] not in {"creating", "created"}

        Deadline(_STATE_TIMEOUT).until(settled, f"container {self.name} to run", interval=_INTERVAL)
        return found

    def evidence(self) -> Mapping[str, str]:
        """What the runtime says, where the kernel has the server, and what the kernel holds it to."""
        state = self.state()
        inside = f"/proc/{state['pid']}"
        return {
            "sandbox": self.kind,
            "process": f"{state['id']} {state['status']}",
            "runtime": _version(self.shell, self.runtime),
            "kernel": self.files.read(f"{inside}/root/proc/sys/kernel/osrelease").strip(),
            "cgroup": self.cgroup if cgroups.holds(self.files.read(f"{inside}/cgroup"), self.cgroup) else "",
            "limits": cgroups.limits_in_force(self.cgroup),
            "cpu weight": cgroups.weight_in_force(self.cgroup),
            "processors": processors((self.processes or [0])[0]),
        }

    def memory(self) -> int:
        """Bytes of anonymous and shared memory that all its processes hold.

        The runtime's own command that waits in the foreground is outside: a container engine keeps none.
        """
        return memory(self.processes)

    def listens(self, transport: str, port: int) -> bool:
        """Whether a process in it has a socket of the host's kernel that waits on the port."""
        return any(waits_on(sockets(pid, transport), port) for pid in self.processes)

    def stop(self) -> None:
        """Kill what is in its cgroup, and let the runtime undo what it made.

        A runtime whose server has ended cleans up by itself, sooner than its `delete --force` would begin to.
        """

        def ended() -> bool:
            cgroups.kill(self.cgroup)
            return not self.process.running()

        try:
            Deadline(STOP_TIMEOUT).until(ended, f"container {self.name} to end", interval=_INTERVAL)
        except StandError:
            self.shell.run([*self.runtime, "delete", "--force", self.name], check=False)
        self.process.stop()
        cgroups.kill(self.cgroup)
        cgroups.remove(self.cgroup)


@dataclass(frozen=True, slots=True)
class Engine:
    """An OCI runtime: its name in this suite, the command that runs it, and what shows that the server runs."""

    kind: str
    runtime: tuple[str, ...]
    up: Callable[[Container], bool]

    def start(self, pod: Pod, command: Command, limits: Limits, files: Files, run_id: str) -> Container:
        """Start a container and wait until its server runs.

        Raises StandError with what the runtime said when it ends first.
        """
        # Each start has a name of its own: nothing that a killed container left can be met again.
        name = f"{command.workdir.rpartition('/')[2]}-{next(_numbers)}"
        root, cgroup = f"/run/weighbridge/{run_id}/{self.kind}", cgroups.path_of(run_id, name)
        argv = (*self.runtime, "--root", root)
        bundle = _bundle.write(pod, command, limits, files, cgroup)
        shell = pod.node.shell
        cgroups.reserve(cgroup)
        process = shell.start([*command.pinned, *argv, "run", "--bundle", bundle, name])
        container = Container(self.kind, name, argv, root, process, shell, files, cgroup)

        def started() -> bool:
            if not process.running():
                raise StandError(f"{self.kind} did not start the server: {process.said().strip() or 'it said nothing'}")
            return self.up(container)

        try:
            Deadline(START_TIMEOUT).until(started, f"container {name}", interval=_INTERVAL)
        except BaseException:
            container.stop()
            raise
        return container


def executes(container: Container) -> bool:
    """Whether the server's own program runs: until then every process in the cgroup bears the runtime's name."""
    names = (command_line(pid)[0] for pid in container.processes)
    return any(name and name != container.kind for name in names)


def _version(shell: Shell, runtime: tuple[str, ...]) -> str:
    """The first line of `--version`: `runc version 1.1.5+ds1`; '' when it says nothing.

    Raises CommandError when it cannot say so.
    """
    if runtime not in _versions:
        said = shell.run([*runtime, "--version"]).stdout.strip()
        _versions[runtime] = said.partition("\n")[0]
    return _versions[runtime]


def misnamed(kind: str, evidence: Mapping[str, str]) -> str | None:
    """Why the program is not the one it is run as; None when it calls itself so.

    On some systems `runc` is a link to crun.
    """
    words = evidence.get("runtime", "").split()
    return None if words[:1] == [kind] else f"{kind} calls itself {' '.join(words) or '?'}"


def unproven(kind: str, evidence: Mapping[str, str], limits: Limits) -> str | None:
    """The process has to be in the cgroup that carries the limits and the CPU weight asked for."""
    if not evidence.get("process", "").endswith("running"):
        return f"{kind} does not report a running container"
    if not evidence.get("cgroup"):
        return "the server is not in its cgroup"
    held = cgroups.held(limits)
    wanted = cgroups.limits_text(held.cpu, held.memory)
    if evidence.get("limits") != wanted:
        return f"limits in force are {evidence.get('limits')}, not {wanted}"
    if limits.request_cpu is not None:
        weights = cgroups.weights_for(limits.request_cpu)
        if evidence.get("cpu weight") not in weights:
            return f"the CPU weight in force is {evidence.get('cpu weight') or '?'}, not {' or '.join(sorted(weights))}"
    return None
