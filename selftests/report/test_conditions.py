from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from selftests import stored_run
from weighbridge import report, store

TEMPLATES = Path(__file__).parents[2] / "reports/templates"


def told(folder: Path, cells: list[store.StoredCell]) -> str:
    (path,) = report.render(stored_run.run(cells=cells, environment={}), folder, TEMPLATES)
    return path.read_text()


def cell(runtime: str, **changes: Any) -> store.StoredCell:
    return stored_run.cell(runtime, [stored_run.sample("request_rate", "1/s", 0, 5.0)], **changes)


def test_limits_that_were_scaled_are_told(tmp_path: Path) -> None:
    """A run with 2 CPUs is not read as one with the 60 that the scenario asks for."""
    evidence = {"limits": "cpu 2 memory 1073741824", "limits asked": "cpu 60 memory 257698037760"}
    text = told(tmp_path, [cell("runc", evidence=evidence)])
    assert "smaller than what was asked for: cpu 60, memory 240 GiB." in text
    assert "Limits (cpu 2, memory 1 GiB) hold for every runtime." in text
    assert "scaled to this machine" not in told(tmp_path, [cell("runc", evidence={"limits": "cpu 2"})])


def test_cpu_placement_is_told(tmp_path: Path) -> None:
    """Client and server on one processor measure something else than each on its own."""
    text = told(tmp_path, [cell("runc", evidence={"cpus": "split: client 0, server 1"})])
    assert "CPU placement of client and server: split: client 0, server 1.\n" in text
    assert "CPU placement" not in told(tmp_path, [cell("runc", evidence={})])


@pytest.mark.parametrize(
    ("rates", "scenario", "header"),
    [
        ((1e9, 1e9), "shaped to 1 Gbit/s", "shaped to 1 Gbit/s"),
        (("unshaped", "unshaped"), "unshaped", "unshaped"),
        ((1e9, "unshaped"), "shaped to 1 Gbit/s, unshaped", None),
        ((1e9, None), "shaped to 1 Gbit/s", None),
        ((None, None), None, None),
    ],
)
def test_link_is_told_in_the_header_only_where_all_agree(
    tmp_path: Path, rates: tuple[Any, Any], scenario: str | None, header: str | None
) -> None:
    """Nobody reads an unshaped throughput beside the rate of another scenario's link, and none is made up."""
    text = told(tmp_path, [cell(name, link_rate=rate) for name, rate in zip(("host", "runc"), rates, strict=True)])
    assert re.findall(r"^Link between the nodes: (.*)\.$", text, re.MULTILINE) == ([scenario] if scenario else [])
    assert re.findall(r"^- link: (.*)$", text, re.MULTILINE) == ([header] if header else [])


def test_traffic_on_one_node_has_no_link(tmp_path: Path) -> None:
    """What never crosses the link is not told to have been bound by it."""
    same = cell("host", axes={"runtime": "host", "placement": "same-node"}, link_rate=1e9)
    assert "Link between the nodes" not in told(tmp_path, [same])
    assert "- link:" not in told(tmp_path, [same])


def test_stolen_time_is_told_once_with_the_worst_slot(tmp_path: Path) -> None:
    """How much the hypervisor took is one line of the run, with where to look, and no row of any table."""

    def stolen(runtime: str, *shares: float) -> store.StoredCell:
        samples = [stored_run.sample("request_rate", "1/s", 0, 5.0)]
        samples += [stored_run.sample("cpu_steal", "fraction", n, share) for n, share in enumerate(shares)]
        return stored_run.cell(runtime, samples)

    text = told(tmp_path, [stolen("host", 0.0, 0.01), stolen("runc", 0.02, 0.25)])
    assert (
        "- CPU time stolen by the hypervisor during a slot: median 1.5 %, worst slot 25 % (http-runc, round 1); n = 4"
        in text
    )
    assert "cpu_steal" not in text
    assert "worst slot 0 %; n = 1\n" in told(tmp_path, [stolen("host", 0.0)])
    assert "stolen" not in told(tmp_path, [cell("host")])


def test_start_up_and_memory_are_told_like_any_metric(tmp_path: Path) -> None:
    """They have units that suit them in every tool's tables, and say that they were taken once."""
    samples = [stored_run.sample("request_rate", "1/s", number, 5.0) for number in range(3)]
    samples += [
        stored_run.sample("start_up_time", "s", 0, 0.125),
        stored_run.sample("memory_footprint", "byte", 0, 3 * 2.0**20),
    ]
    text = told(tmp_path, [stored_run.cell("runc", samples)])
    assert "| 5/s          | 125 ms (n = 1) | 3 MiB (n = 1)    |" in text
    assert "Medians of 3 rounds" in text


def test_evidence_that_nobody_foresaw_is_shown_whole(tmp_path: Path) -> None:
    """Whatever a stand proves itself by is in the table, in one order, and a long piece hides no other."""
    first = {"kernel": "6.1", "acceleration": "tcg", "bytes on vxlan0: a": "1 -> 2", "said": "x" * 2000, "last": "here"}
    second = {"last": "too", "kernel": "6.2", "platform": "systrap"}
    text = told(tmp_path, [cell("host", evidence=first), cell("runc", evidence=second)])
    assert "kernel: 6.1; acceleration: tcg; bytes on vxlan0: a: 1 -\\> 2; said: xxx" in text
    assert "…; last: here" in text
    assert "kernel: 6.2; last: too; platform: systrap" in text
