from __future__ import annotations

from pathlib import Path

import pytest

from weighbridge import registry
from weighbridge.errors import UsageError


@pytest.mark.parametrize("kind", registry.KINDS)
def test_file_names_are_the_keys(kind: str) -> None:
    """What exists is what lies in the folder: no list repeats it, private modules are not offered."""
    folder = Path(registry.__file__).parent / kind
    files = {path.stem for path in folder.iterdir() if not path.name.startswith(("_", "."))} - {"py"}
    assert set(registry.keys(kind)) == files
    for key in registry.keys(kind):
        assert registry.find(kind, key).__doc__


def test_dashes_and_underscores_are_one() -> None:
    """An axis value with a dash lives in a module with an underscore."""
    assert registry.key_of("calico-ipip") == "calico_ipip"


@pytest.mark.parametrize("value", ["wrk3", "", "os", "../tools/wrk", "_http", "wrk.parse"])
def test_nothing_else_is_imported(value: str) -> None:
    """A scenario cannot name its way to a module outside the folder."""
    with pytest.raises(UsageError, match="no tool is called"):
        registry.find("tools", value)


def test_nearest_key_is_suggested() -> None:
    """A misspelt tool leads to the one that was meant."""
    with pytest.raises(UsageError, match="did you mean 'qperf'"):
        registry.find("tools", "qprf")
