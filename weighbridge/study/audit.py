"""Everything that a published study says against itself, found by computation.

| kind | meaning |
| --- | --- |
| `table` | a printed table figure is not the one of its output |
| `swapped row` | it is the figure of another row of the same column |
| `no source` | no output or figure of the study gives it |
| `unconfirmed` | only an output that contradicts itself gives it |
| `refused` | a tool output that contradicts itself or is incomplete, with its parser's reason |
| `claim` | a derived figure is not what its arithmetic gives |
| `series` | two outputs of one cell differ by more than 20 % |
| `lost digit` `mean` `mean across all` `transfer` `distribution` `percentile` | figures of one row exclude each other |
| `response size` | responses are smaller than the body that was asked for |
| `response size differs` | responses of one run are not as large as those of its siblings |
| `impossible mean` | no readings of the printed resolution have this mean |
| `repeated output` | separate measurements with the same figures |
| `destination` | the output names another server than the command, or than the study lists |
| `host` | a host that is listed for another cell |
| `heading` | an output under the heading of another cell |
| `overlap` | runs of one load generator at the same time |
| `asked rate` | the run did not reach what it was told to |

Figures agree when some values behind them, within half a unit of their last printed digits, are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weighbridge.errors import ScenarioError, UsageError
from weighbridge.study import Claim, Study, audit_figures, audit_recordings, audit_series, audit_tables
from weighbridge.study.audit_tables import Lookup
from weighbridge.study.discrepancy import Discrepancy
from weighbridge.study.interval import evaluate, like, printed

__all__ = ["Discrepancy", "Lookup", "audit"]


def audit(
    study: Study, lookup: Lookup | None = None, refused: Mapping[str, str] | None = None, earlier: Sequence[Study] = ()
) -> tuple[Discrepancy, ...]:
    """Find every discrepancy of a study, in the order of the table above.

    `lookup` gives the figures of its outputs; without one only what needs no parser is found.
    `refused` maps a recording's file to the reason for which its parser refused it; the lookup has
    NaN in its place. `earlier` are the studies whose outputs this one must not repeat.
    Raises ScenarioError, naming study and claim, for arithmetic that cannot be computed.
    """
    return tuple(_all(study, lookup, refused or {}, earlier))


def _all(
    study: Study, lookup: Lookup | None, refused: Mapping[str, str], earlier: Sequence[Study]
) -> Iterator[Discrepancy]:
    yield from audit_tables.against_outputs(study, lookup, refused)
    yield from audit_recordings.refusals(study, refused)
    yield from _claims(study)
    yield from audit_figures.among_figures(study)
    yield from audit_recordings.copies(study, earlier)
    yield from audit_recordings.destinations(study)
    yield from audit_recordings.places(study)
    if lookup is not None:
        yield from audit_series.spreads(study, lookup)
        yield from audit_series.sizes(study, lookup)
        yield from audit_series.asked(study, lookup)


def _claims(study: Study) -> Iterator[Discrepancy]:
    for claim in study.claims:
        try:
            holds, computed = _check(claim)
        except UsageError as error:
            raise ScenarioError(f"{study.name}: claims: {claim.what!r}: {error}") from error
        if not holds:
            where = f"{claim.where} | {claim.what}"
            text = f"{claim.arithmetic} = {computed}"
            yield Discrepancy(study.name, "claim", where, claim.printed, computed, text, "index.toml")


def _check(claim: Claim) -> tuple[bool, str]:
    claimed, computed = printed(claim.printed, claim.step), evaluate(claim.arithmetic)
    holds = claimed.meets(computed)
    if claim.bound == "lower":
        holds = holds or computed.low > claimed.high
    elif claim.bound == "upper":
        holds = holds or computed.high < claimed.low
    return holds, like(claim.printed, computed.middle)
