"""How long the suite itself takes: `python -m selftests.benchmarks.startup` prints a Markdown table.

Every figure is the median of five runs in a fresh process, with the fastest and the slowest; one run
before them fills the file caches. Bytecode is written to a folder of its own, as it would be in a checkout.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent.parent
RUNS = 5
PLAIN = ("-q", "-p", "no:cacheprovider", "test_nothing.py")


def seconds(arguments: Sequence[str], folder: Path, codes: Sequence[int], cache: Path) -> float:
    """Run pytest once and give the wall time in seconds.

    Raises SystemExit when it ends with another code than one of `codes`: that would time something else.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(cache),
    }
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed = time.monotonic() - started
    if done.returncode not in codes:
        raise SystemExit(f"pytest {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return elapsed


def row(what: str, target: float, once: Callable[[], float]) -> list[str]:
    """Time something five times: median, range, target and whether it is met."""
    once()
    found = sorted(once() for _ in range(RUNS))
    middle = statistics.median(found)
    verdict = "met" if middle <= target else "**missed**"
    return [what, f"{middle:.2f} s", f"{found[0]:.2f} … {found[-1]:.2f} s", f"≤ {target:g} s", verdict]


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), Path(name) / "pycache"
        (folder / "test_nothing.py").write_text("def test_nothing(): ...\n")
        numbers = iter(range(1000))

        def collect() -> float:
            return seconds(["--collect-only", "-q"], ROOT, (0,), cache)

        def replay() -> float:
            run = f"--run-dir={folder / str(next(numbers))}"
            return seconds(["-q", "--target", "replay", run], ROOT, (1,), cache)

        def start_up() -> float:
            """The difference of two runs made one after the other, so that both meet the same machine."""
            without = seconds(PLAIN, folder, (0,), cache)
            return seconds(["-p", "weighbridge.plugin", *PLAIN], folder, (0,), cache) - without

        rows = [
            row("`pytest --collect-only`, every scenario", 1.5, collect),
            row("plugin start-up over plain pytest", 0.2, start_up),
            row("`pytest --target replay`, five studies", 15, replay),
        ]
    headings = ["what", f"median of {RUNS}", "range", "target", ""]
    sys.stdout.write(tabulate(rows, headers=headings, tablefmt="github", disable_numparse=True) + "\n")


if __name__ == "__main__":
    main()
