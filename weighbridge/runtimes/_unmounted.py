"""Becomes a command from which a mount is hidden; runs on its own, with nothing but the standard library.

It has to be alone in its mount namespace, whose mounts propagate nowhere: `unshare --mount --propagation private`.
Usage: _unmounted.py MOUNT COMMAND…
"""

import ctypes
import os
import sys


def main() -> None:
    """Take the mount away and become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(sys.argv[1]), 0):
        sys.exit(f"{sys.argv[1]} cannot be hidden: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - there is no shell


main()
