"""The end of a run: from a campaign to run.json, its reports and the table on the terminal."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from weighbridge import __version__, registry, report, store
from weighbridge.campaign import Campaign, Outcome
from weighbridge.errors import UsageError
from weighbridge.retell import own_figures, retell
from weighbridge.scenario import Scenario
from weighbridge.study.own import OwnFigures


def write_run(campaign: Campaign, root: Path) -> None:
    """Write everything that a run directory holds beside its journal.

    Raises StoreError when the disk refuses; the journal is complete all the same.
    """
    assert campaign.folder is not None
    run = stored(campaign)
    store.save(campaign.folder, run)
    templates = root / "reports" / "templates"
    if templates.is_dir():
        report.render(run, campaign.folder, templates, _own_figures(run, campaign.settings.scenarios))


def stored(campaign: Campaign) -> store.RunFile:
    """The run as run.json holds it."""
    assert campaign.folder is not None
    used = {cell.scenario for group in campaign.groups for cell in group.cells}
    scenarios = [s for s in campaign.scenarios.values() if s.name in used]
    selected = {cell.id for cell in campaign.selected}
    studies = {s.study for s in scenarios if s.study} if not campaign.target.LIVE else set()
    return store.RunFile(
        schema_=store.SCHEMA,
        run=campaign.folder.name,
        weighbridge=__version__,
        started=store.stamp(campaign.started),
        seconds=round(time.time() - campaign.started, 3),
        target=campaign.settings.target,
        profile=campaign.profile,
        seed=campaign.seed,
        complete=selected <= campaign.outcomes.keys(),
        environment=campaign.environment,
        scenarios=[
            store.StoredScenario(
                name=s.name,
                title=s.title,
                digest=s.digest,
                study=s.study,
                tool=s.tool,
                closed_loop=registry.find("tools", s.tool).CLOSED_LOOP,
                looks=list(s.looks),
                tolerated_errors=s.tolerated_errors,
                omitted=s.omit,
                load=_load(s),
            )
            for s in scenarios
        ],
        cells=[
            _cell(outcome, selected=name in selected, live=campaign.target.LIVE)
            for name, outcome in campaign.outcomes.items()
        ],
        studies=retell(campaign.settings.scenarios, studies) if studies else [],
    )


def _load(scenario: Scenario) -> dict[str, str]:
    """The load that all cells have in common, with the profile applied."""
    cell = next(iter(scenario.cells), None)
    if cell is None:
        return {}
    same = {key: value for key, value in cell.load_text.items() if key not in cell.axes}
    return {key: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in same.items()}


def _cell(outcome: Outcome, *, selected: bool, live: bool) -> store.StoredCell:
    cell, measured = outcome.cell, outcome.measured
    samples = [store.StoredSample(**asdict(sample)) for sample in measured.samples]
    return store.StoredCell(
        id=cell.id,
        scenario=cell.scenario,
        study=cell.study,
        tool=cell.tool,
        axes=dict(cell.axes),
        selected=selected,
        status=str(outcome.status),
        reason=outcome.reason,
        samples=samples,
        summary=store.summarise(samples),
        evidence=measured.evidence,
        limit=store.StoredLimit(**asdict(measured.limit)) if measured.limit else None,
        verdicts=[
            store.StoredVerdict(
                budget=v.budget, verdict=str(v.status), ratio=v.ratio, interval=v.interval, n=v.n, reason=v.reason
            )
            for v in outcome.verdicts
        ],
        caveat=measured.caveat,
        link_rate=(cell.link_rate or "unshaped") if live and samples else None,
    )


def rerender(folder: Path, templates: Path, scenarios: Path) -> list[Path]:
    """Render the reports of a stored run again, beside the figures of the studies below `scenarios`, if they are there.

    Raises StoreError or UsageError when there is no run or no template, ScenarioError when a study is broken.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; run directories are in reports/runs/")
    run = store.load(folder)
    return report.render(run, folder if folder.is_dir() else folder.parent, templates, _own_figures(run, scenarios))


def _own_figures(run: store.RunFile, scenarios: Path) -> OwnFigures:
    return own_figures(scenarios, {scenario.study for scenario in run.scenarios if scenario.study})
