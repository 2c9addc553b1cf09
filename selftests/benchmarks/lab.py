"""What the lab costs and how exact it is; run by hand: `python -m selftests.benchmarks.lab [--short]`.

Prints a Markdown table: opening a lab, standing up and tearing down a cell, and the TCP throughput that
every network reaches beside the physical limit of its link. Only an idle machine gives figures worth keeping.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from weighbridge import registry
from weighbridge.model import Cell
from weighbridge.scenario import load
from weighbridge.stand import stand_up, unavailable
from weighbridge.targets import Request, lab

ROOT = Path(__file__).parents[2]
ROUNDS = 5
STAND_UP = {"host": 0.1, "runc": 0.4, "crun": 0.4, "gvisor": 0.8, "kata": 6.0}
"""Bounds in seconds for server and client of a cell together; kata's is for an emulated processor."""
WIRED = {"ovs": 1.5, "neutron": 1.5}
"""Bounds in seconds for a network on both nodes."""
WITHIN = 0.002
"""How far an idle machine's TCP throughput may be from the physical limit."""
SECONDS = 10
"""So long that the mebibyte which passes the bucket at once is less than a thousandth."""


def main() -> None:
    """Measure and print."""
    rows = [opening(), *wiring(), *stands(), *throughputs(), *([] if "--short" in sys.argv else [whole_run()])]
    print(tabulate(rows, headers=["what", "median", "range", "bound", "met"], tablefmt="github", disable_numparse=True))


def opening() -> list[str]:
    """Opening a lab with two nodes and closing it again."""

    def once() -> None:
        with lab.open_site(Request("bench", ROOT / "scenarios")):
            pass

    return row("lab opened and closed", [timed(once) for _ in range(ROUNDS)], 0.5)


def stands() -> Iterator[list[str]]:
    """Stand-up and tear-down of a cell's server and client, by runtime."""
    with lab.open_site(Request("bench", ROOT / "scenarios")) as site:
        for runtime in registry.keys("runtimes"):
            bound = STAND_UP.get(runtime, math.inf)
            cell = cell_of("runtime_start_up", runtime=runtime)
            if reason := unavailable(site, cell):
                yield [f"stand-up {runtime}", reason, "", "", ""]
                continue
            ups, downs = [], []
            for _ in range(ROUNDS + 1):
                started = time.perf_counter()
                stand = stand_up(site, cell)
                ups.append(time.perf_counter() - started)
                downs.append(timed(stand.close))
            # The first stand-up also wires the network.
            yield row(f"stand-up {runtime}, calico", ups[1:], bound)
            yield row(f"tear-down {runtime}", downs[1:], 0.3)


def wiring() -> Iterator[list[str]]:
    """Every network, in a lab of its own each time."""
    for network in registry.keys("networks"):
        module = registry.find("networks", network)
        seconds = []
        for _ in range(ROUNDS):
            with lab.open_site(Request("bench", ROOT / "scenarios")) as site:
                if reason := module.unavailable(site.shell()):
                    yield [f"network {network} wired", reason, "", "", ""]
                    break
                started = time.perf_counter()
                module.wire(site.nodes)
                seconds.append(time.perf_counter() - started)
        else:
            yield row(f"network {network} wired", seconds, WIRED.get(network, math.inf))


def whole_run() -> list[str]:
    """Everything that `./run lab` measures in profile quick, once."""

    def once() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pytest", "-q", f"--run-dir={folder}/run"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the quick run ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    return row("a quick run of the lab", [timed(once)], 360)


def throughputs() -> Iterator[list[str]]:
    """The receiver's TCP throughput, and how far it is from the physical limit."""
    with lab.open_site(Request("bench", ROOT / "scenarios")) as site:
        for network in registry.keys("networks"):
            cell = cell_of("network_stream3", network=network.replace("_", "-"))
            if unavailable(site, cell):
                continue
            tool = registry.find("tools", cell.tool)
            asked = tool.Load.model_validate({**cell.load_text, "duration": f"{SECONDS}s"})
            stand = stand_up(site, cell)
            assert stand.limit is not None
            with closing(stand.close):
                readings = (stand.read(cell, asked, number) for number in range(ROUNDS))
                found = [tool.select(tool.parse(r.output), asked)["throughput"] for r in readings]
            middle, limit = statistics.median(found), stand.limit.throughput
            yield [
                f"TCP throughput {network}",
                f"{middle / 1e6:.2f} Mbit/s",
                f"{min(found) / 1e6:.2f} … {max(found) / 1e6:.2f}",
                f"{limit / 1e6:.2f} ± {WITHIN:.1%}" if stand.caveat is None else "none: " + stand.caveat,
                ""
                if stand.caveat
                else f"{'yes' if abs(middle / limit - 1) <= WITHIN else 'NO'} ({middle / limit - 1:+.2%})",
            ]


@contextmanager
def closing(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` at the end."""
    try:
        yield
    finally:
        close()


def cell_of(scenario: str, **axes: str) -> Cell:
    """The first cell of a scenario with these axis values."""
    cells = load(ROOT / "scenarios" / f"{scenario}.toml", "quick").cells
    return next(cell for cell in cells if axes.items() <= dict(cell.axes).items())


def timed(call: Callable[[], object]) -> float:
    """How long a call takes, in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def row(what: str, seconds: list[float], bound: float) -> list[str]:
    """A row of the table for a time with an upper bound."""
    middle = statistics.median(seconds)
    spread = f"{min(seconds):.3f} … {max(seconds):.3f} s"
    if math.isinf(bound):
        return [what, f"{middle:.3f} s", spread, "", ""]
    return [what, f"{middle:.3f} s", spread, f"≤ {bound:g} s", "yes" if middle <= bound else "NO"]


if __name__ == "__main__":
    main()
