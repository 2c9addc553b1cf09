"""Command lines, loads and selected figures of wrk, wrk2 and ab."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from selftests.tools.corpus import DATA, read
from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Endpoint, ab, wrk, wrk2

SERVER = Endpoint("10.0.0.2", 8080, "/hello?a=1")
WRK = {"threads": "2", "connections": "100", "duration": "30s"}


def load_of(tool: Any, **keys: Any) -> Any:
    """Build a tool's load from text, as a scenario does; its fields' types are those after reading."""
    return tool.Load(**keys)


def test_wrk_command_line() -> None:
    """Options come before the URL, with the duration in whole seconds and percentiles asked for."""
    load = load_of(wrk, **WRK, headers={"Connection": "close"})
    assert wrk.argv("wrk", load, SERVER) == [
        *("wrk", "-t2", "-c100", "-d30s", "--latency", "-H", "Connection: close"),
        "http://10.0.0.2:8080/hello?a=1",
    ]
    assert wrk.planned(load) == 30


def test_wrk2_command_line_has_the_total_rate() -> None:
    """`-R` is the rate of all threads together, as the load states it."""
    load = load_of(wrk2, **WRK, rate="1k/s", latency=False, script="post.lua")
    expected = ["wrk2", "-t2", "-c100", "-d30s", "-R1000", "-s", "post.lua", "http://[::1]:80/"]
    assert wrk2.argv("wrk2", load, Endpoint("::1", 80, "")) == expected


def test_ab_command_line_sets_the_limit_before_the_requests() -> None:
    """`-t` resets the number of requests to 50000, so `-n` has to come after it."""
    load = load_of(ab, requests="90000", concurrency=50, keep_alive=True, body_file="./1024", duration="1min")
    expected = [
        "ab",
        "-q",
        "-t",
        "60",
        "-n",
        "90000",
        "-c",
        "50",
        "-k",
        "-p",
        "./1024",
        "http://10.0.0.2:8080/hello?a=1",
    ]
    assert ab.argv("ab", load, SERVER) == expected
    assert ab.planned(load) == 60


def test_ab_plans_by_requests_without_a_limit() -> None:
    """Without a time limit the plan is the requests at 5000 per second, at least one second."""
    assert ab.planned(load_of(ab, requests=90000, concurrency=50)) == 18.0
    assert ab.planned(load_of(ab, requests=10, concurrency=1)) == 1


@pytest.mark.parametrize(
    ("tool", "load"),
    [
        (wrk, WRK | {"threads": 0}),
        (wrk, WRK | {"threads": 200}),
        (wrk, WRK | {"duration": 30}),
        (wrk, WRK | {"duration": "1.5s"}),
        (wrk, WRK | {"duration": "10ms"}),
        (wrk, WRK | {"script": "-x"}),
        (wrk, WRK | {"headers": {"-s x": "1"}}),
        (wrk, WRK | {"headers": {"-X": "1"}}),
        (wrk, WRK | {"headers": {"X": "1\r\nY: 2"}}),
        (wrk, WRK | {"rate": "1/s"}),
        (wrk2, WRK),
        (wrk2, WRK | {"rate": "0.5/s"}),
        (wrk2, WRK | {"rate": "1.5/s"}),
        (wrk2, WRK | {"rate": "1000"}),
        (ab, {"requests": 10, "concurrency": 20}),
        (ab, {"requests": 0, "concurrency": 0}),
        (ab, {"requests": 10, "concurrency": 1, "body_file": "-r"}),
        (ab, {"requests": 10, "concurrency": 1, "body_file": ""}),
        (ab, {"requests": 10, "concurrency": 1, "duration": "0.5s"}),
        (ab, {"requests": "1k", "concurrency": 1}),
    ],
)
def test_impossible_loads_are_refused(tool: Any, load: dict[str, Any]) -> None:
    """A value that the tool would misread, or take for an option, never reaches a command line."""
    with pytest.raises(ValidationError):
        tool.Load(**load)


def test_the_one_run_is_selected() -> None:
    """A cell's figures are those of the only run, whole."""
    results = wrk2.parse(read(DATA / "wrk2" / "study-000-kata-1000.txt"))
    assert wrk2.select(results, load_of(wrk2, **WRK, rate="1000/s")) is results[0].metrics
    assert results[0].metrics["request_rate"] == 997.38


def test_several_runs_or_missing_percentiles_are_no_cell() -> None:
    """A recording of several runs, or one without the percentiles asked for, cannot stand for a cell."""
    runs = wrk.parse(read(DATA / "wrk" / "study-001.txt"))
    with pytest.raises(ParseError, match="5 wrk results"):
        wrk.select(runs, load_of(wrk, **WRK))
    with pytest.raises(ParseError, match="no latency distribution"):
        wrk.select(runs[:1], load_of(wrk, **WRK))
    assert wrk.select(runs[:1], load_of(wrk, **WRK, latency=False))["requests"] == 42374542


def test_an_interrupted_ab_run_is_no_cell() -> None:
    """Fewer requests than asked for, without a time limit, mean that somebody stopped ab."""
    results = ab.parse(read(DATA / "ab" / "sigint.txt"))
    with pytest.raises(ParseError, match="completed 36665 of 100000000"):
        ab.select(results, load_of(ab, requests=100000000, concurrency=4))
    assert ab.select(results, load_of(ab, requests=100000000, concurrency=4, duration="1s"))["requests"] == 36665
    with pytest.raises(ParseError, match="0 ab results"):
        ab.select((), load_of(ab, requests=1, concurrency=1))


@pytest.mark.parametrize(
    ("tool", "name", "old", "new", "reason"),
    [
        (wrk, "latency", "121506 requests", "221506 requests", "requests ÷ duration"),
        (wrk, "latency", " 89.60MB", " 99.60MB", "bytes ÷ duration"),
        (wrk, "latency", "75%   95.00us", "75%   75.00us", "50 % latency beside 75 %"),
        (wrk, "latency", "9.03ms", "1.03us", "mean latency beside the maximum"),
        (wrk, "latency", "98.94%", "198.94%", "within one standard deviation"),
        (wrk2, "study-000-host-5000", "15.01s", "15.02s", "100 % latency beside #.Max"),
        (wrk2, "study-000-host-5000", "58.181", "59.181", "#.Mean"),
        (wrk2, "version-4.0.0-spectrum", "1.096     0.55", "1.006     0.55", "spectrum falls"),
        (wrk2, "version-4.0.0-spectrum", "19742          inf", "19743          inf", "ends at 19743"),
        (ab, "study-003-physical", "4.019 [ms]", "4.119 [ms]", "concurrency ÷ rate"),
        (ab, "study-003-physical", "0.080 [ms]", "0.081 [ms]", "1 ÷ rate"),
        (ab, "study-003-physical", "10265.11", "10275.11", "bytes ÷ time"),
        (ab, "study-003-physical", "55080000", "55070000", "document length × requests"),
        (ab, "study-003-physical", "98% 5", "98% 7", "percentiles fall"),
        (ab, "study-003-physical", "100% 9", "100% 10", "longest request"),
        (ab, "study-003-physical", "Total: 1 4", "Total: 5 4", "do not rise"),
    ],
)
def test_figures_that_exclude_each_other_are_contradictions(
    tool: Any, name: str, old: str, new: str, reason: str
) -> None:
    """One altered figure in a genuine output is found by the arithmetic that ties it to its neighbours."""
    text = read(DATA / tool.__name__.rpartition(".")[2] / f"{name}.txt")
    assert old in text
    with pytest.raises(ContradictionError, match=reason):
        tool.parse(text.replace(old, new, 1))


def test_a_short_last_run_spoils_the_recording() -> None:
    """A recording whose last run was cut off is refused whole, so that the gap is noticed."""
    for tool, name in ((wrk, "latency"), (ab, "plain")):
        text = read(DATA / tool.__name__.rpartition(".")[2] / f"{name}.txt")
        assert [result.labels for result in tool.parse(text + text)] == [{"run": 0}, {"run": 1}]
        with pytest.raises(ParseError, match="truncated"):
            tool.parse(text + text[: len(text) // 2])


def test_localised_figures_are_refused() -> None:
    """A decimal comma is not guessed at."""
    for tool, name in ((wrk, "latency"), (wrk2, "study-000-host-1000"), (ab, "plain")):
        text = read(DATA / tool.__name__.rpartition(".")[2] / f"{name}.txt")
        with pytest.raises(ParseError):
            tool.parse(text.replace(".", ","))
