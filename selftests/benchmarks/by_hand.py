"""Does the suite measure what a person would? By hand: `python -m selftests.benchmarks.by_hand [PAIRS [SECONDS]]`.

iperf3 is run through a stand of the suite and, with a command line that shares no code with it, typed into the same
namespaces against the same server; the two take turns, order by coin. Prints the ratio of their throughputs
(geometric mean) with its 95 % interval (Student's t on the log-ratios), which has to lie within 2 % of one.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy import stats
from tabulate import tabulate

from selftests.benchmarks.lab import cell_of, closing
from weighbridge import registry
from weighbridge.model import Cell
from weighbridge.stand import LiveStand, stand_up
from weighbridge.targets import Request, lab

ROOT = Path(__file__).parents[2]
PAIRS, SECONDS = 20, 3
WITHIN = 0.02


def main() -> None:
    """Measure and print."""
    pairs, seconds = (int(word) for word in [*sys.argv[1:], *(str(PAIRS), str(SECONDS))[len(sys.argv) - 1 :]])
    headers = ["network", "pairs", "ratio suite / by hand", "95 % interval", "bound", "met"]
    print(tabulate(rows(pairs, seconds), headers=headers, tablefmt="github", disable_numparse=True))


def rows(pairs: int, seconds: int) -> Iterator[list[str]]:
    """One row for every network whose throughput is bound to the link."""
    rng = random.Random(1)
    with lab.open_site(Request("byhand", ROOT / "scenarios")) as site:
        for network in ("host", "calico", "flannel"):
            cell = cell_of("network_stream3", network=network)
            tool = registry.find("tools", cell.tool)
            load = tool.Load.model_validate({**cell.load_text, "duration": f"{seconds}s"})
            stand = stand_up(site, cell)
            assert isinstance(stand, LiveStand)
            with closing(stand.close):
                through_suite(stand, cell, load)
                ratios = []
                for _ in range(pairs):
                    if rng.random() < 0.5:
                        suite, hand = through_suite(stand, cell, load), typed(site.namespace.pid, stand, seconds)
                    else:
                        hand, suite = typed(site.namespace.pid, stand, seconds), through_suite(stand, cell, load)
                    ratios.append(math.log(suite / hand))
            yield row(network, ratios)


def through_suite(stand: LiveStand, cell: Cell, load: Any) -> float:
    """The receiver's throughput as the suite reads it, bit/s."""
    reading = stand.read(cell, load, 0)
    assert reading.problem is None, reading.problem
    tool = registry.find("tools", cell.tool)
    return float(tool.select(tool.parse(reading.output), load)["throughput"])


def typed(pid: int, stand: LiveStand, seconds: int) -> float:
    """The same by hand: enter the client's namespace, run iperf3, read its JSON; bit/s."""
    netns = f"/proc/{pid}/root/run/netns/{stand.client.namespace}"
    enter = f"nsenter --target {pid} --pid --mount --root --net={netns}"
    command = f"{enter} iperf3 -c {stand.endpoint.host} -p {stand.endpoint.port} -t {seconds} -J"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])


def row(network: str, ratios: list[float]) -> list[str]:
    """The geometric mean of the ratios and its interval."""
    middle = statistics.fmean(ratios)
    half = stats.t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    low, high = math.exp(middle - half), math.exp(middle + half)
    met = low >= 1 - WITHIN and high <= 1 + WITHIN
    interval = f"{low:.4f} … {high:.4f}"
    return [network, str(len(ratios)), f"{math.exp(middle):.4f}", interval, f"1 ± {WITHIN:.0%}", "yes" if met else "NO"]


if __name__ == "__main__":
    main()
