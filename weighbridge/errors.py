"""One error tree; every leaf knows the exit code a command line ends with.

WeighbridgeError
├── UsageError              2   the caller asked for something that does not exist
│   ├── UnitError           2   a quantity without a unit, or with an unknown one
│   └── ScenarioError       2   a scenario file that says something impossible
├── BaselineError           3   nothing comparable to compare with
├── ParseError              4   tool output that is not a trustworthy figure
│   └── ContradictionError  4   figures of one output that exclude each other
└── InfrastructureError     6   the machine, not the thing under test
    ├── MissingToolError    6   a program that is not installed
    ├── StandError          6   a server, node or network that did not come up
    ├── CommandError        6   a command that ended badly or too late
    └── StoreError          6   results that could not be written or read back

The numbers are those of the command line: 0 pass, 1 budget missed or regression, 2 usage, 3 no
comparable baseline, 4 invalid, 5 nothing selected, 6 infrastructure.
"""

from __future__ import annotations


class WeighbridgeError(Exception):
    """Anything this package raises on purpose; `str()` of it is one line that names the remedy."""

    exit_code = 6


def told(error: OSError) -> str:
    """An error of the operating system in one line, with the file's name where it has one."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else " ".join(str(error).split())


class UsageError(WeighbridgeError):
    """The caller asked for something that does not exist or does not fit together."""

    exit_code = 2


class UnitError(UsageError):
    """A quantity whose unit is missing, unknown or of the wrong dimension."""


class ScenarioError(UsageError):
    """A scenario file that cannot be read as a question; names the file and the key."""


class BaselineError(WeighbridgeError):
    """There is no run to compare with, or it was made in an unlike environment."""

    exit_code = 3


class ParseError(WeighbridgeError):
    """Tool output that is empty, truncated, an error message or otherwise no figure.

    `output` keeps the whole text, so that a report can show what was rejected.
    """

    exit_code = 4

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.output = output


class ContradictionError(ParseError):
    """Figures of one output that cannot all be true; the message holds the arithmetic."""


class InfrastructureError(WeighbridgeError):
    """The machine failed, not the thing under test; never a regression."""

    exit_code = 6


class MissingToolError(InfrastructureError):
    """A program that has to be installed; the message names the package."""


class StandError(InfrastructureError):
    """A node, network, runtime or server that did not come up, or did not answer in time."""


class CommandError(InfrastructureError):
    """A command that exited with an error or passed its deadline; the message names both streams."""


class StoreError(InfrastructureError):
    """Results that could not be written, or a stored run that cannot be read back."""
