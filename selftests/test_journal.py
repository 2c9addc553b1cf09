from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weighbridge import journal
from weighbridge.errors import StoreError
from weighbridge.journal import Journal, read, truncate_torn_tail

ROOT = Path(__file__).parents[1]
EVENTS: list[dict[str, Any]] = [
    {"event": "started", "seed": 7, "target": "lab"},
    {"event": "round", "number": 0, "samples": {"a b": [1.5, 2e-05]}},
    {"event": "outcome", "reason": "Zeilen\numbruch | µs – 😀", "status": "pass"},
]


def write(folder: Path, events: list[dict[str, Any]]) -> bytes:
    folder.mkdir(exist_ok=True)
    (folder / journal.NAME).unlink(missing_ok=True)
    opened = Journal(folder)
    for event in events:
        opened.append(event["event"], {key: value for key, value in event.items() if key != "event"})
    opened.close()
    return (folder / journal.NAME).read_bytes()


def test_events_come_back_as_written(tmp_path: Path) -> None:
    """What was appended is read back, oldest first."""
    write(tmp_path, EVENTS)
    assert read(tmp_path) == EVENTS


def test_truncation_anywhere_keeps_every_finished_event(tmp_path: Path) -> None:
    """Wherever a machine stopped, finished events are there, none is invented, and the journal can go on."""
    whole = write(tmp_path, EVENTS)
    for length in range(len(whole) + 1):
        (tmp_path / journal.NAME).write_bytes(whole[:length])
        finished = whole[:length].count(b"\n")
        assert read(tmp_path) == EVENTS[:finished]
        truncate_torn_tail(tmp_path)
        again = Journal(tmp_path)
        again.append("resumed", {})
        again.close()
        assert read(tmp_path) == [*EVENTS[:finished], {"event": "resumed"}]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_never_invents_an_event(tmp_path: Path, data: st.DataObject) -> None:
    """Flipped, zeroed or foreign bytes give a prefix of the truth or an error, never another event."""
    whole = bytearray(write(tmp_path, EVENTS))
    at = data.draw(st.integers(0, len(whole) - 1))
    for offset in range(at, min(len(whole), at + data.draw(st.integers(1, 40)))):
        whole[offset] = data.draw(st.sampled_from([0, 10, 32, 48, 255]))
    (tmp_path / journal.NAME).write_bytes(bytes(whole))
    try:
        found = read(tmp_path)
    except StoreError as error:
        assert "is corrupt at line" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert found == EVENTS[: len(found)]


def test_broken_line_in_the_middle_is_named_with_its_remedy(tmp_path: Path) -> None:
    """Nothing after a broken line is trusted; the message says which line and what to do."""
    lines = write(tmp_path, EVENTS).split(b"\n")
    lines[1] = lines[1].replace(b"1.5", b"9.5")
    (tmp_path / journal.NAME).write_bytes(b"\n".join(lines))
    with pytest.raises(StoreError, match=r"journal\.jsonl is corrupt at line 2; delete that line and the following"):
        read(tmp_path)


def test_missing_journal_is_an_error(tmp_path: Path) -> None:
    """A folder without a run cannot be resumed."""
    with pytest.raises(StoreError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(StoreError, match="cannot be cut"):
        truncate_torn_tail(tmp_path)
    with pytest.raises(StoreError, match="choose another --run-dir"):
        Journal(tmp_path / "nowhere")


def test_two_runs_never_share_a_directory(tmp_path: Path) -> None:
    """A second run is refused while the first writes, and may resume when it has ended."""
    first = Journal(tmp_path)
    with pytest.raises(StoreError, match="in use by another run"):
        Journal(tmp_path)
    first.append("round", {})
    first.close()
    Journal(tmp_path).close()
    assert read(tmp_path) == [{"event": "round"}]


def test_no_figure_that_json_cannot_hold(tmp_path: Path) -> None:
    """NaN never reaches the disk."""
    opened = Journal(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        opened.append("round", {"value": float("nan")})
    opened.close()
    assert read(tmp_path) == []


FILL = """
import sys
from pathlib import Path
from weighbridge.errors import StoreError
from weighbridge.journal import Journal
folder, finished = Path(sys.argv[1]), 0
opened = Journal(folder)
try:
    while finished < 1000:
        opened.append("round", {"number": finished, "text": "x" * 3000})
        finished += 1
except StoreError as error:
    opened.close()
    kept = (folder / "journal.jsonl").read_bytes()
    sys.stdout.buffer.write(f"{finished}\\n{error}\\n".encode() + kept)
"""


def test_full_disk_keeps_finished_rounds_and_says_so(tmp_path: Path) -> None:
    """When the disk is full the run ends with the remedy, and what was measured is still there."""
    script = 'mount -t tmpfs -o size=64k none "$1" && exec "$2" -c "$3" "$1"'
    inside = ["sh", "-c", script, "sh", str(tmp_path), sys.executable, FILL]
    argv = ["unshare", "--map-root-user", "--mount", *inside]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False, cwd=ROOT)
    if done.returncode and b"Operation not permitted" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 0, done.stderr.decode()
    finished, message, kept = done.stdout.split(b"\n", 2)
    assert b"No space left on device" in message
    assert b"make room or choose another --run-dir, then go on with --resume" in message
    (tmp_path / journal.NAME).write_bytes(kept)
    assert [event["number"] for event in read(tmp_path)] == list(range(int(finished)))
    assert int(finished) > 10
    assert kept.endswith(b"\n")


def test_lines_are_plain_json_behind_a_checksum(tmp_path: Path) -> None:
    """Other programs can follow a run by cutting nine characters off each line."""
    for line in write(tmp_path, EVENTS).decode("ascii").splitlines():
        assert json.loads(line[9:])["event"]
