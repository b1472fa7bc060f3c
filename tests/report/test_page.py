"""The page: one file that needs nothing else, and the same bytes from the same results."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.boundaries import write_figures_as
from made_up import changing, named, outcome, results, sinusoid
from maskedbandits import report
from maskedbandits.experiments.results import Cell, Results, load, save_manifest, save_outcome, write_whole
from maskedbandits.report import page

# in one process: its report takes ten seconds to write
pytestmark = [pytest.mark.usefixtures("quick_fonts"), pytest.mark.xdist_group("page")]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, quick_fonts: None) -> report.ReportFiles:
    return report.write_report(results(), tmp_path_factory.mktemp("report"))


def words_of(text: str) -> str:
    """What a reader of a page reads."""

    class Reader(HTMLParser):
        words = ""

        def handle_data(self, data: str) -> None:
            self.words += data

    reader = Reader()
    reader.feed(text)
    return reader.words


def page_of(made: report.ReportFiles) -> str:
    return made.page.read_text(encoding="utf-8")


@pytest.fixture
def page_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Results], str]:
    """A page without the files of its figures, which take their time."""
    write_figures_as(monkeypatch)
    return lambda made: page_of(report.write_report(made, tmp_path))


STARTS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xm"}


def test_figures_have_the_format_of_their_suffix(written: report.ReportFiles) -> None:
    names = [f"{name}.{kind}" for name in ("regret", "epsilon", "shares", "pulls") for kind in STARTS]
    assert [path.name for path in written.figures] == names
    assert all(path.read_bytes()[:4] == STARTS[path.suffix[1:]] for path in written.figures)


def test_figures_contain_no_date_or_program(written: report.ReportFiles) -> None:
    for path in written.figures:
        content = path.read_bytes().lower()
        assert b"matplotlib.org" not in content
        assert b"matplotlib v" not in content
        assert b"creationdate" not in content
        assert b"<dc:date>" not in content


def test_file_prefixes_are_unique() -> None:
    assert page.file_prefixes(["only"]) == [""]
    assert page.file_prefixes(["A b", "a-b", "ε", "S 1"]) == ["a-b-1-", "a-b-2-", "problem-3-", "s-1-"]


def test_page_is_self_contained_and_escaped(written: report.ReportFiles) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.outside: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            for name, value in attrs:
                is_beside = tag == "a" and (written.page.parent / (value or "")).is_file()
                if name in ("src", "href") and not (value or "").startswith(("data:", "#")) and not is_beside:
                    self.outside.append(f"{tag} {name}={value}")

    text = page_of(written)
    checker = Checker()
    checker.feed(text)
    assert checker.outside == []
    assert "A &lt;title&gt;" in text
    assert "without &lt;window&gt;" in text
    assert "<window>" not in text
    assert "maskedbandits run a.toml" in text


def test_page_has_no_control_characters(page_alone: Callable[[Results], str]) -> None:
    made = named(["a\x1b[2J\x07\nb"], "p\x9b2J\u202eq")
    manifest = dataclasses.replace(
        made.manifest, title="t\x00", command="run\x1b", file="f\x7f", source="one\n\ttwo\x9b\r\n"
    )
    text = page_alone(dataclasses.replace(made, manifest=manifest))
    assert not {letter for letter in text if unicodedata.category(letter) == "Cc"} - {"\n"}
    assert "\u202e" not in text
    words = words_of(text)
    for part in ("a\\x1b[2J\\x07\\nb", "p\\x9b2J\\u202eq", "t\\x00", "run\\x1b", "f\\x7f", "one\n    two\\x9b\n"):
        assert part in words


def test_page_counts_unfinished_cells(page_alone: Callable[[Results], str]) -> None:
    made = results()
    text = page_alone(dataclasses.replace(made, cells=made.cells[:-1]))
    assert "1 of 6 cells are not finished" in text


def test_one_run_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_figures_as(monkeypatch, "svg")
    made = results(epsilons=(None,))
    single = tuple(Cell(cell.label, outcome(1.0, runs=1, window=cell.window)) for cell in made.cells)  # type: ignore[arg-type]
    written = report.write_report(dataclasses.replace(made, cells=single), tmp_path)
    assert [path.name for path in written.figures] == [f"{name}.svg" for name in ("regret", "shares", "pulls")]
    assert "One run gives no interval" in page_of(written)


def test_page_describes_drift(page_alone: Callable[[Results], str]) -> None:
    words = words_of(page_alone(changing(sinusoid())))
    assert (
        "One policy on one problem (2 arms, 1,000 steps, drifts (variation 3.17)), at ε = 1, 8 runs of each." in words
    )
    assert "Below: the mean rewards of the arms" in words
    assert "change" not in words.split("addEventListener")[0]


def test_page_explains_marks_of_changes(page_alone: Callable[[Results], str]) -> None:
    for means, said in (([[0.9, 0.1], [0.1, 0.9]], True), ([[0.9, 0.1]], False)):
        words = words_of(page_alone(changing(means)))
        assert ("dashed verticals the changes" in words) == said


def test_page_ends_with_provenance(page_alone: Callable[[Results], str], written: report.ReportFiles) -> None:
    made = results(epsilons=(1.0,))
    manifest = dataclasses.replace(made.manifest, provenance={"numpy": "2.0", "machine": "<a & b>"})
    words = words_of(page_alone(dataclasses.replace(made, manifest=manifest)))
    end = words[words.index("Provenance") :]
    assert "Run with numpy: 2.0; machine: <a & b>." in end
    assert "maskedbandits run a.toml" in end
    assert all(f"cells/{cell.label.key}.npz" in end for cell in made.cells)
    assert "Run with" not in words_of(page_of(written))


def test_older_results_have_no_arm_shares(page_alone: Callable[[Results], str], written: report.ReportFiles) -> None:
    made = results(epsilons=(1.0,))
    old = tuple(Cell(cell.label, dataclasses.replace(cell.outcome, pulls_over_time=None)) for cell in made.cells)
    assert "Which arms were pulled" in page_of(written)
    assert "Which arms were pulled" not in page_alone(dataclasses.replace(made, cells=old))


def test_user_text_is_never_markup(page_alone: Callable[[Results], str]) -> None:
    nasty = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;<!--"
    made = named([nasty, "other"], nasty)
    manifest = dataclasses.replace(made.manifest, title=nasty, command=nasty, file=nasty, source=nasty, version=nasty)
    harmless = page_alone(named(["policy", "other"], "problem"))
    text = page_alone(dataclasses.replace(made, manifest=manifest))
    for mark in ("<script", "</script", "<img", "<!--"):
        assert text.count(mark) == harmless.count(mark), mark
    assert nasty in words_of(text)


def test_numbers_of_page_match_results(written: report.ReportFiles) -> None:
    [found] = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page_of(written), re.DOTALL)
    numbers = json.loads(found)
    made = results()
    assert numbers["names"] == ["with window", "without <window>"]
    for place in range(3):
        panel = numbers["panels"][f"regret-{place}"]
        assert panel["heads"][-1] == "step 1,000"
        for series, cell in zip(panel["series"], made.cells[2 * place : 2 * place + 2], strict=True):
            assert series["values"] == pytest.approx(cell.outcome.regret.mean(axis=0), rel=1e-5)
            assert series["halves"] == pytest.approx(cell.half_width, rel=1e-5)
    by_epsilon = numbers["panels"]["epsilon"]
    assert by_epsilon["heads"] == ["ε = 0.5", "ε = 1", "ε = ∞, no privacy"]
    assert by_epsilon["series"][1]["values"] == pytest.approx([cell.mean[-1] for cell in made.cells[1::2]], rel=1e-5)


def test_tables_sort_by_numbers(written: report.ReportFiles) -> None:
    rows = re.findall(r"<tr class=.*?</tr>", page_of(written))
    keys = [re.findall(r'<td[^>]* data-(number|text)="(.*?)"', row) for row in rows]
    assert [kind for kind, _ in keys[0]] == ["number", "text", *["number"] * 7]
    assert [row[0][1] for row in keys] == ["0.5", "0.5", "1.0", "1.0", "Infinity", "Infinity"]
    assert [row[5][1] for row in keys] == ["50.0", ""] * 3
    assert [float(row[2][1]) for row in keys] == [float(cell.mean[-1]) for cell in results().cells]


def test_page_uses_arm_names(page_alone: Callable[[Results], str], written: report.ReportFiles) -> None:
    made = results(epsilons=(1.0,))
    named_arms = dataclasses.replace(made.manifest, arms={"one": ["tea <hot>", "cake"], "other": ["x"]})
    words = words_of(page_alone(Results(named_arms, made.cells)))
    assert "tea <hot>cake" in words
    assert "arm 0" not in words
    assert "arm 0arm 1" in words_of(page_of(written))


def recorded(made: Results) -> Results:
    """The same, as if it had been recorded."""
    cells = []
    for cell in made.cells:
        spec = {**cell.outcome.spec, "record": ["rounds", "abc"]}
        cells.append(Cell(cell.label, dataclasses.replace(cell.outcome, spec=spec)))
    return Results(made.manifest, tuple(cells))


def test_page_of_recorded_data_has_periods(page_alone: Callable[[Results], str]) -> None:
    text = page_alone(recorded(results(epsilons=(1.0,))))
    words = words_of(text)
    assert "(2 arms, 1,000 steps, recorded in 2 periods)" in words
    assert "by not knowing the best arm of every period" in words
    assert "dashed verticals new periods" in words
    assert "Dashed verticals are new periods" in words
    assert "change" not in words.split("addEventListener")[0]
    assert ">period</text>" in text
    assert "recorded in one period" in words_of(page_alone(recorded(changing([[0.9, 0.1]]))))


def test_policies_left_out_are_named(page_alone: Callable[[Results], str], written: report.ReportFiles) -> None:
    made = named(["some", "none at all"], epsilons=(1.0, 2.0))
    cells = [
        Cell(cell.label, dataclasses.replace(cell.outcome, regret=cell.outcome.regret * (cell.label.policy == "some")))
        for cell in made.cells
    ]
    assert "Left out where it lost nothing: none at all." in words_of(page_alone(Results(made.manifest, tuple(cells))))
    assert "Left out" not in words_of(page_of(written))


def test_page_allows_only_its_own_script(written: report.ReportFiles) -> None:
    text = page_of(written)
    assert not re.search(r"\son\w+=", text.split("<script>")[0])  # no handlers within tags
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    ids = re.findall(r'\sid="(.*?)"', text)
    assert len(set(ids)) == len(ids)
    assert len(text) < 400_000


def test_report_of_saved_results_is_identical(written: report.ReportFiles, tmp_path: Path) -> None:
    made = results()
    save_manifest(tmp_path, made.manifest)
    for cell in made.cells:
        save_outcome(tmp_path, cell.label.key, cell.outcome)
    again = report.write_report(load(tmp_path), tmp_path)  # the same results give the same report, byte for byte
    assert again.page.read_bytes() == written.page.read_bytes()
    assert len(again.figures) == 12
    for drawn, redrawn in zip(written.figures, again.figures, strict=True):
        assert drawn.name == redrawn.name
        assert drawn.read_bytes() == redrawn.read_bytes()


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page.save_file(path, b"old")

    def fail(stream: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"old"
