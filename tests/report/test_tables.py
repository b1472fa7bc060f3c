"""Tables: they say what the numbers say, in few words."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import unicodedata

import pytest
from rich.console import Console

from made_up import changing, named, outcome, results, sinusoid
from maskedbandits.experiments.results import Cell, Label, Results
from maskedbandits.report import summary, tables


def table_text(made: Results, width: int = 160, encoding: str = "utf-8") -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for problem, groups in summary.group_by_problem(made.cells):
        console.print(tables.build_table(problem, groups, width, encoding))
    return console.export_text()


def test_interval_is_students() -> None:
    cell = Cell(Label("k", "p", "a", 1.0), outcome(1.0, runs=3))
    last = cell.outcome.regret[:, -1]
    assert cell.mean[-1] == pytest.approx(last.mean())
    # 4.302653 is the 97.5 % point of Student's t with two degrees of freedom
    assert cell.half_width[-1] == pytest.approx(4.302653 * last.std(ddof=1) / math.sqrt(3), rel=1e-6)


def test_one_run_has_a_mean_and_no_interval() -> None:
    made = results(epsilons=(1.0,))
    single = tuple(Cell(cell.label, outcome(1.0, runs=1)) for cell in made.cells)
    made = dataclasses.replace(made, cells=single)
    assert "±" not in table_text(made)
    assert tables.to_json(made)["cells"][0]["regret"]["low"] is None


def test_table_names_every_policy_and_its_distance_from_the_best() -> None:
    text = table_text(results())
    assert text.count("with window") == 3
    assert "50 (paper)" in text
    assert text.count("1.00×") == 3
    assert text.count("1.98×") == 1
    assert "∞" in text
    assert "changes at 400" in text


def test_table_leaves_out_columns_that_say_nothing() -> None:
    made = results()
    cells = tuple(
        Cell(dataclasses.replace(cell.label, published=None), cell.outcome)
        for cell in made.cells
        if cell.window is None
    )
    text = table_text(dataclasses.replace(made, cells=cells))
    assert "published" not in text
    assert "window (" not in text
    assert "of best" not in text


def test_a_heading_is_short_however_often_the_world_changes() -> None:
    for means, words in ((sinusoid(), "drifts"), ([[0.9, 0.1], [0.1, 0.9]] * 100, "199 changes")):
        heading = table_text(changing(means)).splitlines()[0]
        assert words in heading
        assert len(heading) < 80


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_long_name_folds_and_leaves_the_numbers_whole(width: int) -> None:
    made = named(["x" * 500, "with blanks " * 40])
    text = table_text(made, width)
    for cell in made.cells:
        assert f" {summary.format_regret(cell)} " in text.replace("\n", " \n")
    assert text.count("x") >= 500


def test_a_table_gives_no_orders() -> None:
    made = named(["a\x1b[2J\x07\nb\x9bc"], "p\x1b]0;title\x07\r\n")
    text = table_text(made)
    assert not {letter for letter in text if unicodedata.category(letter) == "Cc"} - {"\n"}
    assert "a\\x1b[2J\\x07\\nb\\x9bc" in text
    assert text.startswith("p\\x1b]0;title\\x07\\r\\n: ")


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("ascii", ["eps", "inf", "+-", "1.00x", "---"]),
        ("latin-1", ["eps", "inf", "±", "1.00×", "---"]),
        ("utf-8", ["ε", "∞", "±", "1.00×", "───"]),
    ],
)
def test_a_table_fits_an_encoding(encoding: str, words: list[str]) -> None:
    text = table_text(results(), encoding=encoding)
    text.encode(encoding)
    for word in words:
        assert word in text


def test_json_is_strict_and_round_trips() -> None:
    document = tables.to_json(results())
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert document["cells"][-1]["epsilon"] == "inf"
    assert float(document["cells"][-1]["epsilon"]) == math.inf
    low, mean, high = (document["cells"][0]["regret"][key] for key in ("low", "mean", "high"))
    assert low < mean < high
