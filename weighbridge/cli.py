"""The `weighbridge` command: everything that is not measuring."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from weighbridge import __version__, registry
from weighbridge.errors import InfrastructureError, ParseError, StoreError, UsageError, WeighbridgeError, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is that of the error tree."""
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
    except _OutputError as failed:
        # What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failed.error, BrokenPipeError):  # whoever read has seen enough
            return 0
        print(f"weighbridge {options.command}: output cannot be written: {failed.error.strerror}", file=sys.stderr)
        return InfrastructureError.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"weighbridge {options.command}: {told(error)}", file=sys.stderr)
        return InfrastructureError.exit_code
    except WeighbridgeError as error:
        print(f"weighbridge {options.command}: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    return int(code)


class _OutputError(Exception):
    """Standard output, and nothing else, took no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _say(text: object, end: str = "\n") -> None:
    """Print at once.

    Raises _OutputError when that fails.
    """
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        raise _OutputError(error) from error


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line in one line, as every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="weighbridge", description="performance of runtimes, networks and sidecars")
    parser.add_argument("--version", action="version", version=f"weighbridge {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    parse = commands.add_parser("parse", help="raw output of a load tool -> JSON in SI base units")
    parse.add_argument("tool", metavar="TOOL", help=", ".join(registry.keys("tools")))
    parse.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parse.set_defaults(run=_parse)

    report = commands.add_parser("report", help="render the reports of a stored run again")
    report.add_argument("folder", metavar="RUN", type=Path, help="a run directory")
    report.add_argument("--templates", type=Path, default=Path("reports/templates"), help="folder of *.j2 templates")
    report.add_argument(
        "--scenarios", type=Path, default=Path("scenarios"), help="folder whose studies/ stand beside what was measured"
    )
    report.set_defaults(run=_report)

    doctor = commands.add_parser("doctor", help="what this machine can run, and what is missing")
    doctor.set_defaults(run=_doctor)

    fetch = commands.add_parser("fetch", help="bring what runtimes need and no package holds into the user's cache")
    fetch.set_defaults(run=_fetch)

    cleanup = commands.add_parser("cleanup", help="remove the empty cgroups of runs that were killed")
    cleanup.add_argument("--list", action="store_true", help="only list them")
    cleanup.set_defaults(run=_cleanup)

    schema = commands.add_parser("schema", help="print the JSON Schema of scenario files or of run.json")
    schema.add_argument("what", choices=["scenario", "run"])
    schema.set_defaults(run=_schema)
    return parser


def _parse(options: argparse.Namespace) -> int:
    tool = registry.find("tools", options.tool)
    try:
        raw = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        raise UsageError(f"{options.file} cannot be read: {error.strerror}") from error
    results = tool.parse(raw.decode(errors="replace"))
    if not results:
        raise ParseError("no result in the output")
    document = {"results": [{"labels": dict(r.labels), "metrics": dict(r.metrics)} for r in results]}
    _say(json.dumps(document, indent=1, allow_nan=False))
    return 0


def _report(options: argparse.Namespace) -> int:
    from weighbridge import journal, store  # noqa: PLC0415 - parse must not pay for pydantic
    from weighbridge.finish import rerender  # noqa: PLC0415 - nor for jinja2

    if options.folder.is_dir() and not (options.folder / store.RUN).exists():
        if (options.folder / journal.NAME).exists():
            raise StoreError(
                f"{options.folder} was interrupted before it was written down; go on with --resume={options.folder}"
            )
        raise UsageError(f"{options.folder} holds no run; run directories are in reports/runs/")
    for path in rerender(options.folder, options.templates, options.scenarios):
        _say(path)
    return 0


def _fetch(options: argparse.Namespace) -> int:  # noqa: ARG001 - it takes none
    from weighbridge.doctor import fetch  # noqa: PLC0415

    told = False
    for line in fetch():
        _say(line)
        told = True
    if not told:
        _say("nothing is missing")
    return 0


def _doctor(options: argparse.Namespace) -> int:  # noqa: ARG001 - it takes none
    from tabulate import tabulate  # noqa: PLC0415

    from weighbridge.doctor import examine, install_command  # noqa: PLC0415

    found = examine()
    rows = [[f.kind, f.name, "yes" if f.usable else "no", f.detail] for f in found]
    _say(tabulate(rows, headers=["what", "name", "usable", "detail"], tablefmt="simple", disable_numparse=True))
    if command := install_command(found):
        _say(f"\ninstall what is missing with:\n  {command}")
    lab = [f for f in found if f.kind in ("lab", "target") and f.name not in ("ssh", "kubernetes") and not f.usable]
    return 6 if lab else 0


def _cleanup(options: argparse.Namespace) -> int:
    from weighbridge.cleanup import leftovers, remove  # noqa: PLC0415

    found = leftovers()
    for leftover in found:
        more = len(leftover.tops) - 1
        _say(f"{leftover.run}: {leftover.tops[0]}" + (f" and in {more} more hierarchies" if more else ""))
    refused = []
    for leftover in [] if options.list else found:
        try:
            remove(leftover)
        except InfrastructureError as error:
            refused.append(str(error))
    if refused:
        raise InfrastructureError("; ".join(refused))
    return 0


def _schema(options: argparse.Namespace) -> int:
    from weighbridge import scenario, store  # noqa: PLC0415

    _say(scenario.schema() if options.what == "scenario" else store.run_schema(), end="")
    return 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
