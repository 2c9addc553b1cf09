"""QEMU's monitor: JSON messages over a Unix socket (docs/interop/qmp-spec.txt of QEMU)."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from weighbridge.errors import StandError

ANSWER_TIMEOUT = 20.0


class Monitor:
    """A conversation with one QEMU; close it when done.

    Raises StandError when QEMU does not answer, or answers with an error.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_TIMEOUT)
        # A socket's path may have 107 bytes only, so its folder is named by a descriptor.
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.connect(f"/proc/self/fd/{folder}/{path.name}")
        except OSError:
            self._socket.close()
            raise
        finally:
            os.close(folder)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._receive()
        self.execute("qmp_capabilities")

    def execute(self, command: str) -> Any:
        """The answer to a command; events in between are left out."""
        self._socket.sendall(json.dumps({"execute": command}).encode() + b"\n")
        while True:
            answer = self._receive()
            if "error" in answer:
                raise StandError(f"QEMU refused {command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise StandError(f"QEMU's monitor did not answer: {error}") from error
        if not line:
            raise StandError("QEMU closed its monitor")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the conversation; QEMU goes on."""
        self._lines.close()
        self._socket.close()
