"""Weights and folders of cgroups: what runtimes convert a CPU request to, and what a run that ends leaves others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weighbridge import cgroups


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
