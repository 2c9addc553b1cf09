from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from weighbridge import measure as engine
from weighbridge.errors import CommandError, ParseError, StandError
from weighbridge.measure import Group, Look, Measured, Slot, group_cells, measure, samples_of
from weighbridge.model import Cell, PhysicalLimit, Sample, Status
from weighbridge.stand import Reading
from weighbridge.tools import Result, iperf, ping, qperf, wrk, wrk2

GOOD = {"requests": 1000.0, "duration": 2.0, "request_rate": 500.0, "latency_mean": 0.002}
UDP = iperf.Load.model_validate({"udp": True, "bandwidth": "200 Mbit/s", "duration": "2s"})
Script = Callable[[Cell, int, int], Reading]
"""(cell, round, how often it was read before in that round) → what the tool gave."""


def cell(runtime: str = "host", **axes: str) -> Cell:
    load = wrk.Load.model_validate({"threads": 1, "connections": 16, "duration": "2s"})
    return Cell("http", {"runtime": runtime, **axes}, "wrk", "nginx", load)


def reading(problem: str | None = None, **changes: float) -> Reading:
    return Reading(("wrk",), "raw", 2.0, problem, (Result({}, {**GOOD, **changes}),))


@dataclass
class ScriptedStand:
    """A stand that answers from a script and remembers what was asked."""

    script: Script
    asked: list[tuple[str, int]]
    proof: str | None = None
    closed: bool = False
    limit: PhysicalLimit | None = None
    caveat: str | None = None
    rounds: Sequence[int] | None = None

    def read(self, cell: Cell, load: Any, number: int) -> Reading:
        before = self.asked.count((cell.id, number))
        self.asked.append((cell.id, number))
        return self.script(cell, number, before)

    def evidence(self) -> Mapping[str, str]:
        return {"kernel": "6.1"}

    def unproven(self) -> str | None:
        return self.proof

    def close(self) -> None:
        self.closed = True


@dataclass
class Bench:
    """A scripted site: stands come up from `script` unless `broken` says why not."""

    script: Script = lambda cell, number, before: reading()
    broken: dict[str, str] = field(default_factory=dict)
    proofs: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, Sequence[int]] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    stands: list[ScriptedStand] = field(default_factory=list)
    events: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def stand_up(self, site: object, cell: Cell) -> ScriptedStand:
        runtime = cell.axes["runtime"]
        if runtime in self.broken:
            raise StandError(self.broken[runtime])
        stand = ScriptedStand(self.script, self.asked, self.proofs.get(runtime), rounds=self.rounds.get(runtime))
        self.stands.append(stand)
        return stand

    def slot_started(self, group: Group, slot: Slot, number: int, planned: float) -> None:
        pass

    def slot_read(self, group: Group, slot: Slot, number: int, attempt: int, reading: Reading) -> None:
        self.events.append(("read", (slot.name, number, attempt)))

    def round_finished(self, group: Group, number: int, samples: Mapping[str, Sequence[Sample]]) -> None:
        self.events.append(("round", (number, sorted(samples))))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Measured]]:
    def run(
        bench: Bench,
        *cells: Cell,
        looks: tuple[int, ...] = (6,),
        seed: int = 1,
        decide: Callable[[Look, Mapping[str, Measured]], bool] = lambda look, known: False,
        done: Mapping[int, Mapping[str, Sequence[Sample]]] | None = None,
    ) -> dict[str, Measured]:
        monkeypatch.setattr(engine, "stand_up", bench.stand_up)
        monkeypatch.setattr(engine, "stand_key", lambda site, cell: cell.stand_key)
        group = Group("group", tuple(Slot((c,)) for c in cells), looks)
        site: Any = None
        return measure(group, site, random.Random(seed), observer=bench, decide=decide, done=done or {})

    return run


@dataclass
class Looks:
    """Decides at once and remembers when it was asked."""

    taken: list[Look] = field(default_factory=list)

    def __call__(self, look: Look, known: Mapping[str, Measured]) -> bool:
        self.taken.append(look)
        return True


Run = Callable[..., dict[str, Measured]]


def orders(bench: Bench) -> list[list[str]]:
    """The order in which each round asked its members."""
    found: dict[int, list[str]] = {}
    for name, number in bench.asked:
        found.setdefault(number, []).append(name)
    return list(found.values())


def test_rounds_are_shuffled_and_the_seed_repeats_them(run: Run) -> None:
    """Drift of the machine must not favour a member, and a run can be repeated in the same order."""
    members = [cell(name) for name in ("host", "runc", "gvisor", "kata")]
    first, again, other = Bench(), Bench(), Bench()
    for bench, seed in ((first, 1), (again, 1), (other, 2)):
        run(bench, *members, looks=(10,), seed=seed)
    assert orders(first) == orders(again)
    assert orders(first) != orders(other)
    assert len({tuple(order) for order in orders(first)}) > 3
    assert all(sorted(order) == sorted(c.id for c in members) for order in orders(first))
    assert {order[0] for order in orders(first)} == {c.id for c in members}


def test_resumed_rounds_are_never_measured_again(run: Run) -> None:
    """Finished rounds count, and the rest goes on in the order it would have had."""
    members = (cell("host"), cell("runc"))
    whole, rest = Bench(), Bench()
    known = run(whole, *members)
    done = {n: {c.id: [s for s in known[c.id].samples if s.round == n] for c in members} for n in range(4)}
    resumed = run(rest, *members, done={**done, 3: {**done[3], "http-gone": done[3]["http-host"]}})
    assert {number for _, number in rest.asked} == {4, 5}
    assert rest.asked == [pair for pair in whole.asked if pair[1] >= 4]
    assert sorted(resumed["http-runc"].valid("request_rate")) == [0, 1, 2, 3, 4, 5]


def test_finished_measurement_is_only_judged_when_resumed(run: Run) -> None:
    """A group whose rounds are used up is decided from what is stored, without a tool run."""
    bench, looks = Bench(), Looks()
    done = {n: {"http-host": [Sample("request_rate", "1/s", n, 1.0)]} for n in range(6)}
    run(bench, cell(), done=done, decide=looks)
    assert bench.asked == []
    assert looks.taken == [Look(1, 1)]


def test_measuring_stops_at_the_look_that_decides(run: Run) -> None:
    """Budgets decided early cost no more rounds, and between looks nobody peeks."""
    bench, seen = Bench(), []

    def decide(look: Look, known: Mapping[str, Measured]) -> bool:
        seen.append((look, len(known["http-host"].valid("request_rate"))))
        return look.number == 2

    run(bench, cell(), looks=(6, 10, 14), decide=decide)
    assert seen == [(Look(1, 3), 6), (Look(2, 3), 10)]
    assert len(bench.asked) == 10


def test_last_look_is_taken_even_when_everything_was_given_up(run: Run) -> None:
    """Budgets get their verdict also when rounds ended early."""
    looks = Looks()
    bench = Bench(script=lambda cell, number, before: reading("exit 1"))
    run(bench, cell(), looks=(6, 10), decide=looks)
    assert looks.taken == [Look(2, 2)]


def test_invalid_slot_repeats_the_whole_round(run: Run) -> None:
    """Repeating only the bad member would compare figures of different moments."""

    def script(cell: Cell, number: int, before: int) -> Reading:
        bad = cell.axes["runtime"] == "runc" and number == 2 and before == 0
        return reading(errors_read=500.0) if bad else reading()

    bench = Bench(script)
    known = run(bench, cell("host"), cell("runc"))
    assert bench.asked.count(("http-host", 2)) == bench.asked.count(("http-runc", 2)) == 2
    assert len(bench.asked) == 14
    assert {told[1] for kind, told in bench.events if kind == "read" and told[2] == 2} == {2}
    assert all(m.problem is None and len(m.valid("request_rate")) == 6 for m in known.values())
    assert [s.round for s in known["http-host"].samples if s.metric == "requests"] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("bad", "status", "reason"),
    [
        (reading("wrk: exit 1: unable to connect"), Status.INFRA_ERROR, "unable to connect"),
        (reading(errors_read=500.0), Status.INVALID, "500 errors in 1000 requests, more than 0.1 %"),
        (reading(duration=1.5), Status.INVALID, "ended after 1.5 s of 2 s"),
        (reading(request_rate=float("nan")), Status.INVALID, "request_rate is nan"),
        (Reading(("wrk",), "unable to connect to 198.18.0.2", 2.0), Status.INVALID, ""),
    ],
)
def test_too_many_repeats_give_up_the_bad_slot_alone(run: Run, bad: Reading, status: Status, reason: str) -> None:
    """A member that stays bad is invalid or an infrastructure error with its reason; the others are measured on."""
    bench = Bench(lambda cell, number, before: bad if cell.axes["runtime"] == "runc" else reading())
    known = run(bench, cell("host"), cell("runc"), looks=(10,))
    problem = known["http-runc"].problem
    assert problem is not None
    assert problem[0] is status
    assert reason in problem[1]
    assert known["http-runc"].samples == []
    # One reading and a fifth of ten rounds as repeats.
    assert len([1 for name, _ in bench.asked if name == "http-runc"]) == 3
    assert known["http-host"].problem is None
    assert len(known["http-host"].valid("request_rate")) == 10


def test_stand_that_cannot_be_asked_is_an_infrastructure_error(run: Run) -> None:
    """A command that fails around the tool ends in a reason for this cell, not in a broken run."""

    def script(cell: Cell, number: int, before: int) -> Reading:
        raise CommandError("ip link: no such device")

    problem = run(Bench(script), cell())["http-host"].problem
    assert problem == (Status.INFRA_ERROR, "ip link: no such device")


def test_server_that_does_not_stand_up_leaves_the_others(run: Run) -> None:
    """One runtime's failure is not the group's; every stand is closed in the end."""
    bench = Bench(broken={"kata": "no answer in 10 s"})
    known = run(bench, cell("host"), cell("kata"))
    assert known["http-kata"].problem == (Status.INFRA_ERROR, "no answer in 10 s")
    assert len(known["http-host"].valid("request_rate")) == 6
    assert [stand.closed for stand in bench.stands] == [True]


def test_claim_without_its_evidence_is_invalid(run: Run) -> None:
    """Figures of a stand that does not prove its runtime are not judged; the evidence is kept."""
    known = run(Bench(proofs={"runc": "no sandbox process"}), cell("host"), cell("runc"))
    assert known["http-runc"].problem == (Status.INVALID, "unproven: no sandbox process")
    assert known["http-runc"].evidence == {"kernel": "6.1"}
    assert known["http-host"].problem is None


def test_recorded_rounds_are_read_once_each(run: Run) -> None:
    """Recordings are taken as they are: those of one round pair up, none is repeated or invented."""
    bench = Bench(rounds={"host": (0, 1), "kata": (1,)})
    known = run(bench, cell("host"), cell("kata"))
    assert sorted(bench.asked) == [("http-host", 0), ("http-host", 1), ("http-kata", 1)]
    assert list(known["http-kata"].valid("request_rate")) == [1]


def test_stands_are_closed_when_the_run_is_interrupted(run: Run) -> None:
    """Ctrl-C in the middle of a tool run leaves no server behind."""

    def script(cell: Cell, number: int, before: int) -> Reading:
        raise KeyboardInterrupt

    bench = Bench(script)
    with pytest.raises(KeyboardInterrupt):
        run(bench, cell("host"), cell("runc"))
    assert [stand.closed for stand in bench.stands] == [True, True]


def test_cells_and_their_references_form_one_group() -> None:
    """Whatever budgets compare, directly or through a third cell, is measured in the same rounds."""
    host, runc, kata, lone = cell("host"), cell("runc"), cell("kata"), cell("gvisor")
    groups = group_cells([runc, kata, lone], {runc.id: [host], kata.id: [runc]}, {"http": (6,)})
    assert [sorted(c.id for c in group.cells) for group in groups] == [
        ["http-host", "http-kata", "http-runc"],
        ["http-gvisor"],
    ]


def test_selecting_one_cell_brings_only_its_references() -> None:
    """`-k kata` measures kata and what it is compared with, nothing else."""
    groups = group_cells([cell("kata")], {"http-kata": [cell("runc")]}, {"http": (6, 10)})
    assert [[c.id for c in group.cells] for group in groups] == [["http-kata", "http-runc"]]
    assert groups[0].looks == (6, 10)


def swept(size: str) -> Cell:
    text = {"tests": ["tcp_lat"], "duration": "1s"}
    load = qperf.Load.model_validate({**text, "message_size": size})
    axes = {"runtime": "host", "message_size": size, "placement": "same-node"}
    return Cell("socket", axes, "qperf", "qperf", load, text, sweep="message_size")


def test_swept_cells_share_one_tool_run() -> None:
    """Cells of one sweep are one slot with one load, named by what they have in common."""
    group = group_cells([swept("1B"), swept("64B")], {}, {"socket": (1,)})[0]
    assert [slot.name for slot in group.slots] == ["socket-host-*-same-node"]
    assert group.slots[0].load.message_size == [1.0, 64.0]
    single = group_cells([swept("64B")], {}, {"socket": (1,)})[0].slots[0]
    assert single.name == "socket-host-64B-same-node"


def test_rate_that_is_not_reached_hides_latency_only() -> None:
    """Latency of a saturated open loop grows with time and is not judged; its rate is."""
    load = wrk2.Load.model_validate({"threads": 1, "connections": 10, "duration": "2s", "rate": "1000/s"})
    one = Cell("ladder", {"rate": "1000/s"}, "wrk2", "nginx", load)
    for rate, hidden in ((500.0, True), (0.0, True), (995.0, False)):
        samples = samples_of(Slot((one,)), reading(request_rate=rate), 0)[one.id]
        reasons = {sample.metric: sample.invalid for sample in samples}
        assert (reasons["latency_mean"] is not None) is hidden
        assert reasons["request_rate"] is None


def test_share_of_errors_is_that_of_the_scenario() -> None:
    """Up to the tolerated share a run counts; errors without any request never do."""
    for errors, requests, doubted in ((1.0, 1000.0, False), (2.0, 1000.0, True), (1.0, 0.0, True)):
        samples = samples_of(Slot((cell(),)), reading(errors_timeout=errors, requests=requests), 0)["http-host"]
        assert all((sample.invalid is not None) is doubted for sample in samples)


def test_rate_per_core_is_derived_where_cores_are_known() -> None:
    """The rate is divided by the cores given to the component under budget."""
    one = Cell("http", {"cores": "4"}, "wrk", "nginx", cell().load, per_core=4.0)
    samples = {s.metric: s.value for s in samples_of(Slot((one,)), reading(), 0)[one.id]}
    assert samples["request_rate_per_core"] == 125.0


def test_negative_figures_are_no_samples() -> None:
    """A parser's slip cannot reach a verdict."""
    with pytest.raises(ParseError, match="latency_mean is -1"):
        samples_of(Slot((cell(),)), reading(latency_mean=-1.0), 0)


def test_throughput_beyond_the_wire_is_invalid() -> None:
    """A link that lets more through than it can carry was not shaped, and what crossed it is no figure."""
    asked = cell()

    def sample(throughput: float, carries: float, *, live: bool = True) -> Sample:
        results = (Result({}, {"throughput": throughput}),)
        found = Reading(("wrk",), "raw", 2.0, None, results, live=live, carries=carries)
        return samples_of(Slot((asked,)), found, 0)[asked.id][0]

    assert sample(941e6, 941.48e6).invalid is None
    assert sample(950e6, 941.48e6).invalid is None
    assert "more than the link can have carried" in str(sample(955e6, 941.48e6).invalid)
    assert sample(5e9, math.inf).invalid is None
    assert sample(955e6, 941.48e6, live=False).invalid is None


@pytest.mark.parametrize(
    ("load", "figures", "reason"),
    [
        (ping.Load(count=100), {"round_trip_time_mean": 1e-3, "packet_loss": 0.0}, None),
        (ping.Load(count=100), {"round_trip_time_mean": 1e-3, "packet_loss": 0.04}, None),
        (ping.Load(count=100), {"round_trip_time_mean": 1e-3, "packet_loss": 0.95}, "95 % of the packets"),
        (UDP, {"throughput": 200e6, "packet_loss": 0.0}, None),
        (UDP, {"throughput": 180e6, "packet_loss": 0.1}, None),
        (UDP, {"throughput": 60e6, "packet_loss": 0.0}, "60.00 Mbit/s of the 200 Mbit/s asked for were sent"),
    ],
)
def test_what_was_not_sent_or_did_not_come_back_is_no_figure(
    load: Any, figures: Mapping[str, float], reason: str | None
) -> None:
    """Five answers of a hundred are no round trip, and datagrams that were never sent cannot be lost."""
    asked = replace(cell(), load=load)

    found = samples_of(Slot((asked,)), Reading(("x",), "raw", 2.0, None, (Result({}, figures),)), 0)[asked.id]

    assert all((reason is None and s.invalid is None) or (reason and reason in str(s.invalid)) for s in found)
