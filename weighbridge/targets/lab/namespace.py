"""The lab's outer wall: one PID, mount and network namespace (and a user namespace, when not root).

Its process 1 reads a pipe that only this process holds. When this process ends, also by SIGKILL, the
pipe ends, process 1 ends, and the kernel removes every process, interface and mount of the lab.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weighbridge import registry
from weighbridge.errors import StandError
from weighbridge.shell import ENVIRONMENT, LocalShell

START_TIMEOUT = 10.0
_LEASH = ("setpriv", "--pdeathsig", "KILL", "--")
"""What is started behind it dies with the process that started it."""


@dataclass(frozen=True)
class Namespace:
    """The running lab: its process 1, and its own folder inside (`work`)."""

    pid: int
    work: str
    rootless: bool

    def shell(self, netns: str | None = None) -> LocalShell:
        """A shell inside; in the network namespace called `netns`, else in the outer one."""
        enter = ["nsenter", "--target", str(self.pid), "--pid", "--mount", "--root", "--wd"]
        if self.rootless:
            enter += ["--user", "--preserve-credentials"]
        enter.append(f"--net={self.outside('/run/netns')}/{netns}" if netns else "--net")
        # The prefix ends with setpriv so that nothing inside outlives the nsenter that started it.
        return LocalShell(prefix=(*enter, *_LEASH))

    def outside(self, path: str) -> Path:
        """The same path as seen from outside the lab."""
        return Path(f"/proc/{self.pid}/root{path}")

    def write(self, path: str, content: str | bytes) -> None:
        """Make a file inside, and its folders."""
        target = self.outside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, path: str) -> str:
        """The content of a file inside; '' when it is not there."""
        try:
            return self.outside(path).read_text()
        except OSError:
            return ""


def unavailable() -> str | None:
    """Why no lab can be made on this machine; None when one can."""
    if sys.platform != "linux":
        others = ", ".join(key for key in registry.keys("targets") if key != "lab")
        return f"the lab needs Linux namespaces; use another target: {others}"
    probe = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if probe.returncode:
        remedy = "run as root" if os.geteuid() else "run on a machine or in a container that may make namespaces"
        return f"namespaces cannot be made here ({probe.stderr.strip()}); {remedy}"
    return None


def _unshare() -> list[str]:
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    # Propagation is cut by process 1: unshare's own way fails in a chroot whose root is no mount point.
    return ["unshare", *user, "--fork", "--pid", "--mount", "--net", "--propagation=unchanged", "--kill-child=SIGKILL"]


@contextmanager
def new_namespace(run_id: str) -> Iterator[Namespace]:
    """A namespace for the length of the context.

    Raises StandError when it cannot be made.
    """
    work = f"/run/weighbridge/{run_id}"
    init = Path(__file__).with_name("_init.py")
    popen = subprocess.Popen(
        [*_LEASH, *_unshare(), sys.executable, "-I", "-S", str(init), work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    try:
        assert popen.stdout is not None
        readable, _, _ = select.select([popen.stdout], [], [], START_TIMEOUT)
        if not readable or popen.stdout.readline() != b"ready\n":
            popen.kill()
            _, err = popen.communicate()
            raise StandError(f"the lab did not start: {err.decode(errors='replace').strip() or 'no answer'}")
        children = Path(f"/proc/{popen.pid}/task/{popen.pid}/children").read_text().split()
        yield Namespace(int(children[0]), work, rootless=os.geteuid() != 0)
    finally:
        if popen.stdin:
            popen.stdin.close()
        popen.kill()
        popen.wait()
        for stream in (popen.stdout, popen.stderr):
            if stream:
                stream.close()
