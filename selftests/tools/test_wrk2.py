"""wrk2's recorded outputs become the figures they print, or the reason why they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from selftests.tools.corpus import cases, check
from weighbridge.tools import wrk2


@pytest.mark.parametrize("path", cases("wrk2"))
def test_recorded_output(path: Path) -> None:
    """A recorded output yields exactly the figures it prints, in SI units, or is refused for the right reason."""
    check(wrk2, path)
