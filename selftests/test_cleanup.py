from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weighbridge.cleanup import CGROUPS, leftovers, remove
from weighbridge.errors import InfrastructureError

HIERARCHY = next((path for path in (CGROUPS / "cpu", CGROUPS) if (path / "cgroup.procs").exists()), None)


@pytest.fixture
def root() -> Iterator[Path]:
    """A cgroup of this test alone, used as if it were the root of every hierarchy."""
    if HIERARCHY is None or not os.access(HIERARCHY, os.W_OK):
        pytest.skip("no cgroup may be made here")
    path = HIERARCHY / f"selftest-{os.getpid()}"
    path.mkdir()
    yield path
    for folder in sorted((p for p in path.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        folder.rmdir()
    path.rmdir()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_removes_only_what_is_left_of_dead_runs(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """Empty cgroups of a run go; those with a process, and whatever else lies beside them, stay."""
    for name in ("weighbridge/gone/wb-gone-1", "cpu/weighbridge/gone/wb-gone-1", "weighbridge/alive/wb-alive-1"):
        (root / name).mkdir(parents=True)
    (root / "somebody/else").mkdir(parents=True)
    (root / "weighbridge/alive/wb-alive-1/cgroup.procs").write_text(str(sleeper.pid))
    found = leftovers(root)
    assert [leftover.run for leftover in found] == ["gone"]  # one line, in two hierarchies
    assert len(found[0].tops) == 2
    for leftover in found:
        remove(leftover)
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}
    assert left == {
        "weighbridge",
        "weighbridge/alive",
        "weighbridge/alive/wb-alive-1",
        "cpu",
        "somebody",
        "somebody/else",
    }
    sleeper.kill()
    sleeper.wait()


def test_run_in_use_in_one_hierarchy_stays_in_all(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """A process in any cgroup of a run keeps all of them."""
    for name in ("weighbridge/half/c", "cpu/weighbridge/half/c"):
        (root / name).mkdir(parents=True)
    (root / "cpu/weighbridge/half/c/cgroup.procs").write_text(str(sleeper.pid))
    assert leftovers(root) == []
    sleeper.kill()
    sleeper.wait()


def test_run_about_to_start_a_container_stays(root: Path, tmp_path: Path) -> None:
    """A cgroup stays while a process of its lab lives, empty or not; the run of a longer name shields nothing."""
    (root / "weighbridge/run-1/c").mkdir(parents=True)
    (root / "weighbridge/run/c").mkdir(parents=True)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(b"python3\0_init.py\0/run/weighbridge/run-1\0")
    assert [leftover.run for leftover in leftovers(root, tmp_path)] == ["run"]


def test_process_that_came_in_meanwhile(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """A cgroup that is taken between listing and removing stays, and the error names it."""
    folder = root / "weighbridge/late/c"
    folder.mkdir(parents=True)
    (found,) = leftovers(root)
    (folder / "cgroup.procs").write_text(str(sleeper.pid))
    with pytest.raises(InfrastructureError, match=r"weighbridge/late/c cannot be removed"):
        remove(found)
    sleeper.kill()
    sleeper.wait()


def test_second_name_of_a_hierarchy_counts_once(tmp_path: Path) -> None:
    """A hierarchy that is linked under another name holds no second folder of a run."""
    folder = tmp_path / "cpu,cpuacct/weighbridge/gone"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    (found,) = leftovers(tmp_path)
    assert found.tops == (folder,)


def test_nothing_there(tmp_path: Path) -> None:
    """Without cgroups there is nothing to remove."""
    assert leftovers(tmp_path) == []
