"""RDMA as a load's need: what is asked of a machine, what is made on its nodes, and the reason where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from weighbridge import registry
from weighbridge.errors import CommandError
from weighbridge.features import infiniband, rdma
from weighbridge.hosts import Node
from weighbridge.model import Cell
from weighbridge.scenario import load
from weighbridge.shell import Finished, LocalShell, Process
from weighbridge.stand import stand_key, stand_up, unavailable
from weighbridge.targets import Request, lab

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@dataclass
class Told:
    """A machine whose answers are told beforehand, by the beginning of the command; it notes what was typed."""

    answers: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True, given: str = "") -> Finished:
        command = " ".join(argv)
        self.typed.append(command)
        code, text = next((told for start, told in self.answers.items() if command.startswith(start)), (0, ""))
        done = Finished(tuple(argv), code, "" if code else text, text if code else "", 0.0)
        if check and code:
            raise CommandError(done.explain())
        return done

    def start(self, argv: Sequence[str]) -> Process:
        raise NotImplementedError

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}"


def links(*found: Mapping[str, object]) -> dict[str, tuple[int, str]]:
    return {"rdma -json link show": (0, json.dumps(found))}


def cell(tests: str, **axes: str) -> Cell:
    found = next(c for c in load(SCENARIOS / "rdma.toml", "smoke").cells if c.axes["tests"] == tests)
    return replace(found, axes={**found.axes, **axes})


def node(shell: Told) -> Node:
    return Node("node1", 1, shell, "198.18.0.1", "eth0", 1500)


def test_kernel_without_rdma_is_a_skip_in_one_line() -> None:
    """The reason names what is missing and what the kernel said; the probe's own device is removed."""
    shell = Told({"rdma -json": (0, "[]"), "rdma link add": (2, "error: Invalid argument\n")})

    reason = rdma.unavailable(shell, cell("rc_lat"))

    assert reason == ("this kernel has no RDMA device and no Soft-RoCE (rdma_rxe): error: Invalid argument")
    assert shell.typed[-1] == "ip link delete wbprobe"


def test_an_adapter_or_soft_roce_will_do() -> None:
    """An RDMA device on an Ethernet device is taken as it is, and where none is, one that can be made."""
    adapter = Told(links({"ifname": "mlx5_0", "netdev": "eth0"}))
    soft = Told({"rdma -json": (0, "[]")})

    assert rdma.unavailable(adapter, cell("rc_lat")) is None
    assert not any("add" in command for command in adapter.typed)
    assert rdma.unavailable(soft, cell("rc_lat")) is None
    assert soft.typed[-2:] == ["rdma link delete rxe-wbprobe", "ip link delete wbprobe"]


@pytest.mark.parametrize(("axis", "value"), [("network", "calico"), ("runtime", "runc")])
def test_pods_and_sandboxes_have_no_rdma(axis: str, value: str) -> None:
    """A cell whose server cannot reach its node's devices says so, and what to use instead."""
    for feature in (rdma, infiniband):
        reason = str(feature.unavailable(Told(), cell("rc_lat", **{axis: value})))
        assert value in reason
        assert reason.endswith(f"use {axis} = host")


def test_unreliable_transports_need_a_lid() -> None:
    """The UD, UC and XRC tests of qperf cannot find a RoCE device, so only InfiniBand proper lets them run."""
    roce = Told(links({"ifname": "mlx5_0", "netdev": "eth0"}))
    proper = Told(links({"ifname": "ib0", "lid": 13}))

    assert "LID" in str(infiniband.unavailable(roce, cell("rc_lat")))
    assert infiniband.unavailable(proper, cell("rc_lat")) is None


def test_nodes_get_soft_roce_for_a_stand() -> None:
    """Every node without a device gets one on its own link, named after the run, and loses it with the stand."""
    bare, equipped = Told({"rdma -json": (0, "[]")}), Told(links({"ifname": "mlx5_0", "netdev": "eth0"}))

    remove = rdma.provide([node(bare), node(equipped)], "run-1")
    assert bare.typed[-1] == "rdma link add rxe-run-1-node1 type rxe netdev eth0"
    remove()

    assert bare.typed[-1] == "rdma link delete rxe-run-1-node1"
    assert equipped.typed == ["rdma -json link show"]


def test_half_a_pair_is_undone() -> None:
    """When the second node cannot have a device the first loses its own again."""
    first, second = Told({"rdma -json": (0, "[]")}), Told({"rdma -json": (0, "[]"), "rdma link add": (2, "refused")})

    with pytest.raises(CommandError, match="refused"):
        rdma.provide([node(first), node(second)], "run-1")
    assert first.typed[-1] == "rdma link delete rxe-run-1-node1"


def test_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without `rdma` says what to install."""
    monkeypatch.setattr(Told, "which", lambda self, program: None)

    assert "apt-get install iproute2" in str(rdma.unavailable(Told(), cell("rc_lat")))


@pytest.fixture
def site() -> Iterator[lab.Lab]:
    """A lab of its own."""
    if reason := lab.unavailable():
        pytest.skip(reason)
    with lab.open_site(Request("selftest", SCENARIOS)) as opened:
        yield opened


def test_cells_of_other_needs_get_other_stands(site: lab.Lab) -> None:
    """A stand made for TCP has no RDMA device, so an RDMA cell never shares it."""
    assert stand_key(site, cell("rc_lat")) != stand_key(site, cell("tcp_lat"))
    assert stand_key(site, cell("rc_lat")) == stand_key(site, cell("rc_bw"))


def test_what_one_cell_lacks_another_may_have(site: lab.Lab) -> None:
    """In one run TCP cells are measured while the RDMA cells beside them are skipped with their own reason."""
    reason = unavailable(site, cell("rc_lat"))
    if reason is None:
        pytest.skip("this machine has RDMA")
    command = [
        *(sys.executable, "-m", "pytest", "tests", "--target", "lab", "--scenario", "rdma"),
        "--profile",
        "smoke",
    ]

    done = subprocess.run(
        [*command, "--plan"],
        cwd=SCENARIOS.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    measured, _, skipped = done.stdout.partition(f"skipped: {reason}\n")
    assert measured.count("rdma-host-cross-node-tcp") == 2, done.stdout + done.stderr
    assert skipped.count("rdma-host-cross-node-rc") == 4, done.stdout


@pytest.mark.parametrize("path", ["cluster-ip", "node-port"])
def test_services_translate_no_rdma_and_no_icmp(site: lab.Lab, path: str) -> None:
    """A load without ports through a service would measure something else: the cell is not run, with the reason."""
    ping = next(iter(load(SCENARIOS / "network_round_trip.toml", "smoke").cells))

    for asked, traffic in ((cell("rc_lat"), "RDMA"), (replace(ping, axes={"network": "calico"}), "ICMP")):
        reason = unavailable(site, replace(asked, axes={**asked.axes, "path": path}))
        assert reason == f"{path} translates TCP and UDP alone, and the {asked.tool} load sends {traffic}"


@pytest.mark.parametrize("tests", ["rc_lat", "rc_bw", "rc_rdma_write_lat", "rc_rdma_write_bw"])
def test_rdma_runs_where_the_kernel_has_it(site: lab.Lab, tests: str) -> None:
    """With Soft-RoCE or an adapter a stand measures RDMA; the probe itself leaves no device."""
    asked = cell(tests)
    before = LocalShell().run(["ip", "-brief", "link"]).stdout
    reason = unavailable(site, asked)
    assert LocalShell().run(["ip", "-brief", "link"]).stdout == before
    if reason:
        pytest.skip(reason)
    stand = stand_up(site, asked)
    try:
        reading = stand.read(asked, asked.load, 0)
        tool = registry.find("tools", "qperf")
        assert reading.problem is None
        assert tool.select(tool.parse(reading.output), asked.load)
        assert stand.unproven() is None
    finally:
        stand.close()
