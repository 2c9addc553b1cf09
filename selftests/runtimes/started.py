from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from weighbridge import cgroups, registry
from weighbridge.model import Limits
from weighbridge.runtimes import Command, Sandbox
from weighbridge.targets import lab

ROOT = Path(__file__).parents[2]
RUN = f"selftest-{os.getpid()}"
"""Of this process alone: several suites may run on a machine."""
LIMITS = Limits(cpu=0.5, memory=256 * 2**20)


def usable(site: lab.Lab, key: str) -> ModuleType:
    module: ModuleType = registry.find("runtimes", key)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return module


def start(site: lab.Lab, runtime: ModuleType, *argv: str) -> Sandbox:
    pod = site.pod(site.nodes[1], "calico")
    command = Command(argv, f"/run/weighbridge/{RUN}/{pod.name}")
    sandbox: Sandbox = runtime.start(pod, command, LIMITS, site.files, RUN)
    return sandbox


def cgroups_there() -> set[Path]:
    return {path for root in cgroups.hierarchies() for path in root.glob(f"weighbridge/{RUN}/*") if path.is_dir()}
