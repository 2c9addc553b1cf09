"""Process 1 of a lab; runs on its own, with nothing but the standard library.

It mounts what the lab needs, says so, and waits for its standard input to end. When it ends, for
whatever reason, the kernel ends every process of the namespace and frees its interfaces and mounts.
"""

import os
import signal
import subprocess
import sys


def main() -> None:
    """Prepare the namespace, report, and live as long as the other end of standard input is open."""
    work = sys.argv[1]
    for command in (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "-o", "mode=755", "weighbridge", "/run"],
        ["ip", "link", "set", "lo", "up"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    os.makedirs(work)  # noqa: PTH103 - pathlib would double the start-up time
    # Orphans of the lab are adopted by process 1; ignoring SIGCHLD lets the kernel reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while os.read(0, 1):
        pass


main()
