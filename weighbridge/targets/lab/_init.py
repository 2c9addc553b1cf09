"""Process 1 of a lab; runs on its own, with nothing but the standard library.

It mounts what the lab needs, says so, and waits for its standard input to end. When it ends, for
whatever reason, the kernel ends every process of the namespace and frees its interfaces and mounts.
"""

import os
import signal
import subprocess
import sys


def run(*command: str) -> None:
    """Run a command, or end with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


def cut_propagation() -> None:
    """Keep the lab's mounts from the rest of the machine.

    In a chroot the root is no mount point: its propagation cannot be set, and runc cannot pivot there.
    So the whole tree is bound to a folder of a tmpfs, and that becomes the root. The first mounts are
    harmless where nothing is shared, which the mounts below the chroot tell.
    """
    if subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False).returncode == 0:
        return
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:  # noqa: PTH123 - see main
        if " shared:" in mounts.read():
            sys.exit("this chroot lies on a shared mount; bind its folder onto itself and make that private first")
    run("mount", "-t", "tmpfs", "weighbridge", "/run")
    os.mkdir("/run/root")  # noqa: PTH102 - see main
    run("mount", "--rbind", "/", "/run/root")
    os.chroot("/run/root")
    os.chdir("/")
    run("mount", "--make-rprivate", "/")


def main() -> None:
    """Prepare the namespace, report, and live as long as the other end of standard input is open."""
    work = sys.argv[1]
    cut_propagation()
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "weighbridge", "/run")
    run("ip", "link", "set", "lo", "up")
    os.makedirs(work)  # noqa: PTH103 - pathlib would double the start-up time
    # Orphans of the lab are adopted by process 1; ignoring SIGCHLD lets the kernel reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while os.read(0, 1):
        pass


main()
