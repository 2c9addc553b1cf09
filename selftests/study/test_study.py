from __future__ import annotations

import re
from pathlib import Path

import pytest

from selftests.study_folder import STUDIES, made, recording, write
from weighbridge.errors import ScenarioError
from weighbridge.study import load

TABLE = """
title = "made up"
row_axes = ["network"]
[[columns]]
heading = "rate"
scenario = "http"
metric = "request_rate"
unit = "/s"
axes = {}
[[columns]]
heading = "time"
scenario = "http"
metric = "latency_mean"
units = { us = "us", ms = "ms" }
axes = {}
[[rows]]
axes = { network = "flannel" }
printed = ["2200+", "1.5ms"]
"""
FIGURE = '[[figures]]\nscenario = "http"\naxes = {}\nsource = "a table"\nmetrics = { latency_mean = "1.356 ms" }\n'
CLAIM = '[[claims]]\nwhat = "x"\nprinted = "16 us"\narithmetic = "1"\nwhere = "y"\n'
ONE = {"raw/a.txt": "output\n"}
TWO = {**ONE, "raw/b.txt": "output\n"}


def test_whole_study_is_read(tmp_path: Path) -> None:
    """Recordings, texts, figures, claims and tables are all there under their files' names."""
    study = made(
        tmp_path, recording("a.txt") + FIGURE + CLAIM, {**ONE, "tables/t.toml": TABLE, "figures/f.toml": FIGURE}
    )
    assert study.name == "made_up"
    assert study.texts == {"raw/a.txt": "output\n"}
    assert [file for file, _ in study.figures()] == ["index.toml", "figures/f.toml"]
    assert [claim.printed for claim in study.claims] == ["16 us"]
    assert study.recordings_of("http", {"network": "flannel", "message_size": "1B"})[0].file == "raw/a.txt"


def test_table_texts_become_quantities(tmp_path: Path) -> None:
    """Printed texts keep their digits and get their unit; a plus makes a lower bound, nothing stays nothing."""
    table = made(tmp_path, "", {"tables/t.toml": TABLE}).tables["t"]
    rate, time = table.columns
    lower, exact = rate.read("2200+"), time.read("1.50ms")
    assert lower is not None
    assert (lower.value, lower.bound) == ("2200/s", "lower")
    assert exact is not None
    assert exact.value == "1.50 ms"
    assert rate.read("") is None


@pytest.mark.parametrize(
    ("index", "files", "names"),
    [
        (recording("b.txt"), ONE, "index.toml.*raw/b.txt.*not there"),
        ("", ONE, "raw/a.txt.*not listed"),
        (recording("a.txt") + recording("a.txt", series=1), ONE, "listed twice"),
        (recording("a.txt", series=1), ONE, "series"),
        (recording("a.txt") + recording("b.txt", series=1, more="round = 0"), TWO, "round.*0, 0"),
        (recording("a.txt", more="round = -1"), ONE, "recordings.0.round"),
        (recording("a.txt", more='colour = "red"'), ONE, "recordings.0.colour"),
        (recording("a.txt", more='lasts = "30"'), ONE, "recordings.0.lasts.*unit"),
        (recording("a.txt", more='at = "25:00:00"'), ONE, "recordings.0.at"),
        (recording("a.txt", more='asked = { speed = "1/s" }'), ONE, "recordings.0.asked.*speed"),
        (FIGURE.replace("ms", "KiB"), {}, "figures.0: .*byte"),
        (FIGURE.replace('"1.356 ms"', "1.356"), {}, "figures.0.metrics"),
        (CLAIM.replace("16 us", "1,6 us"), {}, "claims.0.printed"),
        (
            "",
            {"tables/t.toml": TABLE.replace('"1.5ms"', '"1,5ms"')},
            "t.toml: .*rows.0: '1,5ms' is no figure of column 'time'",
        ),
        (
            "",
            {"tables/t.toml": TABLE.replace('"1.5ms"', '"1.5s"')},
            "t.toml: .*rows.0: '1.5s' has no unit of column 'time'",
        ),
        ("", {"tables/t.toml": TABLE.replace(', "1.5ms"', "")}, "t.toml.*rows.0 prints 1"),
        ("", {"tables/t.toml": TABLE.replace('{ network = "flannel" }', "{}")}, "t.toml.*rows.0"),
        ("", {"tables/t.toml": TABLE.replace('unit = "/s"', 'unit = "ms"')}, "t.toml.*columns.0.*request_rate"),
        ("", {"tables/t.toml": TABLE.replace('unit = "/s"\n', "")}, "t.toml.*columns.0.*either unit or units"),
        ("", {"tables/t.toml": "title = "}, "t.toml"),
    ],
)
def test_bad_data_is_refused_by_file_and_key(tmp_path: Path, index: str, files: dict[str, str], names: str) -> None:
    """A study that says something impossible is an error that names where, never a figure."""
    with pytest.raises(ScenarioError) as caught:
        made(tmp_path, index, files)
    assert re.search(names, str(caught.value))


def test_recordings_made_together_share_a_round(tmp_path: Path) -> None:
    """A single recording can be paired with the second one of another cell: the round is said, not guessed."""
    first, second = recording("a.txt"), recording("b.txt", axes='network = "calico"', more="round = 1")
    study = made(tmp_path, first + second, TWO)
    assert [r.together for r in study.recordings] == [0, 1]


def test_folder_and_study_have_one_name(tmp_path: Path) -> None:
    """A renamed folder cannot pass for another study; a missing index is an error, too."""
    folder = write(tmp_path).rename(tmp_path / "other")
    with pytest.raises(ScenarioError, match="folder's name"):
        load(folder)
    with pytest.raises(ScenarioError, match=r"index\.toml"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "recordings", "figures", "claims", "tables"),
    [
        ("000_ecef0cadeeddb2a1", 24, 0, 2, 2),
        ("001_eae5143db2da68f6", 11, 0, 6, 2),
        ("002_5c793594365a2643", 12, 0, 2, 1),
        ("003_4ff3991bc0809a79", 14, 5, 29, 1),
        ("004_925124e7f332e759", 0, 58, 37, 8),
    ],
)
def test_five_studies_are_complete(name: str, recordings: int, figures: int, claims: int, tables: int) -> None:
    """Nothing is lost from, or added to, what the five studies print."""
    study = load(STUDIES / name)
    assert len(study.recordings) == recordings
    assert len(list(study.figures())) == figures
    assert len(study.claims) == claims
    assert len(study.tables) == tables


def test_phase_breakdown_rests_on_the_recorded_time_stamps() -> None:
    """Every time stamp of the phase arithmetic stands in the trace log beside it."""
    study = load(STUDIES / "004_925124e7f332e759")
    stamps = re.findall(r"\b85\d{4}\b", " ".join(claim.arithmetic for claim in study.tables["phase_breakdown"].claims))
    log = study.texts["raw/envoy_request.txt"]
    assert len(stamps) == 2 * 29
    assert [stamp for stamp in stamps if stamp not in log] == []


def test_listings_print_the_same_figures_as_their_tables() -> None:
    """The sidecar tables and the figure files of study 004 were taken from the same place."""
    study = load(STUDIES / "004_925124e7f332e759")
    compared = 0
    for table in study.tables.values():
        for row in table.rows:
            for column, text in zip(table.columns, row.printed, strict=True):
                cell = table.cell(row, column)
                for figure in study.figures_of(column.scenario, cell) if column.metric and not column.per else ():
                    compared += 1
                    assert column.read(text) == figure.metrics[column.metric]
    assert compared == 40 * 12 + 7 + 7 + 2
