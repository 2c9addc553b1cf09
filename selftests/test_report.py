from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from selftests import stored_run
from weighbridge import report, store
from weighbridge.errors import StoreError, UsageError
from weighbridge.model import Status
from weighbridge.retell import retell

HOST_FREE = "hold for every runtime but host, which has none."
ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "reports/templates"
GOLDEN = Path(__file__).parent / "data/report"

PAYLOADS = (
    "a|b", "|", "||", "\\|", "\\", "a\nb", "a\r\nb", "\n\n# heading", "\n---\n", "a\u2028b", "a\x0bb", "a\x00b",
    "\x1b[31mred", "`code`", "```", "``a``", "`|`", "a`b", "~~~", "~~gone~~", "~", "*bold*", "**bold**", "_a_",
    "__a__", "a__b__c", "a_b_c", "<b>bold</b>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "<!-- ", "-->", "</details>", "<br>", "<https://example.org>", "https://example.org/a", "www.example.org",
    "ftp://example.org", "mailto:a@example.org", "[text](https://example.org)", "[text][ref]",
    "[ref]: https://example.org", "![image](x.png)", "[^1]", "[ ] task", "]", "&amp;", "&lt;b&gt;", "&#124;",
    "&copy", "# heading", "- item", "1. item", "> quote", "    code", "$x$", ":smile:", "@name", "{{ 7 * 7 }}",
    "{% raw %}", "=1+1", "\u202eright to left", "\ud800", "µs – …", "😀", "", " ", "x" * 5000,
)  # fmt: skip


def rendered(folder: Path, run: store.RunFile) -> str:
    (path,) = report.render(run, folder, TEMPLATES)
    assert path == folder / "report.md"
    return path.read_text()


def cells_of(markdown: str) -> list[list[str]]:
    """The texts of a table as a reader of the rendered page sees them, row by row."""
    html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)
    assert html.count("<table>") == 1
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    found = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    assert not [text for row in found for text in row if "<" in text], "a cell holds markup"
    return [[unescape(text) for text in row] for row in found]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_text_can_break_a_table(payload: str) -> None:
    """Whatever a server, a tool or a scenario says stays in its cell, as text."""
    rows = cells_of(report.table([["before", payload, "after"], ["1", "2", "3"]], ["a", payload, "c"]))
    assert [len(row) for row in rows] == [3, 3, 3]
    assert rows[2] == ["1", "2", "3"]
    shown = " ".join(rows[1][1].split())
    if payload.isprintable() and len(payload) < 600:
        assert shown == " ".join(payload.split())
    assert len(shown) <= 603


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_no_text_can_break_a_report(tmp_path: Path, payload: str) -> None:
    """A hostile title, reason, evidence or environment leaves the report's own structure as it is."""
    plain, whole = stored_run.run(), stored_run.run()
    failed = stored_run.verdict(Status.FAIL, payload or "-")
    cells = [
        cell.model_copy(
            update={
                "reason": payload,
                "evidence": {"cell": cell.id, "said": payload},
                "verdicts": [failed] * bool(cell.verdicts),
            }
        )
        for cell in whole.cells
    ]
    scenarios = [whole.scenarios[0].model_copy(update={"title": payload or "-"})]
    hostile = whole.model_copy(update={"cells": cells, "scenarios": scenarios, "environment": {"kernel": payload}})

    tags = ("h1", "h2", "h3", "table", "tr", "td", "details", "a ", "s>", "img", "script")

    def shape(run: store.RunFile) -> dict[str, int]:
        html = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(rendered(tmp_path, run))
        return {tag: html.count(f"<{tag}") for tag in tags}

    assert shape(hostile) == shape(plain.model_copy(update={"environment": {"kernel": "x"}}))


def golden(folder: Path, text: str, name: str) -> None:
    (folder / name).write_text(text)
    assert text == (GOLDEN / name).read_text(), f"if this change is meant: cp {folder / name} {GOLDEN / name}"


def test_small_run_reads_as_it_always_did(tmp_path: Path) -> None:
    """The report of a small run, letter by letter: symbols explained, verdicts first, runtimes side by side."""
    golden(tmp_path, rendered(tmp_path, stored_run.run()), "small.md")


def test_replayed_study_reads_as_it_always_did(tmp_path: Path) -> None:
    """A study's own table with what its outputs really give, and everything it says against itself."""
    studies = retell(ROOT / "scenarios", ["003_4ff3991bc0809a79"])
    text = rendered(tmp_path, stored_run.run(target="replay", cells=[], studies=studies))
    golden(tmp_path, text[text.index("## Study") :], "study-003.md")


def test_all_fourteen_tables_of_the_studies_are_there(tmp_path: Path) -> None:
    """No table of a published study is lost, and none is empty."""
    names = sorted(path.name for path in (ROOT / "scenarios/studies").iterdir() if path.is_dir())
    studies = retell(ROOT / "scenarios", names)
    assert sum(len(study.tables) for study in studies) == 14
    text = rendered(tmp_path, stored_run.run(target="replay", studies=studies))
    for study in studies:
        for table in study.tables:
            assert table.rows
            assert all(len(row) == len(table.headings) for row in table.rows)
            assert f"### {report.escape(table.title)}\n" in text


def test_rendering_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """A stored run tells the same story whenever it is told."""
    store.save(tmp_path, stored_run.run())
    first = rendered(tmp_path, store.load(tmp_path))
    assert rendered(tmp_path, store.load(tmp_path)) == first


def test_rows_link_to_the_raw_output_that_is_there(tmp_path: Path) -> None:
    """A cell's row leads to its raw files, also where one tool run measured several cells; no link is dead."""
    (tmp_path / "raw/http-host").mkdir(parents=True)
    (tmp_path / "raw/http-all").mkdir()
    text = rendered(tmp_path, stored_run.run())
    assert "(raw/http-host/)" in text
    swept = stored_run.cell("runc", [], axes={"runtime": "runc"})
    assert report._raw_folders(tmp_path)(swept) == "raw/http-all"
    shutil.rmtree(tmp_path / "raw")
    assert "](raw/" not in rendered(tmp_path, stored_run.run())


def test_incomplete_run_says_so(tmp_path: Path) -> None:
    """A stopped run cannot be taken for a finished one."""
    assert "**This run is incomplete**" in rendered(tmp_path, stored_run.run(complete=False))
    assert "incomplete" not in rendered(tmp_path, stored_run.run())


def test_figures_that_are_not_judged_stand_in_brackets(tmp_path: Path) -> None:
    """A saturated latency is shown but can never be mistaken for a result."""
    text = rendered(tmp_path, stored_run.run())
    assert "| latency_p99  | 1.5 ms" in text
    assert r"\[2.5 ms\]" in text


def test_throughput_stands_beside_what_the_wire_carries(tmp_path: Path) -> None:
    """Limit and efficiency are printed with the figure, in the tool's own unit."""
    assert "1 MiB/s (0.9% of 112.23 MiB/s)" in rendered(tmp_path, stored_run.run())


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (("none", "cpu 1 memory 2147483648"), f"Limits (cpu 1, memory 2 GiB) {HOST_FREE}"),
        (("cpu 0.5", "cpu 0.5"), "Limits (cpu 0.5) hold for every runtime."),
        (("cpu 1", "cpu 2"), "Limits hold for every runtime."),
        (("none", "none"), ""),
    ],
)
def test_report_says_whom_limits_bind(tmp_path: Path, limits: tuple[str, str], line: str) -> None:
    """A server without limits beside one with them is no fair comparison unless it is told."""
    cells = [
        cell.model_copy(update={"evidence": {"limits": text}})
        for cell, text in zip(stored_run.run().cells, limits, strict=False)
    ]
    text = rendered(tmp_path, stored_run.run(cells=cells))
    assert f"\n{line}\n" in text if line else "Limits" not in text


def test_only_measured_cells_count_as_measured_besides(tmp_path: Path) -> None:
    """A reference that could not run was not measured for anybody."""
    host, runc, kata = stored_run.run().cells
    borrowed = [host.model_copy(update={"selected": False}), runc, kata.model_copy(update={"selected": False})]
    assert "because a budget refers to them: 1.\n" in rendered(tmp_path, stored_run.run(cells=borrowed))
    assert "Cells measured besides" not in rendered(tmp_path, stored_run.run(cells=[runc, borrowed[2]]))


def test_verdicts_are_listed_worst_first() -> None:
    """The terminal's table begins with what needs attention; cells that did not run are not in it."""
    rows = report.verdict_rows(stored_run.run())
    assert [row[:2] for row in rows] == [["❌ fail", "http-runc"], ["✅ pass", "http-host"]]


def test_values_are_ordered_by_size(tmp_path: Path) -> None:
    """4KiB comes after 64B and 1000/s before 20000/s, in whatever order they were measured."""
    cells = [
        stored_run.cell("host", [stored_run.sample("request_rate", "1/s", 0, 1.0)], id=f"c-{n}", axes={"size": size})
        for n, size in enumerate(("4KiB", "1B", "64B"))
    ]
    text = rendered(tmp_path, stored_run.run(cells=cells))
    assert re.findall(r"^\| (\d\S*B) ", text, re.MULTILINE) == ["1B", "64B", "4KiB"]


def test_no_template_and_no_room_are_errors(tmp_path: Path) -> None:
    """A report that cannot be written says why, and that the figures are safe."""
    with pytest.raises(UsageError, match="no report templates"):
        report.render(stored_run.run(), tmp_path, tmp_path)
    with pytest.raises(StoreError, match=r"run\.json there is complete"):
        report.render(stored_run.run(), tmp_path / "nowhere", TEMPLATES)
