"""The file name is the key: what exists is what lies in the folder, imported on first use."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from types import ModuleType

from weighbridge.errors import UsageError

KINDS = ("tools", "features", "networks", "paths", "runtimes", "servers", "targets")


@cache
def keys(kind: str) -> tuple[str, ...]:
    """Every key of one kind (`"tools"`, `"networks"`, …), sorted; modules with a leading underscore are private."""
    package = importlib.import_module(f"weighbridge.{kind}")
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")))


def key_of(value: str) -> str:
    """The module name of an axis value: `calico-ipip` lives in `calico_ipip.py`."""
    return value.replace("-", "_")


@cache
def find(kind: str, value: str) -> ModuleType:
    """The module behind a key.

    Raises UsageError, naming the nearest key, when there is no such file.
    """
    name = key_of(value)
    if name not in keys(kind):
        near = difflib.get_close_matches(name, keys(kind), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(keys(kind))}"
        raise UsageError(f"no {kind[:-1]} is called {value!r}; {hint}")
    return importlib.import_module(f"weighbridge.{kind}.{name}")
