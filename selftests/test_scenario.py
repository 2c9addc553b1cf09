from __future__ import annotations

import importlib.util
import json
import tomllib
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weighbridge import registry, scenario
from weighbridge.errors import ParseError, ScenarioError, UsageError
from weighbridge.scenario import LOOKS, PROFILES, Scenario, load, load_all

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / "scenarios").glob("*.toml"))

WHOLE = """
title = "made up"
claim = "request_capacity"
tool = "wrk"
server = "nginx"

[axes]
runtime = ["host", "runc", "kata"]
connections = ["16", "64"]

[limits]
cpu = 1
memory = "2GiB"

[load]
threads = 1
duration = "10s"

[profiles.smoke]
axes.connections = ["16"]
load.duration = "1s"

[profiles.quick]
rounds = [6, 12]

[[budgets]]
metric = "request_rate"
where = { runtime = "kata" }
at_least = "0.5 x runtime=runc"
"""


def written(folder: Path, text: str | bytes = WHOLE, name: str = "made_up") -> Path:
    path = folder / f"{name}.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def made(folder: Path, text: str = WHOLE, profile: str = "quick") -> Scenario:
    return load(written(folder, text), profile)


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_load_in_every_profile(path: Path, profile: str) -> None:
    """No profile of a shipped scenario can fail on the day somebody chooses it."""
    found = load(path, profile)
    assert found.cells or found.omit
    assert found.looks[0] >= 1
    assert (ROOT / f"tests/test_{found.claim}.py").is_file()
    if found.study:
        assert (ROOT / "scenarios/studies" / found.study / "index.toml").is_file()


def test_cells_are_the_product_of_the_axes(tmp_path: Path) -> None:
    """One cell per combination, each with its own load, limits and the budgets that match it."""
    found = made(tmp_path)
    assert [cell.id for cell in found.cells] == [
        f"made_up-{runtime}-connections={n}" for runtime in ("host", "runc", "kata") for n in (16, 64)
    ]
    kata = found.cells[-1]
    assert (kata.load.connections, kata.load.duration, kata.limits.cpu, kata.limits.memory) == (64, 10.0, 1.0, 2**31)
    assert [budget.text for budget in kata.budgets] == ["request_rate at least 0.5 x runtime=runc"]
    assert found.cells[0].budgets == ()
    assert [cell.id for cell in found.references[kata.id]] == ["made_up-runc-connections=64"]


def test_profiles_change_axes_load_and_rounds(tmp_path: Path) -> None:
    """A profile replaces the values it names and keeps the rest."""
    smoke, quick, standard = (made(tmp_path, profile=name) for name in ("smoke", "quick", "standard"))
    assert [cell.axes["connections"] for cell in smoke.cells] == ["16"] * 3
    assert smoke.cells[0].load.duration == 1.0
    assert smoke.cells[0].load.threads == 1
    assert (smoke.looks, quick.looks, standard.looks) == (LOOKS["smoke"], (6, 12), LOOKS["standard"])


def test_profile_can_leave_a_scenario_out_with_a_reason(tmp_path: Path) -> None:
    """An omitted scenario has no cells, and its reason can be told."""
    found = made(tmp_path, changed("rounds = [6, 12]", 'omit = "takes an hour"'))
    assert (found.cells, found.omit) == ((), "takes an hour")


def test_reference_outside_the_profile_is_still_measured(tmp_path: Path) -> None:
    """A profile without runc does not lose the runc cell that kata is compared with."""
    found = made(tmp_path, changed("rounds = [6, 12]", 'axes.runtime = ["kata"]'))
    assert [cell.axes["runtime"] for cell in found.references["made_up-kata-connections=16"]] == ["runc"]


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('title = "made up"', 'titel = "made up"', ["'titel'", "'title'"]),
        ('title = "made up"', "title = 1", ["title", "string"]),
        ('tool = "wrk"', 'tool = "wrk3"', ["'wrk3'", "'wrk"]),
        ('server = "nginx"', 'server = "ngnix"', ["'ngnix'", "'nginx'"]),
        ('server = "nginx"', 'server = "iperf"', ["wrk cannot measure", "'iperf'", "servers that fit: nginx"]),
        ("[axes]", '[axes]\ncolour = ["red"]', ["axes.colour"]),
        ("[axes]", "[axes]\nnetwork = []", ["axes.network"]),
        ("[axes]", '[axes]\nnetwork = ["calicoo"]', ["axes.network", "'calico'"]),
        ("[axes]", '[axes]\nplacement = ["same_node"]', ["axes.placement", "'same-node'"]),
        ("[axes]", '[axes]\nnetwork = ["a\\u0000b"]', ["axes.network", "printable"]),
        ('["host", "runc", "kata"]', '["host", "runc", "kata", "runc"]', ["axes.runtime", "twice"]),
        ("threads = 1", "thread = 1", ["'load.thread'", "'threads'"]),
        ('duration = "10s"', "duration = 10", ["duration", "no unit"]),
        ('duration = "10s"', 'duration = "10"', ["duration", "no unit"]),
        ('duration = "10s"', 'duration = "10 parsecs"', ["duration", "'parsecs' is no unit"]),
        ('duration = "10s"', 'duration = "10 MB"', ["duration", "s is wanted"]),
        ('duration = "10s"', "", ["load", "'duration' is missing"]),
        ("cpu = 1", "cpus = 1", ["limits", "'cpus'", "'cpu'"]),
        ("cpu = 1", "cpu = 0", ["limits", "cpu", "greater than 0"]),
        ("cpu = 1", "cpu = true", ["limits", "cpu"]),
        ("cpu = 1", "cpu = nan", ["limits", "cpu"]),
        ('memory = "2GiB"', "memory = 2", ["limits", "memory", "no unit"]),
        ("[profiles.smoke]", "[profiles.smoak]", ["profiles.smoak", "'smoke'"]),
        ("[profiles.smoke]", '[profiles.smoke]\nom1t = "x"', ["profiles.smoke.om1t", "'omit'"]),
        ("load.duration", "load.duratoin", ["profiles.smoke.load.duratoin", "'duration'"]),
        ("axes.connections", "axes.conections", ["profiles.smoke.axes.conections", "'connections'"]),
        ("rounds = [6, 12]", "rounds = [12, 6]", ["profiles.quick.rounds", "rising"]),
        ("rounds = [6, 12]", "rounds = [0, 6]", ["profiles.quick.rounds", "rising"]),
        ('metric = "request_rate"', 'metric = "request_rat"', ["budgets[0]", "'request_rate'"]),
        ('metric = "request_rate"', 'metric = "requests"', ["budgets[0]", "neither better"]),
        ('metric = "request_rate"', 'metrik = "request_rate"', ["'budgets.0.metrik'", "'metric'"]),
        ('metric = "request_rate"', 'metric = "packet_loss"', ["budgets[0]", "wrk never gives packet_loss"]),
        ('metric = "request_rate"', 'metric = "message_rate"', ["budgets[0]", "'request_rate'"]),
        ('metric = "request_rate"', 'metric = "request_rate_per_core"', ["budgets[0]", "per_core"]),
        ('metric = "request_rate"', 'metric = "latency_99"', ["budgets[0]", "'latency_p99'"]),
        ("at_least", "at_most", ["budgets[0]", "reward the worse"]),
        ("at_least", "atleast", ["budgets.0.atleast", "'at_least'"]),
        ('at_least = "0.5 x runtime=runc"', "", ["budgets[0]", "exactly one"]),
        ('"0.5 x runtime=runc"', '"0.5 x runtime=crunc"', ["budgets[0]", "'runc'"]),
        ('"0.5 x runtime=runc"', '"0.5 x runtme=runc"', ["budgets[0]", "'runtime'"]),
        ('"0.5 x runtime=runc"', '"0 x runtime=runc"', ["budgets[0]", "above zero"]),
        ('"0.5 x runtime=runc"', '"-5/s"', ["budgets[0]", "above zero"]),
        ('"0.5 x runtime=runc"', '"5 ms"', ["budgets[0]", "1/s is wanted"]),
        ('"0.5 x runtime=runc"', '"95 % of limit"', ["budgets[0]", "only throughput"]),
        ('"0.5 x runtime=runc"', '"fast"', ["budgets[0]", "a ratio is written"]),
        ('"0.5 x runtime=runc"', '"0.5 x runtime=kata"', ["budgets[0]", "matches no cell"]),
        ('where = { runtime = "kata" }', 'where = { runtime = "katta" }', ["budgets[0]", "matches no cell", "'kata'"]),
        ('where = { runtime = "kata" }', 'where = { runtme = "kata" }', ["budgets[0]", "where.runtme", "'runtime'"]),
        ('where = { runtime = "kata" }', 'targets = ["labs"]', ["budgets[0]", "targets", "'lab'"]),
        ("[[budgets]]", "[[budget]]", ["'budget'", "'budgets'"]),
        ('tool = "wrk"', 'tool = "wrk"\nsweep = "sizes"', ["sweep", "no axis"]),
        ('tool = "wrk"', 'tool = "wrk"\nsweep = "runtime"', ["sweep", "could sweep"]),
        ('tool = "wrk"', 'tool = "wrk"\nsweep = "connections"', ["load", "connections"]),
        ('tool = "wrk"', 'tool = "wrk"\nconditions = ["tracing"]', ["conditions", "'tracing'"]),
        ('tool = "wrk"', 'tool = "wrk"\nper_core = "cores"', ["per_core", "'cores'"]),
        ('tool = "wrk"', 'tool = "wrk"\nper_core = "runtime"', ["per_core", "no number of cores"]),
        ('tool = "wrk"', 'tool = "wrk"\ntolerated_errors = 0.1', ["tolerated_errors", "no unit"]),
        ('tool = "wrk"', 'tool = "wrk"\ntolerated_errors = "200 %"', ["tolerated_errors", "less than 1"]),
    ],
)
def test_every_slip_is_one_line_with_file_key_and_remedy(tmp_path: Path, old: str, new: str, names: list[str]) -> None:
    """A wrong scenario is refused before anything is measured, in words that lead to the slip."""
    with pytest.raises(ScenarioError) as caught:
        made(tmp_path, changed(old, new))
    message = str(caught.value)
    assert "\n" not in message
    for name in ("made_up.toml", *names):
        assert name in message


@pytest.mark.parametrize("tool", registry.keys("tools"))
def test_every_tool_declares_what_its_outputs_hold(tool: str) -> None:
    """No metric that a recorded output holds can be refused as one that its tool never gives."""
    module = registry.find("tools", tool)
    found: set[str] = set()
    for path in sorted((ROOT / "selftests/data" / tool).rglob("*.txt")):
        with suppress(ParseError):
            found |= {name for result in module.parse(path.read_text(errors="replace")) for name in result.metrics}
    assert found
    assert not [name for name in found if not any(fnmatchcase(name, pattern) for pattern in module.METRICS)]


def test_every_server_names_tools_that_exist() -> None:
    """A server's list of tools cannot hold a name that no tool has, and no tool is left without a server."""
    served = [tool for key in registry.keys("servers") for tool in registry.find("servers", key).TOOLS]
    assert set(served) == set(registry.keys("tools"))


def test_forgotten_budgets_are_an_error_and_none_is_said_on_purpose(tmp_path: Path) -> None:
    """A scenario cannot pass because somebody forgot its budgets."""
    bare = WHOLE[: WHOLE.index("[[budgets]]")]
    with pytest.raises(ScenarioError, match=r"'budgets' is missing; write `budgets = \[\]`"):
        made(tmp_path, bare)
    assert made(tmp_path, bare.replace('tool = "wrk"', 'tool = "wrk"\nbudgets = []')).cells[0].budgets == ()


def test_two_budgets_of_one_cell_need_different_bounds(tmp_path: Path) -> None:
    """A verdict is found by its budget's text, so no cell may have the same one twice."""
    doubled = WHOLE + WHOLE[WHOLE.index("[[budgets]]") :]
    with pytest.raises(ScenarioError, match="stands twice for made_up-kata"):
        made(tmp_path, doubled)


def test_bare_numbers_bound_counts(tmp_path: Path) -> None:
    """A count has no unit to forget."""
    text = changed('"request_rate"', '"errors_timeout"').replace('at_least = "0.5 x runtime=runc"', 'at_most = "5"')
    assert made(tmp_path, text).cells[-1].budgets[0].text == "errors_timeout at most 5"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe\x00title",
        b"title = 'a\x00b'",
        b"title = " + b"[" * 20_000,
        b"a = " + b"{a = " * 3_000,
        b"# " + b"x" * 2_000_000,
        b"[" * 10 + b"\n",
        bytes(range(256)),
    ],
    ids=["empty", "nul", "utf-16", "nul in text", "arrays", "tables", "huge", "brackets", "binary"],
)
def test_strange_files_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    """Whatever lies in the folder ends in one line, never in a traceback or a hang."""
    with pytest.raises(ScenarioError) as caught:
        load(written(tmp_path, content))
    assert "made_up.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_scenarios_raise_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    """Any damage to a shipped scenario gives a scenario or a ScenarioError."""
    raw = data.draw(st.sampled_from(SHIPPED)).read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    end = data.draw(st.integers(at, min(len(raw), at + 30)))
    damaged = raw[:at] + data.draw(st.binary(max_size=8)) + raw[end:]
    try:
        assert load(written(tmp_path, damaged)).path.stem == "made_up"
    except ScenarioError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


def test_endless_axes_are_an_error_not_a_hang(tmp_path: Path) -> None:
    """More cells than anybody can measure are refused before they are made."""
    values = json.dumps([str(n) for n in range(1, 201)])
    text = changed('connections = ["16", "64"]', f"connections = {values}\ncpu = {values}")
    with pytest.raises(ScenarioError, match="make 120000 cells, more than 10000"):
        made(tmp_path, text)


def test_cells_never_share_a_name(tmp_path: Path) -> None:
    """Names are test ids and folders; two cells of one name would overwrite each other."""
    text = changed("[limits]", 'tracing = ["a-b", "a"]\nside = ["c", "b-c"]\n[limits]')
    text = text.replace('tool = "wrk"', 'tool = "wrk"\nconditions = ["tracing", "side"]')
    with pytest.raises(ScenarioError, match="two cells are both called"):
        made(tmp_path, text)
    long = changed("[limits]", f'tracing = ["{"a" * 300}"]\n[limits]').replace(
        '= "wrk"', '= "wrk"\nconditions = ["tracing"]'
    )
    with pytest.raises(ScenarioError, match="characters"):
        made(tmp_path, long)


def test_files_are_named_like_marks(tmp_path: Path) -> None:
    """The file's name becomes a mark, a test id and a folder."""
    with pytest.raises(ScenarioError, match="letters, digits and underscores"):
        load(written(tmp_path, WHOLE, "made-up scenario"))


def test_sweep_is_one_valid_load(tmp_path: Path) -> None:
    """Cells swept by the tool know their axis and differ in nothing else."""
    found = load(ROOT / "scenarios/socket_1c2g.toml", "study")
    assert {cell.sweep for cell in found.cells} == {"message_size"}
    assert len({cell.slot_key for cell in found.cells}) * 4 == len(found.cells)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('title = "made up"', 'title = "renamed"  # and a comment'),
        ('claim = "request_capacity"', 'study = "000"\nclaim = "request_capacity"'),
        ('duration = "10s"', 'duration = "10000 ms"'),
        ('connections = ["16", "64"]', 'connections = ["64", 16]'),
        ("[profiles.smoke]", "[profiles.standard]"),
        ('at_least = "0.5 x', 'set_for = "kata 3"\nat_least = "0.50 x'),
    ],
)
def test_digest_ignores_how_the_question_is_put(tmp_path: Path, old: str, new: str) -> None:
    """A run can be resumed after a comment, a title or a way of writing changed."""
    assert made(tmp_path, changed(old, new)).digest == made(tmp_path).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"host", "runc"', '"runc"'),
        ("threads = 1", "threads = 2"),
        ('duration = "10s"', 'duration = "11s"'),
        ("cpu = 1", "cpu = 2"),
        ("[6, 12]", "[6, 10]"),
        ("[6, 12]", "[6, 12]\nload.threads = 2"),
        ("0.5 x", "0.6 x"),
        ("x runtime=runc", "x runtime=host"),
        ('where = { runtime = "kata" }', 'where = { runtime = ["kata", "host"] }'),
        ('where = { runtime = "kata" }', 'where = { runtime = "kata" }\ntargets = ["lab"]'),
        ('tool = "wrk"', 'tool = "wrk"\nclient = "node"'),
        ('tool = "wrk"', 'tool = "wrk"\ntolerated_errors = "1 %"'),
        ('runtime = ["host", "runc", "kata"]\nconnections = ["16", "64"]',
         'connections = ["16", "64"]\nruntime = ["host", "runc", "kata"]'),
    ],
)  # fmt: skip
def test_digest_changes_with_the_question(tmp_path: Path, old: str, new: str) -> None:
    """A run cannot be resumed into another question."""
    assert made(tmp_path, changed(old, new)).digest != made(tmp_path).digest


def test_names_and_profiles_that_do_not_exist(tmp_path: Path) -> None:
    """A misspelt option names the nearest that there is; an empty folder is no silent success."""
    with pytest.raises(UsageError, match="'quik'; did you mean 'quick'"):
        load_all(ROOT / "scenarios", "quik")
    with pytest.raises(UsageError, match="did you mean 'http_rate'"):
        load_all(ROOT / "scenarios", "quick", ["http_rates"])
    with pytest.raises(UsageError, match="holds no scenario"):
        load_all(tmp_path)
    assert [s.name for s in load_all(ROOT / "scenarios", names=["http_rate", "http_rate"])] == ["http_rate"]


def test_checked_in_schema_is_the_generated_one() -> None:
    """Editors complete from a file that cannot grow stale."""
    assert (ROOT / "scenarios/schema.json").read_text() == scenario.schema(), (
        "run: weighbridge schema scenario > scenarios/schema.json"
    )


@pytest.mark.skipif(importlib.util.find_spec("jsonschema") is None, reason="jsonschema is not installed")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_fit_the_schema(path: Path) -> None:
    """An editor that knows the schema underlines nothing in a shipped scenario."""
    jsonschema: Any = importlib.import_module("jsonschema")
    jsonschema.validate(tomllib.loads(path.read_text()), json.loads(scenario.schema()))


def top(line: str) -> str:
    """The scenario with one more line above its tables."""
    return changed('server = "nginx"\n', f'server = "nginx"\n{line}\n')


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('cpus = "split"', "cpus", "split"),
        ('link_rate = "100 Mbit/s"', "link_rate", 100e6),
        ('link_rate = "unshaped"', "link_rate", None),
        ("fresh_server = true", "fresh_server", True),
        ("allow_substitutes = true", "allow_substitutes", True),
        ("", "link_rate", 1e9),
        ("", "cpus", "free"),
    ],
)
def test_how_a_cell_is_stood_up_is_said_in_its_scenario(tmp_path: Path, line: str, field: str, value: object) -> None:
    """Placement, link rate and the like reach every cell, and what is not said has one known value."""
    found = made(tmp_path, top(line))

    assert {getattr(cell, field) for cell in found.cells} == {value}
    if line:
        assert found.digest != made(tmp_path).digest or value == 1e9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('cpus = "pinned"', "cpus"),
        ('link_rate = "fast"', "link_rate"),
        ('link_rate = "10"', "link_rate"),
        ('link_rate = "0 Mbit/s"', "carries nothing"),
        ('link_rate = "5 s"', "bit/s is wanted"),
        ("fresh_server = 1", "fresh_server"),
    ],
)
def test_impossible_ways_to_stand_up_are_refused(tmp_path: Path, line: str, message: str) -> None:
    """A slip of the pen is one line that names file and key, not a default."""
    with pytest.raises(ScenarioError, match=message):
        made(tmp_path, top(line))


def test_placement_and_link_rate_can_be_axes(tmp_path: Path) -> None:
    """How much a placement or a link matters is a question like any other."""
    text = changed('connections = ["16", "64"]', 'cpus = ["shared", "split"]\nlink_rate = ["1 Gbit/s", "unshaped"]')
    text = text.replace('axes.connections = ["16"]\n', "").replace("threads = 1\n", "threads = 1\nconnections = 16\n")

    found = {(cell.cpus, cell.link_rate) for cell in made(tmp_path, text).cells}

    assert found == {("shared", 1e9), ("shared", None), ("split", 1e9), ("split", None)}
    with pytest.raises(ScenarioError, match=r"axes\.cpus: 'spilt' is unknown; did you mean 'split'"):
        made(tmp_path, text.replace('"split"', '"spilt"'))
    with pytest.raises(ScenarioError, match=r"axes\.link_rate"):
        made(tmp_path, text.replace('"unshaped"', '"fast"'))
    with pytest.raises(UsageError, match="leave one of them out"):
        load(written(tmp_path, text), "quick", "10 Gbit/s")


def test_link_rate_of_the_command_line_comes_first(tmp_path: Path) -> None:
    """One option sets the link of every scenario; a rate that is none is refused."""
    path = written(tmp_path, top('link_rate = "100 Mbit/s"'))

    assert {cell.link_rate for cell in load(path, "quick", "unshaped").cells} == {None}
    assert {cell.link_rate for cell in load_all(tmp_path, "quick", line_rate="10 Gbit/s")[0].cells} == {10e9}
    with pytest.raises(UsageError, match="'quick'"):
        load(path, "quick", "quick")


def test_request_is_within_its_limit(tmp_path: Path) -> None:
    """A request above its limit is refused, as an API server would."""
    asked = changed("cpu = 1\n", "cpu = 60\nrequest_cpu = 1\n")

    assert made(tmp_path, asked).cells[0].limits.request_cpu == 1
    with pytest.raises(ScenarioError, match="request_cpu is more than the limit cpu"):
        made(tmp_path, asked.replace("cpu = 60", "cpu = 0.5"))


def test_start_up_is_only_judged_of_fresh_servers(tmp_path: Path) -> None:
    """A server that stands for the whole run has one start, which no budget can be decided on."""
    text = changed('metric = "request_rate"', 'metric = "start_up_time"').replace("at_least", "at_most")

    with pytest.raises(ScenarioError, match="fresh_server = true"):
        made(tmp_path, text)
    fresh = text.replace('server = "nginx"\n', 'server = "nginx"\nfresh_server = true\n')
    assert made(tmp_path, fresh).cells[-1].budgets[0].metric == "start_up_time"
