from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from selftests import stored_run
from weighbridge import report, store
from weighbridge.cli import main
from weighbridge.model import Status
from weighbridge.report.ranking import Ranking, rankings
from weighbridge.retell import own_figures
from weighbridge.study.own import NO_FIGURES

ROOT = Path(__file__).parents[2]
STUDY = "003_4ff3991bc0809a79"
RATE, THROUGHPUT, ROUND_TRIP = "request_rate", "throughput", "round_trip_time_mean"
UNITS = {RATE: "1/s", THROUGHPUT: "bit/s", ROUND_TRIP: "s", "latency_p99": "s"}


def cell(network: str, values: Sequence[float], metric: str = RATE, **changes: Any) -> store.StoredCell:
    """Give one cell of a scenario that compares networks."""
    samples = [stored_run.sample(metric, UNITS[metric], number, value) for number, value in enumerate(values)]
    axes = {"network": network, "placement": "cross-node"}
    content = {"scenario": "network_http", "study": STUDY, "axes": axes, "limit": None, "id": f"network_http-{network}"}
    return stored_run.cell("runc", samples, **{**content, **changes})


def absent(network: str, status: Status = Status.NOT_RUN, reason: str = "no such network") -> store.StoredCell:
    return cell(network, [], status=str(status), reason=reason)


def only(found: Sequence[Ranking]) -> Ranking:
    (ranking,) = found
    return ranking


def column(ranking: Ranking, heading: str) -> list[str]:
    return [row[ranking.headings.index(heading)] for row in ranking.rows]


def test_best_comes_first_whatever_was_measured_first() -> None:
    """A higher rate is better and a shorter time is, and the table says which end it begins with."""
    rates = only(rankings([cell("a", [1.0]), cell("host", [4.0]), cell("b", [2.0])], NO_FIGURES))
    assert (rates.title, column(rates, "network")) == ("Networks by request_rate, highest first", ["host", "b", "a"])
    assert column(rates, "÷ host") == ["1", "0.5", "0.25"]
    times = only(rankings([cell("a", [2e-3], ROUND_TRIP), cell("host", [1e-3], ROUND_TRIP)], NO_FIGURES))
    assert (times.title, column(times, "network")) == (
        "Networks by round_trip_time_mean, lowest first",
        ["host", "a"],
    )


def test_what_was_not_measured_stands_at_the_end_with_its_reason() -> None:
    """A reader of the ranking sees at once which network is missing, and why; it never has a rank."""
    found = only(rankings([absent("ovs"), cell("host", [4.0]), absent("x", Status.INFRA_ERROR, "boom")], NO_FIGURES))
    assert column(found, "rank") == ["1", "–", "–"]
    assert column(found, "measured")[1:] == ["➖ not-run: no such network", "💥 infra-error: boom"]


def test_unproven_figures_are_never_ranked() -> None:
    """A network that did not carry the traffic cannot win with the figures of another one."""
    winner = cell("flannel", [9.0], status=str(Status.INVALID), reason="unproven: it carried 0 bytes")
    found = only(rankings([winner, cell("host", [4.0])], NO_FIGURES))
    assert column(found, "network") == ["host", "flannel"]
    assert column(found, "measured")[1] == "🚫 invalid [9/s]: unproven: it carried 0 bytes"
    run = stored_run.run(cells=[winner, cell("host", [4.0])])
    scenario = run.scenarios[0].model_copy(update={"name": "network_http"})
    context = report.context(run.model_copy(update={"scenarios": [scenario]}), Path("nowhere"))
    assert context["scenarios"][0]["found"].rows == [["request_rate", "[9/s]", "4/s"]]


def test_cell_whose_reference_could_not_run_is_ranked_all_the_same() -> None:
    """What is wrong with another cell makes no figure of this one doubtful."""
    reason = "http-host: no such runtime"
    verdict = stored_run.verdict(Status.NOT_RUN, reason)
    borrowed = cell("a", [3.0], status="not-run", reason=f"{verdict.budget}: {reason}", verdicts=[verdict])
    assert column(only(rankings([borrowed, cell("b", [1.0])], NO_FIGURES)), "rank") == ["1", "2"]


def test_ratios_are_to_the_best_where_no_host_was_measured() -> None:
    """Without a bare link the best network is what the others are compared with, and the heading says so."""
    found = only(rankings([cell("a", [1.0]), cell("b", [2.0]), absent("host")], NO_FIGURES))
    assert "÷ host" not in found.headings
    assert column(found, "÷ best") == ["1", "0.5", "–"]


def test_throughput_has_the_physical_limit_beside_it() -> None:
    """Limit and efficiency are those of the network itself: an overlay's wire carries less."""
    limit = store.StoredLimit(throughput=800e6, formula="made up")
    found = only(rankings([cell("a", [400e6], THROUGHPUT, limit=limit), cell("b", [1e6], THROUGHPUT)], NO_FIGURES))
    assert column(found, "physical limit") == ["95.37 MiB/s", "–"]
    assert column(found, "of limit") == ["50 %", "–"]


def test_neighbours_that_the_rounds_do_not_tell_apart_are_marked() -> None:
    """An order that may be chance is not read as a result; one without several rounds says that it has none."""
    near, far = [10.0, 11.0, 12.0], [1.0, 1.1, 1.2]
    found = only(rankings([cell("a", near), cell("b", [v - 0.5 for v in near]), cell("c", far)], NO_FIGURES))
    assert column(found, "rank") == ["1", "2 ≈", "3"]
    assert column(found, "interval")[0] == "10/s … 12/s"
    assert any(note.startswith("≈") for note in found.notes)
    single = only(rankings([cell("a", [2.0]), cell("b", [1.0])], NO_FIGURES))
    assert single.notes == ["One figure each: their order may be chance."]
    assert "interval" not in single.headings


@pytest.mark.parametrize("schema", ["caveat", "reason"])
def test_emulated_figures_are_marked(schema: str) -> None:
    """Nobody reads what an emulated processor did as a figure of the real one, nor of runs stored before."""
    doubt = stored_run.verdict(Status.INCONCLUSIVE, "emulated CPU; 0.8 x, n = 1")
    changes = {"caveat": "emulated CPU"} if schema == "caveat" else {"verdicts": [doubt], "status": "inconclusive"}
    found = only(rankings([cell("slow", [9.0], **changes), cell("b", [1.0])], NO_FIGURES))
    assert column(found, "network") == ["slow †", "b"]
    assert found.notes[0] == "† emulated CPU: no verdict rests on this figure."
    assert column(found, "÷ best") == ["9", "1"], "nothing is compared with an emulated figure where another is there"


def test_every_combination_of_the_other_axes_is_ranked_by_itself() -> None:
    """A small message's rate never competes with a large one's, and sizes are in their order."""
    cells = [
        cell(name, [value], axes={"network": name, "size": size}, id=f"{name}-{size}")
        for size, values in (("4KiB", (1.0, 2.0)), ("1B", (4.0, 3.0)))
        for name, value in zip(("a", "b"), values, strict=True)
    ]
    found = only(rankings(cells, NO_FIGURES))
    assert [row[:3] for row in found.rows] == [
        ["1B", "1", "a"],
        ["1B", "2", "b"],
        ["4KiB", "1", "b"],
        ["4KiB", "2", "a"],
    ]


def test_only_runtimes_and_networks_are_ranked() -> None:
    """Message sizes and rates have no best one."""
    cells = [cell("a", [1.0], axes={"network": "a", "rate": rate}, id=rate) for rate in ("1000/s", "2000/s")]
    assert rankings(cells, NO_FIGURES) == []


def test_study_stands_beside_what_was_measured() -> None:
    """The study's figure and its ratio are in the row of the same network, also where nothing was measured here."""
    own = own_figures(ROOT / "scenarios", [STUDY])
    found = only(rankings([cell("host", [2000.0]), cell("calico", [1000.0]), absent("neutron")], own))
    assert column(found, "study") == [
        "12439.61/s",
        "10804.44/s (its output is refused)",
        "9065.38/s",
    ]
    assert column(found, "study ÷ host") == ["1", "0.869", "0.729"]


def test_study_that_contradicts_its_output_is_told_with_both() -> None:
    """Where a table prints one figure and the output beside it another, both stand there, and both ratios."""
    own = own_figures(ROOT / "scenarios", [STUDY])
    change = {"scenario": "network_round_trip", "tool": "ping"}
    cells = [cell("host", [1e-3], ROUND_TRIP, **change), cell("flannel", [2e-3], ROUND_TRIP, **change)]
    found = only(rankings(cells, own))
    assert column(found, "study")[1] == "0.727158 ms (its output: 0.3795 ms)"
    assert column(found, "study ÷ host")[1] == "2.97 (outputs: 1.55)"


def test_saturated_latency_of_a_study_is_no_figure() -> None:
    """What the study's own run could not judge is not set beside a latency that was measured below saturation."""
    own = own_figures(ROOT / "scenarios", ["000_ecef0cadeeddb2a1"])
    axes = {"network": "calico", "placement": "cross-node", "path": "node-port", "rate": "10000/s"}

    def key(runtime: str, metric: str) -> tuple[str, frozenset[tuple[str, str]], str]:
        return "http_ladder", frozenset({"runtime": runtime, **axes}.items()), metric

    assert key("kata", "latency_p99") not in own
    assert own[key("host", "latency_p99")].output == pytest.approx(1.98e-3)
    assert key("kata", "request_rate") in own


def test_run_is_told_again_with_and_without_the_studies(tmp_path: Path) -> None:
    """A stored run needs nothing but itself; with the studies at hand their columns come back."""
    scenario = stored_run.run().scenarios[0].model_copy(update={"name": "network_http", "study": STUDY})
    store.save(tmp_path, stored_run.run(scenarios=[scenario], cells=[cell("host", [2.0]), cell("calico", [1.0])]))
    command = ["report", str(tmp_path), "--templates", str(ROOT / "reports/templates"), "--scenarios"]
    assert main([*command, str(ROOT / "scenarios")]) == 0
    beside = (tmp_path / "report.md").read_text()
    assert main([*command, str(tmp_path / "nowhere")]) == 0
    alone = (tmp_path / "report.md").read_text()
    assert "| study ÷ host |" in beside
    assert "12439.61/s" in beside
    assert "study ÷ host" not in alone
    assert "### Networks by request_rate, highest first" in alone
    assert sorted(path.name for path in tmp_path.glob("*.md")) == ["report.md"], "a part of a template is no report"
