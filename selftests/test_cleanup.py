from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weighbridge import cgroups
from weighbridge.cleanup import Leftover, leftovers, remove, remove_all
from weighbridge.cli import main
from weighbridge.errors import InfrastructureError

CONTAINER = "weighbridge/{run}/pod1-runc-qperf-19765-1"


@pytest.fixture
def roots() -> Iterator[list[Path]]:
    """Two cgroups of this test alone, used as if they were the roots of two hierarchies."""
    within = cgroups.ROOT / "cpu" if cgroups.version() == 1 else cgroups.ROOT
    if cgroups.unavailable():
        pytest.skip(str(cgroups.unavailable()))
    top = within / f"selftest-{os.getpid()}"
    found = [top / "one", top / "two"]
    for root in found:
        root.mkdir(parents=True)
    yield found
    for folder in cgroups.subtree(top):
        folder.rmdir()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() and not path.is_symlink()}


def make(root: Path, run: str) -> Path:
    folder = root / CONTAINER.format(run=run)
    folder.mkdir(parents=True)
    return folder


def test_removes_what_dead_runs_left_in_every_hierarchy(roots: list[Path]) -> None:
    """The empty cgroups of a run go, wherever it had some, and the folder of all runs with the last of them."""
    for root in roots:
        (make(root, "gone") / "below").mkdir()
    (found,) = leftovers(roots)
    assert (found.run, len(found.tops)) == ("gone", 2)
    remove(found)
    assert [folders(root) for root in roots] == [set(), set()]


def test_run_in_use_in_one_hierarchy_stays_in_all(roots: list[Path], sleeper: subprocess.Popen[bytes]) -> None:
    """A process in any cgroup of a run keeps all of them, and those of another run go nevertheless."""
    for run in ("alive", "gone"):
        for root in roots:
            make(root, run)
    (roots[1] / CONTAINER.format(run="alive") / "cgroup.procs").write_text(str(sleeper.pid))
    (found,) = leftovers(roots)
    assert found.run == "gone"
    remove(found)
    assert all(folders(root) == {"weighbridge", "weighbridge/alive", CONTAINER.format(run="alive")} for root in roots)
    sleeper.kill()
    sleeper.wait()


# What lies beside the leftovers and is none, below the root of a hierarchy.
DECOYS = (
    "Weighbridge/gone/pod1",
    "weighbridge2/gone/pod1",
    "weighbridge-old/gone",
    "weighbridge.slice/gone/pod1",
    "xweighbridge/gone",
    "weigh/bridge",
    "user.slice/weighbridge/gone/pod1",
    "system.slice/weighbridge/gone",
    "kubepods/burstable/weighbridge/gone",
    "docker/weighbridge",
    "machine.slice/gone/weighbridge",
    "init.scope",
    "gone/weighbridge",
    "gone/pod1",
    "run/weighbridge/gone",
)


def test_everything_else_stays(roots: list[Path], tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """Twenty things that look like leftovers and are none, cgroups, folders and links, are there afterwards."""
    root = roots[0]
    make(root, "gone")
    for decoy in DECOYS:
        (root / decoy).mkdir(parents=True)
    elsewhere = tmp_path / "weighbridge/gone/pod1"  # a folder of that name that is no cgroup
    elsewhere.mkdir(parents=True)
    foreign = make(root, "foreign")  # another user's run
    os.chown(foreign, 65534, 65534)
    mixed = make(root, "mixed")  # ours, with a cgroup of another user in it
    (mixed / "theirs").mkdir()
    os.chown(mixed / "theirs", 65534, 65534)
    busy = make(root, "busy")  # a live one's
    (busy / "cgroup.procs").write_text(str(sleeper.pid))
    starting = make(root, "starting")  # a run that is about to start a container
    processes = tmp_path / "proc"
    for pid, line in enumerate(
        (
            "python3\0_init.py\0/run/weighbridge/starting\0",
            "python3\0_init.py\0/run/weighbridge/gone-2\0",  # of a longer name
            "python3\0_init.py\0/run/weighbridge/gone.old\0",
            "vi\0weighbridge/gone/notes\0",  # of another folder
        ),
        start=1,
    ):
        (processes / str(pid)).mkdir(parents=True)
        (processes / str(pid) / "cmdline").write_text(line)

    found = leftovers(roots, processes)
    for leftover in found:
        remove(leftover)

    assert [leftover.run for leftover in found] == ["gone"]
    left = folders(root)
    assert not any(path.startswith("weighbridge/gone") for path in left)
    assert left >= set(DECOYS)
    assert elsewhere.is_dir()
    assert all(path.is_dir() for path in (foreign, mixed / "theirs", busy, starting))
    sleeper.kill()
    sleeper.wait()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither a link that is called as our folder nor one inside it leads to anything being removed."""
    (tmp_path / "real/weighbridge/gone").mkdir(parents=True)
    (tmp_path / "real/weighbridge/gone/cgroup.procs").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/weighbridge").symlink_to(tmp_path / "real/weighbridge")
    (tmp_path / "inner/weighbridge").mkdir(parents=True)
    (tmp_path / "inner/weighbridge/gone").symlink_to(tmp_path / "real/weighbridge/gone")
    assert leftovers([tmp_path / "linked", tmp_path / "inner"]) == []


def test_process_that_came_in_meanwhile(roots: list[Path], sleeper: subprocess.Popen[bytes]) -> None:
    """A cgroup that is taken between listing and removing stays, and the error names it."""
    folder = make(roots[0], "late")
    (found,) = leftovers(roots)
    (folder / "cgroup.procs").write_text(str(sleeper.pid))
    with pytest.raises(InfrastructureError, match=r"weighbridge/late/.+ cannot be removed"):
        remove(found)
    sleeper.kill()
    sleeper.wait()


def test_what_cannot_be_removed_keeps_nobody_from_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a run is not ended by a leftover that the kernel will not let go."""
    tried = []

    def refuse(leftover: Leftover) -> None:
        tried.append(leftover.run)
        raise InfrastructureError("busy")

    found = [Leftover("first", (), ()), Leftover("second", (), ())]
    monkeypatch.setattr("weighbridge.cleanup.leftovers", lambda: found)
    monkeypatch.setattr("weighbridge.cleanup.remove", refuse)
    remove_all()
    assert tried == ["first", "second"]


def test_command_goes_on_after_what_cannot_be_removed(
    roots: list[Path],
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One leftover that is taken meanwhile ends the command with 6 and its name, after all others are gone."""
    busy = make(roots[0], "busy")
    make(roots[0], "gone")
    found = leftovers(roots)
    assert [leftover.run for leftover in found] == ["busy", "gone"]
    (busy / "cgroup.procs").write_text(str(sleeper.pid))
    monkeypatch.setattr("weighbridge.cleanup.leftovers", lambda: found)

    assert main(["cleanup"]) == 6

    assert "weighbridge/busy/" in capsys.readouterr().err
    assert busy.is_dir()
    assert not (roots[0] / "weighbridge/gone").exists()
    sleeper.kill()
    sleeper.wait()


def test_folders_that_go_while_they_are_looked_at(roots: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that removes the same cgroups at any moment makes no error, and no leftover of what is gone."""
    inner = make(roots[0], "gone")
    kept = make(roots[1], "other")
    real = os.scandir

    def vanishing(path: Path | str) -> object:
        if Path(path) == inner.parent and inner.exists():
            inner.rmdir()
            inner.parent.rmdir()
        return real(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [leftover.run for leftover in leftovers(roots)] == ["other"]
    assert cgroups.subtree(inner.parent) == []
    assert cgroups.subtree(kept.parent) == [kept, kept.parent]


def test_uppermost_folder_that_goes_while_it_is_listed(roots: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last run to end takes the folder of all runs away between the look at it and into it."""
    above = roots[0] / "weighbridge"
    above.mkdir()
    real = Path.iterdir

    def vanishing(path: Path) -> Iterator[Path]:
        if path == above:
            above.rmdir()
        return real(path)

    monkeypatch.setattr(Path, "iterdir", vanishing)
    assert leftovers(roots) == []
    assert not above.exists()


def test_second_name_of_a_hierarchy_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hierarchy that is linked under another name is the same one."""
    (tmp_path / "cpu,cpuacct").mkdir()
    (tmp_path / "cpu,cpuacct/cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    (tmp_path / "no-hierarchy").mkdir()
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    assert cgroups.hierarchies() == [tmp_path / "cpu,cpuacct"]


def test_version_2_has_one_hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies below somebody's slice is never taken for a hierarchy of version 1."""
    (tmp_path / "user.slice/weighbridge/gone").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "user.slice", tmp_path / "user.slice/weighbridge/gone"):
        (folder / "cgroup.procs").touch()
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    assert cgroups.hierarchies() == [tmp_path]
    assert leftovers() == []


def test_nothing_there(tmp_path: Path) -> None:
    """Without cgroups there is nothing to remove."""
    assert leftovers([tmp_path]) == []
