"""What a killed run leaves and a long one gathers; by hand: `python -m selftests.benchmarks.leaks [KILLS [CYCLES]]`.

A run of the suite is killed with SIGKILL at a random moment, 200 times unless told otherwise. Two seconds later every
object that it could have left is looked for. Processes cannot hide: this one is their reaper (PR_SET_CHILD_SUBREAPER,
prctl(2)), so whatever loses its parent becomes its child. Then one process stands up and tears down 1,000 times.
Run as root: an ordinary user's lab makes fewer kinds of things.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from weighbridge.cleanup import leftovers, remove
from weighbridge.model import Cell
from weighbridge.procfs import descendants
from weighbridge.scenario import load
from weighbridge.stand import stand_up, unavailable
from weighbridge.targets import Request, lab

ROOT = Path(__file__).parents[2]
KILLS, CYCLES = 200, 1000
LATEST = 8.0
"""Seconds after which a run is killed at the latest; by then it measures in the slowest of its stands."""
GRACE = 2.0
_SUBREAPER = 36
_MIB = 2**20


def main() -> None:
    """Kill, count, cycle, count."""
    kills, cycles = (int(word) for word in [*sys.argv[1:], *(str(KILLS), str(CYCLES))[len(sys.argv) - 1 :]])
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    left = kill_often(kills)
    print(f"{kills} kills: {sum(left.values())} objects left {dict(left) if left else ''}")
    for line in cycle(cycles):
        print(line)


def kill_often(kills: int) -> Counter[str]:
    """Kinds of objects left after that many kills."""
    rng = random.Random(1)
    left: Counter[str] = Counter()
    for number in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            before = outside()
            moment = rng.uniform(0.2, LATEST)
            popen = start(Path(folder), number)
            try:
                popen.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                popen.send_signal(signal.SIGKILL)
                popen.wait()
            found = remains(before, Path(folder))
        left.update(found)
        if found:
            print(f"kill {number} after {moment:.2f} s left {dict(found)}", flush=True)
    return left


def start(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """A whole run over every network and runtime, with temporary files in a folder of its own."""
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "--profile=smoke", f"--run-dir={folder}/run", f"--seed={number}"]
    claims = ("network_cost", "sandbox_cost")
    return subprocess.Popen(
        [*command, f"tests/test_{claims[number % 2]}.py"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": f"{folder}/tmp"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def outside() -> dict[str, set[str]]:
    """What a lab could leave outside itself, by kind; the names of what is there now."""
    return {
        "interfaces": set(os.listdir("/sys/class/net")),  # noqa: PTH208 - names, not paths
        "named namespaces": {path.name for path in Path("/run/netns").glob("*")},
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "loop devices": {path.parent.name for path in Path("/sys/block").glob("loop*/loop")},
        "database sockets": {str(path) for path in Path("/run").glob("**/*.sock")},
        "temporary files": {str(path) for folder in ("/tmp", "/run") for path in Path(folder).glob("*weighbridge*")},
    }


def remains(before: dict[str, set[str]], folder: Path) -> Counter[str]:
    """What is there that was not, two seconds after the kill; cgroups after the next start."""
    deadline = time.monotonic() + GRACE
    while living() and time.monotonic() < deadline:
        time.sleep(0.02)
    found = Counter({"processes": len(living())})
    for kind, names in outside().items():
        found[kind] = len(names - before[kind])
    found["temporary files"] += len(list((folder / "tmp").rglob("*")))
    with lab.open_site(Request("next", ROOT / "scenarios")):
        found["cgroups after the next start"] = len(leftovers())
    for leftover in leftovers():
        remove(leftover)
    return Counter({kind: count for kind, count in found.items() if count})


def living() -> list[int]:
    """The processes that became this one's children; those that ended are reaped on the way."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if pid == 0:
            return descendants(os.getpid())


def cycle(cycles: int) -> list[str]:
    """Stand up and tear down that often in one lab, over every runtime and network that runs here."""
    cells = standing_cells()
    with lab.open_site(Request("cycles", ROOT / "scenarios")) as site:
        cells = [cell for cell in cells if unavailable(site, cell) is None]
        for cell in cells:
            stand_up(site, cell).close()
        files, memory = growth()
        started = time.monotonic()
        for number in range(cycles):
            stand_up(site, cells[number % len(cells)]).close()
        more_files, more_memory = growth()
        took = time.monotonic() - started
        namespaces = site.shell().run(["ip", "netns", "list"]).stdout.splitlines()
    names = ", ".join(cell.id for cell in cells)
    return [
        f"{cycles} cycles in {took:.0f} s over {names}",
        f"file descriptors: {more_files - files:+d} (at most +5)",
        f"resident memory: {(more_memory - memory) / _MIB:+.1f} MiB (at most +20)",
        f"namespaces in the lab: {len(namespaces)} (two nodes, and two switches each of ovs and neutron)",
    ]


def standing_cells() -> list[Cell]:
    """A cell for every network, then one for every runtime."""
    streams = load(ROOT / "scenarios/network_stream3.toml", "smoke").cells
    rates = load(ROOT / "scenarios/http_rate.toml", "smoke").cells
    return [*streams, *rates]


def growth() -> tuple[int, int]:
    """Open file descriptors and resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(list(Path("/proc/self/fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
