"""Commands on this machine: deadlines, streams, environment, and files that are whole or absent."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weighbridge.errors import CommandError, MissingToolError, StandError
from weighbridge.shell import Deadline, LocalShell, find_program, write_atomically

SHELL = LocalShell()


def test_both_streams_and_code_come_back() -> None:
    """A finished command is described completely."""
    done = SHELL.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)

    assert (done.stdout, done.stderr, done.code, done.ok) == ("out\n", "err\n", 3, False)


def test_failure_is_one_line_with_the_last_thing_said() -> None:
    """A failed command names itself, its exit code and its last words."""
    with pytest.raises(CommandError) as caught:
        SHELL.run(["sh", "-c", "echo first >&2; echo last >&2; exit 3"])

    assert "ended with 3" in str(caught.value)
    assert str(caught.value).endswith("last")


def test_large_output_does_not_hang() -> None:
    """64 MiB on both streams are read while the command writes them."""
    script = "import sys; sys.stdout.write('x' * 2**26); sys.stderr.write('y' * 2**26)"

    done = SHELL.run([sys.executable, "-c", script], timeout=30)

    assert (len(done.stdout), len(done.stderr)) == (2**26, 2**26)


def test_deadline_kills_the_whole_group() -> None:
    """What a hung command started dies with it."""
    with pytest.raises(CommandError, match="passed its deadline"):
        SHELL.run(["sh", "-c", "sleep 7392.5 & sleep 7392.5"], timeout=0.2)

    Deadline(2).until(
        lambda: SHELL.run(["pgrep", "-f", "sleep 7392[.]5"], check=False).code == 1, "the children to be gone"
    )


def test_environment_is_fixed() -> None:
    """No locale of the caller reaches a tool: a decimal comma would be read wrongly."""
    seen = SHELL.run(["env"]).stdout.splitlines()

    assert "LC_ALL=C" in seen
    assert {line.partition("=")[0] for line in seen} <= {"LC_ALL", "TZ", "NO_COLOR", "PATH", "PWD", "SHLVL", "_"}


def test_arguments_are_never_a_shell_string() -> None:
    """Metacharacters arrive as they are."""
    payload = "$(touch /tmp/never); `id` | ; & > x\n'\""

    assert SHELL.run(["printf", "%s", payload]).stdout == payload


def test_missing_program_names_package() -> None:
    """What is not installed is named with the command that installs it."""
    with pytest.raises(MissingToolError, match="apt-get install nosuchpackage"):
        find_program(SHELL, ("nosuchprogram",), "nosuchpackage")
    with pytest.raises(MissingToolError, match="no package brings it"):
        find_program(SHELL, ("nosuchprogram",), None)
    with pytest.raises(MissingToolError, match="nosuchprogram"):
        SHELL.run(["nosuchprogram"])


def test_first_program_found_wins() -> None:
    """Names are tried best first."""
    assert find_program(SHELL, ("nosuchprogram", "sh"), None).endswith("/sh")


def test_deadline_names_what_it_waited_for() -> None:
    """A wait that fails says for what."""
    with pytest.raises(StandError, match="gave up waiting for the moon"):
        Deadline(0.05).until(lambda: False, "the moon")


def test_process_says_what_it_wrote_and_stops() -> None:
    """A server's last words can be read while it runs and it ends when told."""
    process = SHELL.start(["sh", "-c", "echo hello; exec sleep 60"])
    Deadline(5).until(lambda: "hello" in process.said(), "hello")
    assert process.running()

    process.stop()

    assert not process.running()
    process.stop()


def test_atomic_write_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """The temporary file of a dead writer goes with the next write; a living one's, and any other file, stay."""
    target = tmp_path / "run.json"
    (tmp_path / ".run.json.1").write_text("half")
    decoys = [tmp_path / name for name in (".run.json.bak", ".run.json", ".other.json.1", "run.json.1", "..run.json.1")]
    for decoy in decoys:
        decoy.write_text("somebody's")
    with (tmp_path / ".run.json.2").open("w") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        write_atomically(target, "new")

    assert target.read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", ".run.json.2", *(path.name for path in decoys)}


def test_atomic_write_keeps_the_old_file_when_killed(tmp_path: Path) -> None:
    """A reader sees the old file or the whole new one, whenever the writer dies."""
    target = tmp_path / "run.json"
    write_atomically(target, "old")
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from weighbridge.shell import write_atomically
        while True:
            write_atomically(Path(sys.argv[1]), "new" * 100_000)
    """)
    root = Path(__file__).parents[1]
    popen = subprocess.Popen([sys.executable, "-c", program, str(target)], cwd=root)
    Deadline(10).until(lambda: target.read_text() != "old", "the first write")
    for _ in range(50):
        assert target.read_text() in ("old", "new" * 100_000)
    os.kill(popen.pid, signal.SIGKILL)
    popen.wait()

    assert target.read_text() == "new" * 100_000
