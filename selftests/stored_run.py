"""A small stored run, made by hand: two runtimes under one budget, one invalid round, one cell not run."""

from __future__ import annotations

from typing import Any

from weighbridge import store
from weighbridge.model import Status


def sample(metric: str, unit: str, number: int, value: float | None, invalid: str | None = None) -> store.StoredSample:
    """Give one stored sample."""
    return store.StoredSample(metric=metric, unit=unit, round=number, value=value, invalid=invalid)


def cell(runtime: str, samples: list[store.StoredSample], **changes: Any) -> store.StoredCell:
    """Give one stored cell of the scenario `http`."""
    content: dict[str, Any] = {
        "id": f"http-{runtime}",
        "scenario": "http",
        "study": None,
        "tool": "wrk",
        "axes": {"runtime": runtime, "placement": "cross-node"},
        "selected": True,
        "status": str(Status.PASS),
        "reason": "measured, no budget",
        "samples": samples,
        "summary": store.summarise(samples),
        "evidence": {"kernel": "6.1", "sandbox": runtime},
        "limit": store.StoredLimit(throughput=941.48e6, formula="1000 Mbit/s x 1448 / (1500 + 38)"),
        "verdicts": [],
    }
    return store.StoredCell(**{**content, **changes})


def verdict(status: Status, reason: str) -> store.StoredVerdict:
    """Give a verdict on the only budget."""
    budget = "request_rate at least 0.9 x runtime=host"
    return store.StoredVerdict(budget=budget, verdict=str(status), ratio=0.8, interval=(0.78, 0.82), n=2, reason=reason)


def run(**changes: Any) -> store.RunFile:
    """Give the whole run."""
    host = [sample("request_rate", "1/s", 0, 1000.0), sample("request_rate", "1/s", 1, 1010.0)]
    host += [sample("throughput", "bit/s", 0, 8 * 2.0**20), sample("latency_p99", "s", 0, 1.5e-3)]
    runc = [sample("request_rate", "1/s", 0, 800.0), sample("request_rate", "1/s", 1, 810.0)]
    runc += [sample("latency_p99", "s", 0, 2.5e-3, "saturated")]
    failed = verdict(Status.FAIL, "0.8 x [95%: 0.78 to 0.82], n = 2")
    cells = [
        cell("host", host),
        cell("runc", runc, status=str(Status.FAIL), reason=failed.reason, verdicts=[failed]),
        cell("kata", [], status=str(Status.NOT_RUN), reason="kata is not installed", summary=[], limit=None),
    ]
    content: dict[str, Any] = {
        "schema_": store.SCHEMA,
        "run": "made-up",
        "weighbridge": "0.1.0",
        "started": "2026-01-02T03:04:05+00:00",
        "seconds": 12.5,
        "target": "lab",
        "profile": "quick",
        "seed": 7,
        "complete": True,
        "environment": {"kernel": "6.1", "link": "1000 Mbit/s"},
        "scenarios": [
            store.StoredScenario(
                name="http",
                title="HTTP request rate by container runtime",
                digest="0" * 64,
                study=None,
                tool="wrk",
                closed_loop=True,
                looks=[6, 10],
                tolerated_errors=0.001,
                omitted=None,
            )
        ],
        "cells": cells,
        "studies": [],
    }
    return store.RunFile(**{**content, **changes})
