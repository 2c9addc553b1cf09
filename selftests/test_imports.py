from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = shutil.which("lint-imports", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(LINT is None, reason="import-linter is not installed")
def test_imports_point_one_way() -> None:
    """The layers, the purity of tools and the two rooms of pytest are kept as pyproject.toml draws them."""
    done = subprocess.run([str(LINT)], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout
