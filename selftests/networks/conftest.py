"""One lab for all tests of networks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from weighbridge import registry
from weighbridge.targets import Request, lab


@pytest.fixture(scope="package")
def site() -> Iterator[lab.Lab]:
    """One lab in which every network is wired."""
    if reason := lab.unavailable():
        pytest.skip(reason)
    with lab.open_site(Request("selftest", Path())) as opened:
        yield opened


@pytest.fixture(params=registry.keys("networks"))
def network(request: pytest.FixtureRequest, site: lab.Lab) -> tuple[str, ModuleType]:
    """Every network module that this machine can wire."""
    module = registry.find("networks", request.param)
    if reason := module.unavailable(site.shell()):
        pytest.skip(reason)
    return request.param, module
