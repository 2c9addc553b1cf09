from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from selftests.staged import REPOSITORY
from weighbridge import __version__, registry
from weighbridge.cli import main
from weighbridge.store import SCHEMA

DATA = Path(__file__).parent / "data"
PING = """PING 198.18.0.2 (198.18.0.2) 56(84) bytes of data.
64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time=0.100 ms

--- 198.18.0.2 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = 0.100/0.100/0.100/0.000 ms
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "weighbridge.cli", *arguments]


def only_one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Give the one line of an error; nothing else was written."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


def test_parse_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures come out as JSON in SI base units."""
    path = tmp_path / "ping.txt"
    path.write_text(PING)
    assert main(["parse", "ping", str(path)]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["metrics"]["round_trip_time_mean"] == pytest.approx(1e-4)
    assert result["metrics"]["packet_loss"] == 0


def test_parse_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` reads what is piped in, byte by byte."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PING.encode())))
    assert main(["parse", "ping", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]


@pytest.mark.parametrize(
    ("tool", "text", "code", "said"),
    [
        ("ping", "", 4, "weighbridge parse: "),
        ("ping", "connect: Network is unreachable\n", 4, "weighbridge parse: "),
        ("ping", PING.replace("0% packet loss", "50% packet loss"), 4, "50"),
        ("wrk", "unable to connect to 10.0.0.1:80\nConnection refused\n", 4, "weighbridge parse: "),
        ("wrk", "\x00\xff\xfe", 4, "weighbridge parse: "),
        ("wkr", PING, 2, "no tool is called 'wkr'; did you mean 'wrk'?"),
        ("../tools/wrk", PING, 2, "no tool is called '../tools/wrk'"),
        ("_hdr", PING, 2, "no tool is called '_hdr'"),
    ],
)
def test_parse_refuses(
    *, tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, text: str, code: int, said: str
) -> None:
    """Error text, contradictions and unknown tools: the exit code, nothing on stdout, one line on stderr."""
    path = tmp_path / "output.txt"
    path.write_text(text)
    assert main(["parse", tool, str(path)]) == code
    assert said in only_one_line(capsys)


@pytest.mark.parametrize("name", ["nowhere.txt", "."])
def test_parse_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A file that is missing, or none, is a usage error."""
    assert main(["parse", "ping", str(tmp_path / name)]) == 2
    assert "cannot be read" in only_one_line(capsys)


@pytest.mark.parametrize("arguments", [[], ["parse"], ["parse", "ping"], ["weigh"], ["schema", "cell"], ["--what"]])
def test_wrong_command_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """A wrong command line ends with 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "see weighbridge" in only_one_line(capsys)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version tells the package's own."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"weighbridge {__version__}\n"


def test_help_names_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of parse lists the tools that lie in the folder."""
    with pytest.raises(SystemExit):
        main(["parse", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert ", ".join(registry.keys("tools")) in out


@pytest.mark.parametrize(("what", "key"), [("scenario", "budgets"), ("run", "cells")])
def test_schemas(capsys: pytest.CaptureFixture[str], what: str, key: str) -> None:
    """Both schemas are JSON Schema that knows the central key."""
    assert main(["schema", what]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert key in document["properties"]


def test_report_renders_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stored run is rendered again to exactly what it said."""
    run = tmp_path / "run"
    made = [sys.executable, "-m", "pytest", "-q", "--target", "replay", f"--run-dir={run}", "-k", "network_http"]
    subprocess.run(made, cwd=REPOSITORY, stdout=subprocess.DEVNULL, timeout=60, check=False)
    before = (run / "report.md").read_bytes()
    (run / "report.md").unlink()
    assert main(["report", str(run), "--templates", str(REPOSITORY / "reports/templates")]) == 0
    assert str(run / "report.md") in capsys.readouterr().out.splitlines()
    assert (run / "report.md").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, 2), ("", 6), ("[]", 6), ('{"schema": "other/1"}', 6), (f'{{"schema": "{SCHEMA}", "cells": 1}}', 6)],
)
def test_report_of_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, code: int) -> None:
    """A run that is missing, broken or of another schema is told in one line."""
    run = tmp_path / "run"
    if content is not None:
        run.mkdir()
        (run / "run.json").write_text(content)
    assert main(["report", str(run)]) == code
    only_one_line(capsys)


def test_report_of_a_killed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a journal alone says how to go on; one that holds neither is no run at all."""
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no run" in only_one_line(capsys)
    (tmp_path / "journal.jsonl").touch()
    assert main(["report", str(tmp_path)]) == 6
    assert f"interrupted before it was written down; go on with --resume={tmp_path}" in only_one_line(capsys)


def test_reader_that_closes_early() -> None:
    """`weighbridge … | head` ends quietly."""
    with subprocess.Popen(command("schema", "run"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written() -> None:
    """A full disk behind stdout ends with 6 and one line."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command("schema", "run"), stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.returncode == 6
    assert done.stderr.decode() == "weighbridge schema: output cannot be written: No space left on device\n"


def test_parse_imports_nothing_heavy() -> None:
    """Reading one output does not pay for reports, statistics or pytest."""
    code = "import sys, weighbridge.cli; print([m for m in ('scipy', 'jinja2', 'pytest', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_cleanup_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """`cleanup --list` removes nothing and ends with 0."""
    assert main(["cleanup", "--list"]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert os.path.isdir(line.partition(": ")[2].partition(" and in ")[0])  # noqa: PTH112 - a line is text


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device", "/cache/x"), BrokenPipeError(32, "Broken pipe")]
)
def test_only_standard_output_is_blamed_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: OSError
) -> None:
    """Another file that cannot be written, or another pipe that broke, ends with 6 and is told as what it is."""

    def fail() -> list[object]:
        raise error

    monkeypatch.setattr("weighbridge.cleanup.leftovers", fail)
    assert main(["cleanup"]) == 6
    said = capfd.readouterr().err
    assert "output cannot be written" not in said
    assert said.startswith("weighbridge cleanup: ")
    assert str(error.filename or "Broken pipe") in said
    assert main(["schema", "run"]) == 0
    assert capfd.readouterr().out.startswith("{")
