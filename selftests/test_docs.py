"""What the documentation says works: its commands, options, files and budgets exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Every line of every code block, without its comment."""
    blocks = [block for page in PAGES for block in re.findall(r"```\n(.*?)```", page.read_text(), flags=re.DOTALL)]
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith(("./run", ".ci/run"))])
def test_run_commands_are_known(command: str) -> None:
    """Each documented ./run command is one that the script and tox define."""
    words = command.split()
    assert (ROOT / words[0]).is_file()
    if len(words) > 1:
        environment = "selftest" if words[1] == "test" else words[1]
        assert f"[testenv:{environment}]" in (ROOT / "tox.ini").read_text()


@pytest.mark.parametrize("command", [c for c in commands() if "weighbridge " in c and c.startswith(".venv")])
def test_weighbridge_commands_run(command: str, tmp_path: Path) -> None:
    """Each documented `weighbridge` command runs as written, on real input."""
    output = ROOT / "scenarios/studies/001_eae5143db2da68f6/raw"
    words = command.split()[1:]
    if "FILE" in words:
        words[words.index("FILE")] = str(next(output.glob("wrk*")))
    if "RUN" in words:
        run = tmp_path / "run"
        replay = ["-m", "pytest", "--target", "replay", "--scenario", "sidecar_cores", "-q", "--run-dir", str(run)]
        subprocess.run([sys.executable, *replay], cwd=ROOT, check=False, capture_output=True)
        words[words.index("RUN")] = str(run)

    done = subprocess.run(
        [sys.executable, "-m", "weighbridge.cli", *words], cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_options_named_exist() -> None:
    """Every option that the README names is in --help, every -k and -m it shows selects something."""
    text = (ROOT / "README.md").read_text()
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    for option in set(re.findall(r"`(--[a-z-]+)", text)):
        assert option in shown.stdout
    for words in re.findall(r'`(-[km]) ("?[^`"]+"?)`', text):
        selection = [words[0], words[1].strip('"')]
        found = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", *selection],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert found.returncode == 0, selection


def test_links_lead_somewhere() -> None:
    """No link in the documentation is dead."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def ran_by_nobody(tmp_path: Path, *, installed: str) -> subprocess.CompletedProcess[str]:
    """`./run lab` for an ordinary user where dpkg knows only `installed`; it ends where tox would begin."""
    fakes = {"id": "echo 1000", "dpkg-query": f'case "$4" in {installed}) echo installed ;; *) exit 1 ;; esac'}
    for name, body in fakes.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "checkout/.venv/bin").mkdir(parents=True)
    for name in ("run", "weighbridge"):
        (tmp_path / "checkout" / name).symlink_to(ROOT / name)
    for name in ("tox", "weighbridge"):
        (tmp_path / f"checkout/.venv/bin/{name}").write_text("#!/bin/sh\necho began\n")
        (tmp_path / f"checkout/.venv/bin/{name}").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/nonexistent"}
    command = [str(tmp_path / "checkout/run"), "lab"]
    return subprocess.run(command, env=path, capture_output=True, text=True, check=False)


def test_run_needs_root_to_install(tmp_path: Path) -> None:
    """An ordinary user without the packages gets the one line to type and exit code 6, and nothing is changed."""
    done = ran_by_nobody(tmp_path, installed="none")

    assert done.returncode == 6
    line = next(line for line in done.stderr.splitlines() if "sudo apt-get update" in line)
    wanted = set(line.split())
    assert wanted >= {"qperf", "wrk", "apache2-utils", "nginx-light", "iproute2", "util-linux", "runc", "iptables"}
    assert wanted >= {"openvswitch-switch", "qemu-system-x86", "busybox-static", "runsc", "crun"}
    assert not any(word.startswith("linux-image") for word in wanted)
    assert "began" not in done.stdout


def test_run_goes_on_without_what_is_only_wanted(tmp_path: Path) -> None:
    """A network or runtime that cannot be installed costs its own cells, not the run."""
    done = ran_by_nobody(tmp_path, installed="util-linux|iproute2|procps|qperf|wrk|iperf*|iputils*|apache2*|nginx*")

    assert done.returncode == 0, done.stderr
    assert "going on without" in done.stderr
    assert "began" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["nonsense"]])
def test_run_says_how_it_is_used(arguments: list[str]) -> None:
    """A wrong word gets the usage line and exit code 2."""
    done = subprocess.run([str(ROOT / "run"), *arguments], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: ./run")
