"""Waits for a server to answer, from a client's network namespace; runs on its own, with the standard library.

Prints `waiting` when it begins, then `answered` and the time on the system's monotonic clock, which every
process of a machine shares. Usage: _answer.py HOST PORT SECONDS
"""

import socket
import sys
import time

ONE_TRY = 0.05
"""Seconds: a SYN that nobody was there to answer is sent again only after a second, so a new one is tried."""
PAUSE = 0.002


def main() -> None:
    """Try until the server accepts a connection or the time is up."""
    host, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    end = time.monotonic() + seconds
    print("waiting", flush=True)  # noqa: T201 - its one channel
    while time.monotonic() < end:
        with socket.socket() as client:
            client.settimeout(ONE_TRY)
            # Closed in good order, not reset: iperf 2 ends when its first client resets.
            try:
                client.connect((host, port))
            except OSError:
                time.sleep(PAUSE)
                continue
            print(f"answered {time.monotonic()!r}", flush=True)  # noqa: T201
            return
    sys.exit(1)


main()
