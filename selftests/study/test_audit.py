from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from selftests.study_folder import made, recording
from weighbridge.errors import ScenarioError
from weighbridge.study import Study
from weighbridge.study.audit import Discrepancy, Lookup, audit

TABLE = """
title = "made up"
row_axes = ["network"]
[[columns]]
heading = "rate"
scenario = "http"
metric = "request_rate"
unit = "/s"
axes = {}
[[rows]]
axes = { network = "flannel" }
printed = ["100.5"]
[[rows]]
axes = { network = "calico" }
printed = ["200.5"]
"""
BOTH = recording("f.txt") + recording("c.txt", 'network = "calico"')
FILES = {"raw/f.txt": "rate 100.5\n", "raw/c.txt": "rate 200.5\n", "tables/t.toml": TABLE}
FIGURE = """
[[figures]]
scenario = "http"
axes = { response_size = "1KiB" }
source = "a table"
requests = 100
concurrency = 2
mean_across_all = "0.934 ms"
transfer = { received = "1398.19 KiB/s", sent = "1299.14 KiB/s", total = "2697.33 KiB/s" }
distribution = [[50.000000, 1, 50], [49.000000, 2, 49], [1.000000, 9, 1]]
[figures.metrics]
request_rate = "1070.25/s"
latency_mean = "1.869 ms"
latency_p50 = "2 ms"
latency_p99 = "9 ms"
latency_max = "9 ms"
throughput = "1398.19 KiB/s"
"""
PING = """
[[figures]]
scenario = "ping"
axes = {}
source = "ping"
readings = 19
resolution = "0.001 ms"
metrics = { round_trip_time_mean = "0.244842 ms" }
"""


def gives(figures: Mapping[str, Sequence[float]]) -> Lookup:
    """Make a lookup from figures by network and metric (`"flannel request_rate"`)."""
    return lambda _scenario, axes, name: figures.get(f"{axes.get('network', '')} {name}", ())


def found(study: Study, *args: object, **kwargs: object) -> list[tuple[str, str]]:
    """Audit, and keep kind and arithmetic."""
    run: Callable[..., tuple[Discrepancy, ...]] = audit
    return [(item.kind, item.arithmetic) for item in run(study, *args, **kwargs)]


SOUND = gives({"flannel request_rate": [100.5], "calico request_rate": [200.5]})


def test_sound_table_raises_nothing(tmp_path: Path) -> None:
    """A table that repeats its outputs is silent, also when it is rounded more coarsely."""
    study = made(tmp_path, BOTH, FILES)
    assert found(study, SOUND) == []
    assert found(study, gives({"flannel request_rate": [100.46], "calico request_rate": [200.549]})) == []
    assert found(study) == []


def test_table_that_differs_from_its_output_is_found(tmp_path: Path) -> None:
    """Half a unit of the last printed digit is all the freedom that a table has."""
    study = made(tmp_path, BOTH, FILES)
    lookup = gives({"flannel request_rate": [100.56], "calico request_rate": [200.5]})
    assert found(study, lookup) == [("table", "100.5/s ≠ 100.56/s")]


def test_swapped_rows_are_named(tmp_path: Path) -> None:
    """Figures that belong to each other's row are told apart from plain errors."""
    study = made(tmp_path, BOTH, FILES)
    lookup = gives({"flannel request_rate": [200.5], "calico request_rate": [100.5]})
    assert found(study, lookup) == [
        ("swapped row", "100.5/s is the figure of network=calico"),
        ("swapped row", "200.5/s is the figure of network=flannel"),
    ]


def test_figures_of_refused_outputs_are_unconfirmed_or_swapped(tmp_path: Path) -> None:
    """An output that contradicts itself confirms nothing, but its digits still tell rows apart."""
    reasons = {"raw/f.txt": "1 ≠ 2", "raw/c.txt": "3 ≠ 4"}
    study = made(tmp_path, BOTH, FILES)
    kinds = [kind for kind, _ in found(study, gives({}), reasons)]
    assert kinds == ["unconfirmed", "unconfirmed", "refused", "refused"]
    swapped = made(tmp_path, BOTH, {**FILES, "raw/f.txt": "rate 200.5\n", "raw/c.txt": "rate 100.5\n"})
    assert [kind for kind, _ in found(swapped, gives({}), reasons)][:2] == ["swapped row", "swapped row"]
    lost = made(tmp_path, BOTH, {**FILES, "raw/f.txt": "rate 1100.5\n"})
    assert [kind for kind, _ in found(lost, gives({}), reasons)][:2] == ["no source", "unconfirmed"]


def test_figure_without_any_output_is_found(tmp_path: Path) -> None:
    """A table figure that nothing in the study gives is found without a parser."""
    study = made(tmp_path, recording("f.txt"), {"raw/f.txt": "x\n", "tables/t.toml": TABLE})
    assert [kind for kind, _ in found(study)] == ["no source"]


def test_only_the_series_of_a_row_counts(tmp_path: Path) -> None:
    """A row taken from one of two series agrees with that one; a row that does not say, with either."""
    files = {"raw/a.txt": "x\n", "raw/b.txt": "x\n"}
    index = recording("a.txt") + recording("b.txt", series=1)
    lookup = gives({"flannel request_rate": [100.5, 101.5]})
    table = TABLE[: TABLE.rindex("[[rows]]")]
    for series, kinds in ((None, []), (0, []), (1, ["table"])):
        row = table + (f"series = {series}\n" if series is not None else "")
        assert [kind for kind, _ in found(made(tmp_path, index, {**files, "tables/t.toml": row}), lookup)] == kinds


def test_claims_are_computed(tmp_path: Path) -> None:
    """A derived figure has to follow from its arithmetic; bounds and steps give it their freedom only."""
    claim = '[[claims]]\nwhat = "{}"\nprinted = "{}"\narithmetic = "{}"\nwhere = "log"\n{}\n'
    sound = [
        ("a", "15 us", "(856918 - 856903) * 1e-6", ""),
        ("b", "900/s", "922.03", 'step = "100/s"'),
        ("c", "30 us", "42e-6", 'bound = "lower"'),
    ]
    wrong = [
        ("d", "16 us", "(856918 - 856903) * 1e-6", ""),
        ("e", "900/s", "922.03", ""),
        ("f", "40 us", "42e-6", 'bound = "upper"'),
    ]
    study = made(tmp_path, "".join(claim.format(*one) for one in (*sound, *wrong)))
    assert found(study) == [
        ("claim", "(856918 - 856903) * 1e-6 = 15 us"),
        ("claim", "922.03 = 922.03/s"),
        ("claim", "42e-6 = 42 us"),
    ]


def test_claim_that_is_no_arithmetic_is_an_error(tmp_path: Path) -> None:
    """A claim that cannot be computed never counts as one that holds."""
    study = made(tmp_path, '[[claims]]\nwhat = "gain"\nprinted = "2 x"\narithmetic = "2 * rate"\nwhere = "log"\n')
    with pytest.raises(ScenarioError, match="made_up: claims: 'gain'"):
        audit(study)


def test_sound_figure_row_raises_nothing(tmp_path: Path) -> None:
    """A row as ab prints it obeys every rule, with the rounding of its own digits."""
    assert found(made(tmp_path, FIGURE + PING)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('request_rate = "1070.25', 'request_rate = "1071.25', ["mean"]),
        ('latency_mean = "1.869', 'latency_mean = "1.871', ["mean", "mean across all"]),
        ('mean_across_all = "0.934', 'mean_across_all = "0.944', ["mean across all"]),
        ('total = "2697.33', 'total = "2697.35', ["transfer"]),
        ('throughput = "1398.19', 'throughput = "0398.19', ["lost digit", "response size"]),
        ("requests = 100", "requests = 104", ["distribution"] * 4),
        ("[1.000000, 9, 1]", "[1.000000, 2, 1]", ["distribution", "percentile", "percentile"]),
        ("[1.000000, 9, 1]", "[1.000000, 99, 1]", ["distribution", "percentile", "percentile"]),
        ('latency_p50 = "2 ms"', 'latency_p50 = "1 ms"', ["percentile"]),
        ('latency_p99 = "9 ms"', 'latency_p99 = "2 ms"', ["percentile"]),
        ('response_size = "1KiB"', 'response_size = "4KiB"', ["response size"]),
        ('"0.244842 ms"', '"0.244850 ms"', ["impossible mean"]),
    ],
)
def test_each_rule_of_a_figure_row_finds_its_contradiction(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    """One changed figure is found by the rule that binds it."""
    text = FIGURE + PING
    assert old in text
    assert [kind for kind, _ in found(made(tmp_path, text.replace(old, new)))] == expected


def test_series_that_differ_by_more_than_a_fifth_are_found(tmp_path: Path) -> None:
    """Two runs of one cell that are 1.2 times apart or less are one figure, more is not."""
    index = recording("f.txt") + recording("g.txt", series=1)
    study = made(
        tmp_path, index, {"raw/f.txt": "x\n", "raw/g.txt": "x\n", "tables/t.toml": TABLE[: TABLE.rindex("[[rows]]")]}
    )
    assert found(study, gives({"flannel request_rate": [100.5, 120.5]})) == []
    assert found(study, gives({"flannel request_rate": [100.5, math.nan]})) == []
    assert found(study, gives({"flannel request_rate": [100.5, 125.625]})) == [("series", "125.62/s / 100.5/s = 1.250")]


def test_asked_rate_that_was_not_reached_is_found(tmp_path: Path) -> None:
    """A run within 5 % of what it was told to reach is sound."""
    study = made(tmp_path, recording("f.txt", more='asked = { throughput = "1000 Mbit/s" }'), {"raw/f.txt": "x\n"})
    assert found(study, gives({"flannel throughput": [0.951e9]})) == []
    assert found(study, gives({"flannel throughput": [math.nan]})) == []
    assert found(study, gives({"flannel throughput": [0.811e9]})) == [
        ("asked rate", "811 Mbit/s / 1000 Mbit/s = 0.811")
    ]


def test_run_with_other_responses_is_found(tmp_path: Path) -> None:
    """Bytes per response differ only if both of their roundings say so."""
    nets = ("a", "b", "c")
    study = made(
        tmp_path,
        "".join(recording(f"{n}.txt", f'network = "{n}"') for n in nets),
        {f"raw/{n}.txt": f"{n}\n" for n in nets},
    )
    same = {f"{n} {name}": [value] for n in nets for name, value in (("bytes_received", 135e3), ("requests", 1e3))}
    rates = {f"{n} {name}": [value] for n in nets for name, value in (("throughput", 135e3 * 8), ("request_rate", 1e3))}
    assert found(study, gives({**same, **rates})) == []
    assert found(study, gives({**same, **rates, "c throughput": [136e3 * 8]})) == []
    odd = {**same, **rates, "c bytes_received": [142e3], "c throughput": [142e3 * 8]}
    assert found(study, gives(odd)) == [("response size differs", "142.00 B per response, 135.00 B in 2 runs of http")]


def test_repeated_output_is_found(tmp_path: Path) -> None:
    """A paragraph of figures that stands in two outputs was measured once at most."""
    block = "Connection Times\n" + "Total: 2 5 1.3 5 10\n" * 4
    files = {"raw/f.txt": f"rate 1\n\n{block}", "raw/c.txt": f"rate 2\n\n{block.replace('5', '6')}"}
    assert found(made(tmp_path, BOTH, files)) == []
    study = made(tmp_path, BOTH, {**files, "raw/c.txt": f"rate 2\r\n\r\n{block}"})
    assert found(study) == [("repeated output", "20 numbers in 1 paragraphs are those of raw/f.txt")]
    other = made(tmp_path / "later", recording("n.txt"), {"raw/n.txt": block})
    assert [item.where for item in audit(other, earlier=[study])] == [
        "raw/n.txt = made_up/raw/f.txt",
        "raw/n.txt = made_up/raw/c.txt",
    ]


HOSTS = """
[[hosts]]
name = "pod-f"
address = "10.0.0.1"
node = "n"
scenarios = ["http"]
axes = { network = "flannel" }
[[hosts]]
name = "pod-c"
address = "10.0.0.2"
node = "n"
scenarios = ["http"]
axes = { network = "calico" }
"""


@pytest.mark.parametrize(
    ("text", "client", "expected"),
    [
        ("ab http://10.0.0.1/\nServer Hostname: 10.0.0.1\n", "pod-f", []),
        ("iperf -s\nlocal 10.0.0.1 port 1 connected with 10.0.0.9 port 2\n", "pod-f", []),
        ("ab http://10.0.0.1/\nServer Hostname: 10.0.0.8\n", "pod-f", ["destination"]),
        ("iperf -c 10.0.0.1\nlocal 10.0.0.9 port 1 connected with 10.0.0.2 port 2\n", "pod-f", ["destination", "host"]),
        ("qperf 10.0.0.8 tcp_lat\n", "pod-f", ["destination"]),
        ("ab http://10.0.0.1/\n", "pod-c", ["host"]),
    ],
)
def test_outputs_speak_of_the_server_of_their_cell(tmp_path: Path, text: str, client: str, expected: list[str]) -> None:
    """Command, output, client and listed hosts all name the same cell."""
    study = made(tmp_path, HOSTS + recording("f.txt", more=f'client = "{client}"'), {"raw/f.txt": text})
    assert [kind for kind, _ in found(study)] == expected


def test_listing_and_its_command_name_one_target(tmp_path: Path) -> None:
    """Figures of a table come from the address that the study states for it."""
    text = 'command = "ab -n 1 http://one/"\nstated_target = "http://{}/"\nfigures = []\n'
    assert found(made(tmp_path, "", {"figures/f.toml": text.format("one")})) == []
    kinds = [kind for kind, _ in found(made(tmp_path, "", {"figures/f.toml": text.format("two")}))]
    assert kinds == ["destination"]


def test_heading_of_another_cell_is_found(tmp_path: Path) -> None:
    """An output under the heading of another network may be that one's."""
    files = {"raw/f.txt": "x\n"}
    own, other = (recording("f.txt", more=f'heading = {{ network = "{name}" }}') for name in ("flannel", "calico"))
    assert found(made(tmp_path, own, files)) == []
    study = made(tmp_path, other, files)
    assert found(study) == [("heading", "under network=calico, measured network=flannel")]


@pytest.mark.parametrize(
    ("second", "expected"), [("11:12:35", ["overlap"]), ("11:13:10", ["overlap"]), ("11:13:11", [])]
)
def test_overlapping_runs_are_found(tmp_path: Path, second: str, expected: list[str]) -> None:
    """One load generator runs one thing at a time, whichever run the study prints first."""
    index = recording("f.txt", more='at = "11:12:40"\nlasts = "30.09 s"')
    index += recording("c.txt", 'network = "calico"', more=f'at = "{second}"\nlasts = "40 s"')
    assert [kind for kind, _ in found(made(tmp_path, index, {"raw/f.txt": "x\n", "raw/c.txt": "x\n"}))] == expected
