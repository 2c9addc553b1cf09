from __future__ import annotations

import pytest

from weighbridge.errors import UsageError
from weighbridge.metrics import METRICS, metric, percentile
from weighbridge.units import parse, show


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_unit_that_is_shown_and_read(name: str) -> None:
    """A figure of any metric can be written in a report and in a budget."""
    found = metric(name)
    assert found.name == name
    text = show(0.25, found.unit)
    if found.unit != "1":
        assert parse(text).unit == found.unit


@pytest.mark.parametrize(
    ("text", "name"),
    [("50.000", "latency_p50"), ("99.9", "latency_p99_9"), ("99.999", "latency_p99_999"), ("5", "latency_p5")],
)
def test_percentiles_are_named_by_their_digits(text: str, name: str) -> None:
    """Trailing zeros make no second name for one percentile."""
    assert percentile(text) == name
    assert (metric(name).unit, metric(name).better) == ("s", "lower")


@pytest.mark.parametrize(
    "name", ["latency_p100", "latency_p", "latency_p9_", "latency_p1x", "latency", "", "Throughput"]
)
def test_unknown_metrics_are_refused(name: str) -> None:
    """No parser or budget can invent a metric."""
    with pytest.raises(UsageError, match="is no metric"):
        metric(name)


def test_nearest_name_is_suggested() -> None:
    """A slip of the pen leads to the name that was meant."""
    with pytest.raises(UsageError, match="did you mean 'request_rate'"):
        metric("requestrate")


def test_directions_are_those_of_the_field() -> None:
    """Lower latency, loss and errors, higher rates; totals have no direction."""
    better = {name: found.better for name, found in METRICS.items()}
    assert better["latency_mean"] == better["packet_loss"] == better["errors_read"] == "lower"
    assert better["throughput"] == better["request_rate_per_core"] == "higher"
    assert better["requests"] == better["duration"] == ""
