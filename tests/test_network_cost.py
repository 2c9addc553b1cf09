"""What a container network costs against the bare link and the wire's own limit."""

from __future__ import annotations

from weighbridge.campaign import Outcome
from weighbridge.model import Cell, Status


def test_keeps_its_budgets(cell: Cell, outcome: Outcome) -> None:
    """Every budget of the cell is met by what was measured."""
    assert outcome.status is Status.PASS, f"{cell.id}: {outcome.reason}"
