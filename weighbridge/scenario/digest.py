"""What makes two scenarios the same question: a digest over everything that is measured or judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict

from weighbridge.model import Cell


def digest(cells: Iterable[Cell], looks: tuple[int, ...]) -> str:
    """SHA-256 over everything that changes what is measured or how it is judged, however it is written."""
    asked = sorted(
        [
            cell.id,
            cell.tool,
            cell.server,
            cell.load.model_dump(mode="json"),
            asdict(cell.limits),
            cell.sweep,
            cell.client,
            dict(cell.conditions),
            cell.tolerated_errors,
            cell.per_core,
            [cell.cpus, cell.link_rate, cell.fresh_server, cell.allow_substitutes],
            sorted([b.metric, b.bound, b.kind, b.value, dict(b.reference), list(b.targets)] for b in cell.budgets),
        ]
        for cell in cells
    )
    return hashlib.sha256(json.dumps([asked, looks], sort_keys=True).encode()).hexdigest()
