"""Weights and folders of cgroups: what runtimes convert a CPU request to, and what a run that ends leaves others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weighbridge import cgroups
from weighbridge.model import Limits


@pytest.mark.parametrize(
    ("request_cpu", "shares"), [(1.0, 1024), (0.25, 256), (0.0005, 2), (0.001, 2), (60.0, 61440), (1000.0, 262144)]
)
def test_shares_are_those_of_kubernetes(request_cpu: float, shares: int) -> None:
    """1024 for one CPU, in whole thousandths of a CPU, never below the kernel's least nor above its most."""
    assert cgroups.shares(request_cpu) == shares


@pytest.mark.parametrize(
    ("request_cpu", "linear", "curved"), [(1.0, 39, 100), (0.001, 1, 1), (1000.0, 10000, 10000), (0.25, 10, 35)]
)
def test_weights_of_version_2(monkeypatch: pytest.MonkeyPatch, request_cpu: float, linear: int, curved: int) -> None:
    """Both conversions that runtimes use are accepted, and they meet at the ends of the scale."""
    monkeypatch.setattr(cgroups, "version", lambda: 2)
    assert cgroups.weights_for(request_cpu) == {f"cpu.weight {linear}", f"cpu.weight {curved}"}


def test_runs_that_end_take_no_folder_from_one_that_starts() -> None:
    """Once reserved, the folder above a sandbox's cgroup outlives the end of every other run."""
    if reason := cgroups.unavailable():
        pytest.skip(reason)
    mine, other = (cgroups.path_of(f"selftest-{name}-{os.getpid()}", "pod1") for name in ("mine", "other"))
    try:
        cgroups.reserve(mine)
        cgroups.reserve(other)
        cgroups.remove(other)
        above = [(root / mine[1:]).parent for root in cgroups.hierarchies()]
        assert any(folder.is_dir() for folder in above)
        assert not any((root / other[1:]).parent.exists() for root in cgroups.hierarchies())
        if cgroups.version() == 1 and cgroups.controls("cpuset"):
            folder = (cgroups.ROOT / "cpuset" / mine[1:]).parent
            assert (folder / "cpuset.cpus").read_text().strip()
            assert (folder / "cpuset.mems").read_text().strip()
    finally:
        cgroups.remove(mine)
    assert not any(folder.exists() for folder in above)


def test_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without cgroups has no hierarchies, and says so."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "nowhere")
    assert cgroups.hierarchies() == []
    assert not cgroups.controls("cpuset")
    assert "no cgroup hierarchy is mounted" in str(cgroups.unavailable())


@pytest.mark.parametrize(
    ("version", "membership", "held"),
    [
        (1, "4:memory:/w/x\n1:cpu,cpuacct:/w/x\n0::/\n", {"cpu", "memory"}),
        (1, "4:memory:/\n1:cpu,cpuacct:/w/x\n0::/w/x\n", {"cpu"}),
        (1, "4:memory:/w/x/y\n1:cpu:/w/xy\n", set()),
        (1, "9:name=systemd:/w/x\n3:cpuset:/w/x\n2:cpuacct:/w/x\n", set()),
        (2, "0::/w/x\n", {"cpu", "memory"}),
        (2, "0::/w/x/y\n", set()),
        (2, "1:name=systemd:/w/x\n0::/\n", set()),
        (2, "", set()),
    ],
)
def test_only_the_controllers_that_limit_prove_a_cgroup(
    monkeypatch: pytest.MonkeyPatch, version: int, membership: str, held: set[str]
) -> None:
    """Another hierarchy, a longer path, or one of the two controllers alone holds nobody to a limit."""
    monkeypatch.setattr(cgroups, "version", lambda: version)
    assert cgroups.holders(membership, "/w/x") == held
    assert cgroups.holds(membership, "/w/x") is (len(held) == 2)


def version_2(root: Path, controllers: str) -> None:
    """Files as they are at the root of version 2."""
    (root / "cgroup.procs").touch()
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text("pids\n")


def test_version_2_is_enabled_from_the_root_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every cgroup above a sandbox's hands both controllers down, the root too; one that does already is not written.

    The files stand in for a kernel of version 2 alone.
    """
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    version_2(tmp_path, "cpuset cpu memory pids\n")
    (tmp_path / "weighbridge/run").mkdir(parents=True)
    (tmp_path / "weighbridge/cgroup.subtree_control").write_text("memory cpu pids\n")
    (tmp_path / "weighbridge/run/cgroup.subtree_control").touch()

    cgroups.make("/weighbridge/run/pod", Limits(cpu=0.29, memory=2.0**28))

    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "weighbridge/cgroup.subtree_control").read_text() == "memory cpu pids\n"
    assert (tmp_path / "weighbridge/run/cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "weighbridge/run/pod/cpu.max").read_text() == "29000 100000"


def test_both_controllers_have_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel without the memory controller sets no limits, in either version, and the reason names it."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one / "cpu", two):
        folder.mkdir(parents=True)
    (one / "cpu/cgroup.procs").touch()
    version_2(two, "cpuset cpu pids\n")
    for root in (one, two):
        monkeypatch.setattr(cgroups, "ROOT", root)
        assert "no memory controller" in str(cgroups.unavailable())
    version_2(two, "cpu memory\n")
    assert cgroups.unavailable() is None


@pytest.mark.parametrize(("user", "reason"), [(0, "read-only here"), (1000, "run as root")])
def test_root_is_not_told_to_become_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, reason: str
) -> None:
    """Where root itself may not write, the remedy is another one."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    version_2(tmp_path, "cpu memory\n")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert reason in str(cgroups.unavailable())
    assert ("run as root" in str(cgroups.unavailable())) is (user != 0)
