"""The journal: one checksummed line per event, fsynced as it happens; the truth of a run.

A line is the CRC-32 of its text in hex, a space and a JSON object. A torn last line (the machine
stopped while it was written, so that no newline or no checksum ends it) is dropped; a broken line
anywhere else is an error, since nothing after it can be trusted. An open journal is locked: two runs
never write into one directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weighbridge.errors import StoreError

NAME = "journal.jsonl"


class Journal:
    """An append-only journal in a run directory."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            # Unbuffered: what a full disk refuses must not linger and reappear at close.
            self._stream = self.path.open("ab", buffering=0)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}; choose another --run-dir") from error
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._stream.close()
            raise StoreError(f"{folder} is in use by another run; choose another --run-dir") from error

    def append(self, event: str, content: Mapping[str, Any]) -> None:
        """Write one event and wait until it is on disk.

        Raises StoreError when it cannot be written (a full disk); what was written before stays.
        """
        text = json.dumps({"event": event, **content}, allow_nan=False, separators=(",", ":"))
        line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
        before = os.fstat(self._stream.fileno()).st_size
        try:
            while line:
                line = line[self._stream.write(line) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            self._stream.truncate(before)
            raise StoreError(
                f"{self.path} cannot be written: {error.strerror}; make room or choose another --run-dir, "
                "then go on with --resume"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read(folder: Path) -> list[dict[str, Any]]:
    """Every event of a run, oldest first.

    Raises StoreError when there is no journal, or a line before the last is broken.
    """
    path = folder / NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    lines.pop()  # what follows the last newline is nothing, or torn
    events = []
    for number, line in enumerate(lines, start=1):
        event = _event(line)
        if event is not None:
            events.append(event)
        elif number < len(lines):
            raise StoreError(f"{path} is corrupt at line {number}; delete that line and the following ones to resume")
    return events


def truncate_torn_tail(folder: Path) -> None:
    """Cut a torn last line, so that the next event starts on a line of its own.

    Raises StoreError when the file cannot be read or cut.
    """
    path = folder / NAME
    try:
        with path.open("r+b") as stream:
            lines = stream.read().split(b"\n")
            lines.pop()
            if lines and _event(lines[-1]) is None:
                lines.pop()
            stream.truncate(sum(len(line) + 1 for line in lines))
    except OSError as error:
        raise StoreError(f"{path} cannot be cut: {error.strerror}") from error


def _event(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    if f"{zlib.crc32(text):08x}".encode() != checksum:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
