"""Which runsc runs here, on which platform: found, brought, and shown to work by starting a container.

Debian's runsc is of 2022; on kernels of today it refuses a pod's network. So a newer one, built from gVisor's
Go module into the user's cache, is looked for beside it, and the newest that works wins.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import MissingToolError
from weighbridge.runtimes import _probe
from weighbridge.shell import LocalShell, Shell

PLATFORMS = ("systrap", "kvm", "ptrace")
"""Fastest first, as far as they are known to work in a virtual machine too."""
MODULE_VERSION = "v0.0.0-20250205023644-9414b50a5633"
GO_TOOLCHAIN = "go1.23.12"
"""gVisor reads the goroutine's id at an offset that it knows of Go 1.22 and 1.23 alone; built by a later one it
panics under load."""
BUILD_TIMEOUT = 1800.0
_MODULE = "gvisor.dev/gvisor/runsc"


@dataclass(frozen=True, slots=True)
class Runsc:
    """A runsc that started a container here: its path, what it calls itself, and the platform it did so on."""

    path: str
    version: str
    platform: str


_known: dict[tuple[str, ...], Runsc | str] = {}
"""What was found, by the programs that were there: a probe costs a container's start, or its whole deadline."""


def find(shell: Shell) -> Runsc | str:
    """The newest runsc that starts a container where `shell` runs; else why none does.

    Probes once per process: every place that this process runs servers in is on this machine.
    """
    candidates = _candidates(shell)
    if not candidates:
        return "runsc is not installed; install it with: apt-get install runsc, or build it: weighbridge fetch"
    if candidates not in _known:
        _known[candidates] = _found(shell, candidates)
    return _known[candidates]


def _candidates(shell: Shell) -> tuple[str, ...]:
    """Every runsc there is."""
    packaged = shell.which("runsc")
    found = [str(path) for path in cache_folder().glob("runsc-*") if os.access(path, os.X_OK)]
    return (*sorted(found), *([packaged] if packaged else []))


def _found(shell: Shell, candidates: tuple[str, ...]) -> Runsc | str:
    versions = {path: _version(shell, path) for path in candidates}
    refused: list[str] = []
    for path in sorted(candidates, key=lambda path: _date(versions[path]), reverse=True):
        for platform in PLATFORMS:
            words = _refusal(shell, path, platform)
            if words is None:
                return Runsc(path, versions[path], platform)
            refused.append(f"{versions[path]} on {platform}: {words}")
    remedy = "" if _fetched().exists() else "; a newer one is built by: weighbridge fetch"
    return f"no runsc starts a container here ({'; '.join(refused)}){remedy}"


def _refusal(shell: Shell, path: str, platform: str) -> str | None:
    """Why a container with a network does not start; None when it does, on a kernel that is not the host's."""
    version, words = _probe.version_seen(
        shell, [path, f"--platform={platform}", "--network=sandbox", "--ignore-cgroups"]
    )
    if version and version == shell.run(["cat", "/proc/version"]).stdout.strip():
        return "the container saw the kernel of the host"
    return None if version else words


def _version(shell: Shell, path: str) -> str:
    """What it calls itself: `0.0~20221219.0`, `release-20250203.0`, a module's version."""
    said = shell.run([path, "--version"], check=False).stdout
    found = re.match(r"runsc version (\S+)", said)
    return found[1] if found else "unknown"


def _date(version: str) -> str:
    """The day of a version, which every way of counting them holds."""
    found = re.search(r"20\d{6}", version)
    return found[0] if found else ""


def cache_folder() -> Path:
    """Where what was fetched is kept, for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weighbridge"


def _fetched() -> Path:
    return cache_folder() / f"runsc-{MODULE_VERSION}"


def build() -> str | None:
    """Build runsc from its Go module into the cache, which takes a minute or two; None when it is there already.

    Raises MissingToolError without a Go that can do it, CommandError with what Go said when the build fails.
    """
    target = _fetched()
    if target.exists():
        return None
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise MissingToolError("go is not installed; runsc is built with Go 1.21 or later from https://go.dev/dl")
    folder = cache_folder() / "building"
    folder.mkdir(parents=True, exist_ok=True)
    # The checksum database of the module proxy vouches for what is built.
    environment = {**os.environ, "GOTOOLCHAIN": GO_TOOLCHAIN, "GOFLAGS": "", "CGO_ENABLED": "0", "GOBIN": str(folder)}
    # Asked for its version, Go brings the toolchain first, which takes as long as the way to it does.
    done = LocalShell(environment=environment).run([go, "version"], timeout=BUILD_TIMEOUT, check=False)
    if GO_TOOLCHAIN not in done.stdout:
        raise MissingToolError(
            f"{go} cannot fetch {GO_TOOLCHAIN}; runsc is built with Go 1.21 or later: {done.explain()}"
        )
    flags = f"-s -w -X {_MODULE}/version.version={MODULE_VERSION}"
    LocalShell(environment=environment).run(
        [go, "install", "-trimpath", "-ldflags", flags, f"{_MODULE}@{MODULE_VERSION}"], timeout=BUILD_TIMEOUT
    )
    (folder / "runsc").replace(target)
    folder.rmdir()
    return f"runsc {MODULE_VERSION} in {target}"
