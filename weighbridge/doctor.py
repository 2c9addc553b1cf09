"""What this machine can run, what is missing, and the one command that installs it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from weighbridge import registry
from weighbridge.errors import InfrastructureError, told
from weighbridge.shell import LocalShell
from weighbridge.targets import Request


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked for: its kind and name, whether it is usable, and why not or where it is."""

    kind: str
    name: str
    usable: bool
    detail: str
    packages: tuple[str, ...] = ()


def examine() -> list[Finding]:
    """Look for every target, tool, server, network, runtime and path."""
    shell = LocalShell()
    found = [Finding("python", platform.python_version(), True, platform.platform())]
    lab_module = registry.find("targets", "lab")
    for program in lab_module.PROGRAMS:
        path = shell.which(program)
        found.append(Finding("lab", program, path is not None, path or "not installed", lab_module.PACKAGES))
    for key in registry.keys("targets"):
        reason = registry.find("targets", key).unavailable()
        found.append(Finding("target", key, reason is None, reason or "usable"))
    for kind in ("tools", "servers"):
        for key in registry.keys(kind):
            module = registry.find(kind, key)
            path = next((p for name in module.PROGRAMS if (p := shell.which(name))), None)
            missing = "not installed" if module.PACKAGE else "not installed, and no package brings it"
            packages = (module.PACKAGE,) if module.PACKAGE else ()
            found.append(Finding(kind[:-1], key, path is not None, path or missing, packages))
    lab = next(finding for finding in found if finding.kind == "target" and finding.name == "lab")
    reason = None if lab.usable else lab.detail
    if reason is None:
        try:
            return found + _in_a_lab()
        except InfrastructureError as error:
            reason = _with_hint(" ".join(str(error).split()))
            found[found.index(lab)] = replace(lab, usable=False, detail=reason)
    return [
        *found,
        *(Finding(kind, "all", False, f"no lab to probe in: {reason}") for kind in ("network", "runtime", "path")),
    ]


def _with_hint(reason: str) -> str:
    # What namespaces cannot be made for is told before; this is the interpreter that starts as process 1 of a lab.
    if "failed to execute" not in reason:
        return reason
    return f"{reason} (this user may not read the interpreter, or a folder above it; use one that every user may read)"


def _in_a_lab() -> list[Finding]:
    """Networks, runtimes and paths, asked inside a lab, where making a device touches nothing of the machine.

    Raises InfrastructureError when the lab does not come up.
    """
    lab = registry.find("targets", "lab")
    found = []
    with lab.open_site(Request("doctor", Path())) as site:
        for kind in ("networks", "runtimes", "paths"):
            for key in registry.keys(kind):
                module = registry.find(kind, key)
                reason = module.unavailable(site.shell(), True) if kind == "paths" else module.unavailable(site.shell())
                # What is installed and still unusable (no permission, no kernel device) no package mends.
                packages = module.PACKAGES if reason and "not installed" in reason else ()
                found.append(Finding(kind[:-1], key, reason is None, reason or "usable", packages))
    return found


def fetch() -> Iterator[str]:
    """Bring what runtimes need and no package holds into the user's cache; one line per runtime that needs something.

    A runtime that cannot be served does not keep the others from it.
    """
    for key in registry.keys("runtimes"):
        try:
            brought = registry.find("runtimes", key).fetch()
        except InfrastructureError as error:
            yield f"{key}: not fetched: {' '.join(str(error).split())}"
        except OSError as error:  # a cache folder that may not be made, a full disk
            yield f"{key}: not fetched: {told(error)}"
        else:
            if brought:
                yield f"{key}: {brought}"


def install_command(findings: list[Finding]) -> str | None:
    """The one command that installs everything that a package brings; None when nothing is missing."""
    packages = sorted({package for f in findings if not f.usable for package in f.packages})
    return f"apt-get install --no-install-recommends {' '.join(packages)}" if packages else None
