"""Whether an OCI runtime starts a container here: it is asked to, with a deadline."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from weighbridge.shell import Shell

TIMEOUT = 5.0
"""Seconds: the slowest start of a working runtime takes a tenth of it; a platform that hangs costs all of it once."""
_CONFIG = Path(__file__).with_name("_probe.json")
_LIBRARIES = ("lib", "lib64")
_numbers = itertools.count(1)


def version_seen(shell: Shell, runtime: Sequence[str]) -> tuple[str, str]:
    """What `/proc/version` says in a container with a network namespace of its own, and the runtime's last words.

    The first is '' when the container did not start.
    """
    name = f"probe-{os.getpid()}-{next(_numbers)}"
    bundle = f"/run/weighbridge/{name}"
    shell.run(["mkdir", "-p", *(f"{bundle}/rootfs/{folder}" for folder in ("usr", "proc", "dev"))])
    shell.run(["cp", str(_CONFIG), f"{bundle}/config.json"])
    links = [f"usr/{name}" for name in _LIBRARIES if Path(f"/usr/{name}").is_dir()]
    shell.run(["ln", "-sfn", "-t", f"{bundle}/rootfs", *links])
    argv = [*runtime, "--root", f"{bundle}/root", "run", "--bundle", bundle, name]
    done = shell.run(argv, timeout=TIMEOUT, check=False)
    if done.timed_out:
        return "", f"no answer within {TIMEOUT:g} s"
    words = (done.stderr.strip() or f"ended with {done.code}").splitlines()[-1].strip()
    return (done.stdout.strip(), words) if done.ok else ("", words)
