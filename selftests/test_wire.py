"""The physical limit that stands beside every throughput."""

from __future__ import annotations

import pytest

from weighbridge.wire import tcp_limit


def test_tcp_limits_are_those_of_the_standard() -> None:
    """The physical limit printed beside a figure is 941.48 plain and 908.97 Mbit/s through VXLAN."""
    assert tcp_limit(1e9, 0)[0] == pytest.approx(941.48e6, abs=5e3)
    assert tcp_limit(1e9, 50)[0] == pytest.approx(908.97e6, abs=5e3)
