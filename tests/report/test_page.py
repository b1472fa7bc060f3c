"""The page: one file that needs nothing else, and the same bytes from the same results."""

from __future__ import annotations

import dataclasses
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest

from made_up import changing, named, outcome, results, sinusoid
from maskedbandits import report
from maskedbandits.experiments.results import Cell, load, save_outcome, save_plan, write_whole
from maskedbandits.report import page


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    return report.write(results(), tmp_path_factory.mktemp("report"))


def words_of(text: str) -> str:
    """What a reader of a page reads."""

    class Reader(HTMLParser):
        words = ""

        def handle_data(self, data: str) -> None:
            self.words += data

    reader = Reader()
    reader.feed(text)
    return reader.words


def page_of(made: report.Report) -> str:
    return made.page.read_text(encoding="utf-8")


def test_files_are_what_their_names_say(written: report.Report) -> None:
    starts = {path.name: path.read_bytes()[:4] for path in written.figures}
    assert starts == {
        "regret.png": b"\x89PNG",
        "regret.pdf": b"%PDF",
        "epsilon.png": b"\x89PNG",
        "epsilon.pdf": b"%PDF",
    }


def test_problems_do_not_overwrite_each_others_figures() -> None:
    assert page.prefixes(["only"]) == [""]
    assert page.prefixes(["A b", "a-b", "ε", "S 1"]) == ["a-b-1-", "a-b-2-", "problem-3-", "s-1-"]


def test_page_is_self_contained_and_escapes_what_people_write(written: report.Report) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.outside: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            for name, value in attrs:
                if name in ("src", "href") and not (value or "").startswith("data:"):
                    self.outside.append(f"{tag} {name}={value}")

    text = page_of(written)
    checker = Checker()
    checker.feed(text)
    assert checker.outside == []
    assert "A &lt;title&gt;" in text
    assert "without &lt;window&gt;" in text
    assert "<window>" not in text
    assert "maskedbandits run a.toml" in text


def test_page_gives_no_orders(tmp_path: Path) -> None:
    made = named(["a\x1b[2J\x07\nb"], "p\x9b2J\u202eq")
    plan = dataclasses.replace(made.plan, title="t\x00", command="run\x1b", file="f\x7f", source="one\n\ttwo\x9b\r\n")
    text = page_of(report.write(dataclasses.replace(made, plan=plan), tmp_path))
    assert not {letter for letter in text if unicodedata.category(letter) == "Cc"} - {"\n"}
    assert "\u202e" not in text
    words = words_of(text)
    for part in ("a\\x1b[2J\\x07\\nb", "p\\x9b2J\\u202eq", "t\\x00", "run\\x1b", "f\\x7f", "one\n    two\\x9b\n"):
        assert part in words


def test_page_says_what_is_not_finished(tmp_path: Path) -> None:
    made = results(epsilons=(1.0,))
    text = page_of(report.write(dataclasses.replace(made, cells=made.cells[:-1]), tmp_path))
    assert "1 of 2 cells are not finished" in text


def test_one_run_is_drawn(tmp_path: Path) -> None:
    made = results(epsilons=(1.0,))
    single = tuple(Cell(cell.label, outcome(1.0, runs=1)) for cell in made.cells)
    assert report.write(dataclasses.replace(made, cells=single), tmp_path).page.exists()


def test_page_says_that_a_drift_drifts(tmp_path: Path) -> None:
    words = words_of(page_of(report.write(changing(sinusoid()), tmp_path)))
    assert "2 arms, 1,000 steps, drifts (variation 3.17); 8 runs of each policy." in words
    assert "Below: the mean rewards of the arms" in words
    assert "changes" not in words


def test_page_says_what_stands_for_changes(tmp_path: Path) -> None:
    for means, said in (([[0.9, 0.1], [0.1, 0.9]], True), ([[0.9, 0.1]], False)):
        words = words_of(page_of(report.write(changing(means), tmp_path)))
        assert ("dashed verticals the changes" in words) == said


def test_saved_results_load_and_draw_exactly(written: report.Report, tmp_path: Path) -> None:
    made = results()
    save_plan(tmp_path, made.plan)
    for cell in made.cells:
        save_outcome(tmp_path, cell.label.key, cell.outcome)
    again = report.write(load(tmp_path), tmp_path)  # the same results give the same report, byte for byte
    assert again.page.read_bytes() == written.page.read_bytes()
    assert len(again.figures) == 4
    for drawn, redrawn in zip(written.figures, again.figures, strict=True):
        assert drawn.name == redrawn.name
        assert drawn.read_bytes() == redrawn.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page.save(path, b"old")

    def fail(stream: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"old"
