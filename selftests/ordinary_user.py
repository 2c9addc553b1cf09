"""Running a Python program as an ordinary user, for what has to work without privilege."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from selftests.staged import REPOSITORY

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all")


def run_as_ordinary_user(program: str) -> subprocess.CompletedProcess[str]:
    """Run it with this interpreter and the repository's packages; skip where that cannot be."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)])}
    for probe, reason in (
        (["true"], "ordinary users may not make user namespaces here"),
        ([sys.executable, "-c", "import pydantic"], "an ordinary user cannot read this Python environment"),
    ):
        command = [*NOBODY, "unshare", "--user", "--map-root-user", *probe]
        if subprocess.run(command, check=False, capture_output=True, env=environment, cwd="/").returncode:
            pytest.skip(reason)
    command = [*NOBODY, sys.executable, "-B", "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", env=environment)
