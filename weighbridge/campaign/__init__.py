"""One run: which cells, measured on which target, judged, and written down as it happens."""

from __future__ import annotations

import random
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weighbridge import journal, registry
from weighbridge.campaign.earlier import Earlier, told
from weighbridge.campaign.judging import Judging, Watcher
from weighbridge.campaign.recorder import Recorder
from weighbridge.errors import InfrastructureError, StoreError, UsageError
from weighbridge.measure import Group, Measured, Slot, group_cells, measure
from weighbridge.model import Cell, Status, Verdict, worst
from weighbridge.scenario import load_all
from weighbridge.stand import stand_key, unavailable
from weighbridge.targets import Request, Site

_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_LONGEST_TAG = 48
"""Characters; sockets lie below folders that bear the tag, and their paths end at 107."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller asked for."""

    scenarios: Path
    runs: Path
    """The folder that holds run directories."""
    target: str = "lab"
    profile: str | None = None
    """None takes quick for a live target, study for recordings."""
    names: tuple[str, ...] = ()
    run_dir: Path | None = None
    resume: Path | None = None
    seed: int | None = None
    link_rate: str | None = None
    """As the scenario key writes it, for every scenario of the run; None leaves it to each of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one cell: the worst of its verdicts, and one sentence."""

    cell: Cell
    measured: Measured
    verdicts: tuple[Verdict, ...]

    @property
    def status(self) -> Status:
        """The status of the whole cell."""
        if self.measured.problem is not None:
            return self.measured.problem[0]
        return worst(self.verdicts)

    @property
    def reason(self) -> str:
        """Why, in one line."""
        if self.measured.problem is not None:
            return self.measured.problem[1]
        decisive = [v for v in self.verdicts if v.status == self.status]
        return "; ".join(f"{v.budget}: {v.reason}" for v in decisive) or "measured, no budget"


class Campaign:
    """A run from its settings to its directory."""

    def __init__(self, settings: Settings, watcher: Watcher | None = None) -> None:
        self.settings = settings
        self.target = registry.find("targets", settings.target)
        self.profile = settings.profile or ("quick" if self.target.LIVE else "study")
        self.scenarios = {
            s.name: s for s in load_all(settings.scenarios, self.profile, settings.names, settings.link_rate)
        }
        self.seed = settings.seed if settings.seed is not None else secrets.randbelow(2**32)
        self.watcher = watcher
        self.groups: tuple[Group, ...] = ()
        self.selected: tuple[Cell, ...] = ()
        self.outcomes: dict[str, Outcome] = {}
        self.started = time.time()
        self.folder: Path | None = None
        self.environment: dict[str, str] = {}
        self._site: Site | None = None
        self._open = ExitStack()
        self._reasons: dict[tuple[object, ...], str | None] = {}
        self._journal: journal.Journal | None = None
        self._earlier = Earlier()

    def cells(self, claim: str) -> list[Cell]:
        """Every cell of the scenarios that a test module claims."""
        return [cell for scenario in self.scenarios.values() if scenario.claim == claim for cell in scenario.cells]

    def cells_where(self, scenario: str, **axes: str) -> list[Cell]:
        """The cells of one scenario that have these axis values.

        Raises UsageError when there is no such scenario.
        """
        if scenario not in self.scenarios:
            if self.settings.names:
                return []
            raise UsageError(f"no scenario is called {scenario!r}; there are: {', '.join(self.scenarios)}")
        return [cell for cell in self.scenarios[scenario].cells if axes.items() <= cell.axes.items()]

    def select(self, cells: Iterable[Cell]) -> None:
        """Plan the run: the selected cells and those that their budgets refer to."""
        self.selected = tuple(cells)
        references = {k: v for s in self.scenarios.values() for k, v in s.references.items()}
        looks = {name: scenario.looks for name, scenario in self.scenarios.items()}
        self.groups = group_cells(self.selected, references, looks)

    @property
    def site(self) -> Site:
        """The target's site, opened when it is first needed.

        Raises InfrastructureError naming what the target lacks.
        """
        if self._site is None:
            reason = self.target.unavailable()
            if reason:
                raise InfrastructureError(f"target {self.settings.target}: {reason}")
            request = Request(_tag(self.folder), self.settings.scenarios)
            self._site = self._open.enter_context(self.target.open_site(request))
            self.environment = self._site.describe()
            if self.target.LIVE and (changed := self._earlier.unlike(self.environment)):
                raise UsageError(f"the run was begun on another machine ({changed}); start a new run there")
            self.record("site", {"environment": self.environment})
        return self._site

    def unavailable(self, cell: Cell) -> str | None:
        """Why a cell cannot be measured here, asked once per kind of stand."""
        key = (cell.tool, *stand_key(self.site, cell))
        if key not in self._reasons:
            self._reasons[key] = unavailable(self.site, cell)
        return self._reasons[key]

    def outcome(self, cell: Cell) -> Outcome:
        """What came of a cell; measures its group when that has not been done.

        Raises InfrastructureError when nothing can be measured at all.
        """
        if cell.id not in self.outcomes:
            self._measure(next(group for group in self.groups if cell.id in {c.id for c in group.cells}))
        return self.outcomes[cell.id]

    def open_folder(self) -> None:
        """Make the run directory and its journal, or take up those of an interrupted run.

        Raises UsageError when a resumed run asked other questions; StoreError when nothing can be written.
        """
        digests = {name: scenario.digest for name, scenario in self.scenarios.items()}
        if self.settings.resume is not None:
            if not (self.settings.resume / journal.NAME).is_file():
                raise UsageError(f"{self.settings.resume} holds no run to go on with")
            self._take_up(self.settings.resume, digests)
            self._journal = journal.Journal(self.settings.resume)
            self.folder = self.settings.resume
            return
        folder = self.settings.run_dir or self.settings.runs / new_run_id()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error.strerror}; choose another --run-dir") from error
        if (folder / journal.NAME).exists():
            raise UsageError(f"{folder} holds a run already; go on with --resume={folder} or choose another --run-dir")
        self._journal = journal.Journal(folder)
        self.folder = folder
        self._journal.append(
            "started",
            {
                "target": self.settings.target,
                "profile": self.profile,
                "seed": self.seed,
                "scenarios": digests,
                "selected": sorted(cell.id for cell in self.selected),
                "time": self.started,
            },
        )

    def close(self) -> None:
        """Undo the site and close the journal."""
        self._open.close()
        self._site = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _take_up(self, folder: Path, digests: Mapping[str, str]) -> None:
        journal_events = journal.read(folder)
        journal.truncate_torn_tail(folder)
        if not journal_events or journal_events[0]["event"] != "started":
            raise StoreError(f"{folder} holds no run that was started")
        first = journal_events[0]
        for key, mine in (("target", self.settings.target), ("profile", self.profile)):
            if first[key] != mine:
                raise UsageError(f"{folder} was made with --{key} {first[key]}, not {mine}; give the same to --resume")
        changed = sorted(n for n, digest in first["scenarios"].items() if digests.get(n, digest) != digest)
        if changed:
            raise UsageError(f"{', '.join(changed)} changed since {folder} was started; start a new run")
        before, now = first["selected"], sorted(cell.id for cell in self.selected)
        if before != now:
            raise UsageError(
                f"{folder} was started with another selection ({len(before)} cells, not these {len(now)}); "
                "resume it with the same -k, -m and --scenario"
            )
        self.seed, self.started = first["seed"], first["time"]
        self._earlier = Earlier.of(journal_events)
        self.environment = self._earlier.environment

    def _measure(self, group: Group) -> None:
        if finished := self._earlier.finished(group):
            self.outcomes |= {measured.cell.id: Outcome(measured.cell, measured, v) for measured, v in finished}
            return
        available: list[Slot] = []
        known: dict[str, Measured] = {}
        for slot in group.slots:
            reason = self.unavailable(slot.cells[0])
            if reason is None:
                available.append(slot)
            else:
                known |= {cell.id: Measured(cell, problem=(Status.NOT_RUN, reason)) for cell in slot.cells}
        runnable = Group(group.name, tuple(available), group.looks)
        chosen = {cell.id for cell in self.selected}
        judging = Judging(runnable, self.settings.target, self.target.LIVE, chosen, known, self.watcher)
        if not any(cell.id in chosen for slot in available for cell in slot.cells):
            idle = (Status.NOT_RUN, "no cell that refers to it can run here")
            known |= {cell.id: Measured(cell, problem=idle) for cell in runnable.cells}
        else:
            rng = random.Random(f"{self.seed} {group.name}")  # noqa: S311 - shuffles rounds, guards nothing
            known |= measure(
                runnable,
                self.site,
                rng,
                observer=Recorder(self),
                decide=judging.decided,
                done=self._earlier.rounds_of(runnable),
            )
        for measured in (known[cell.id] for cell in group.cells):
            verdicts = judging.final(measured, known)
            outcome = Outcome(measured.cell, measured, verdicts)
            self.outcomes[measured.cell.id] = outcome
            self.record("outcome", {"status": outcome.status, "reason": outcome.reason, **told(measured, verdicts)})

    def record(self, event: str, content: Mapping[str, Any]) -> None:
        """Write an event down, where a journal is open."""
        if self._journal is not None:
            self._journal.append(event, content)


def new_run_id() -> str:
    """A name that sorts by time and does not collide: `20261121-013900-4f2a`."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + f"-{secrets.token_hex(2)}"


def _tag(folder: Path | None) -> str:
    """What everything that a run makes on this machine is named after: unique, and known again by its directory.

    Runs at the same time may write to folders of one name, and a folder's name may be anything.
    """
    if folder is None or _RUN_ID.fullmatch(folder.name):
        return folder.name if folder else new_run_id()
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', folder.name)[:_LONGEST_TAG]}-{secrets.token_hex(2)}"


def default_runs(root: Path) -> Path:
    """Where run directories go below a checkout."""
    return root / "reports" / "runs"
