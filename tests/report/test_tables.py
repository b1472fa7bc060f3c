"""Tables for terminals, JSON and LaTeX."""

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


def test_table_has_every_policy_and_its_ratio() -> None:
    text = table_text(results())
    assert text.count("with window") == 3
    assert "50 (paper)" in text
    assert text.count("1.00×") == 3
    assert text.count("1.98×") == 1
    assert "∞" in text
    assert "changes at 400" in text


def test_table_leaves_out_empty_columns() -> None:
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


def test_heading_is_short_for_many_changes() -> None:
    for means, words in ((sinusoid(), "drifts"), ([[0.9, 0.1], [0.1, 0.9]] * 100, "199 changes")):
        heading = table_text(changing(means)).splitlines()[0]
        assert words in heading
        assert len(heading) < 80


@pytest.mark.parametrize("width", [60, 80, 160])
def test_long_names_fold_and_numbers_do_not(width: int) -> None:
    made = named(["x" * 500, "with blanks " * 40])
    text = table_text(made, width)
    for cell in made.cells:
        assert f" {summary.format_regret(cell)} " in text.replace("\n", " \n")
    assert text.count("x") >= 500


def test_table_escapes_control_characters() -> None:
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
def test_table_fits_an_encoding(encoding: str, words: list[str]) -> None:
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


def test_latex_has_a_row_for_each_policy() -> None:
    text = tables.to_latex(results().cells)
    assert r"policy & $\varepsilon = 0.5$ & $\varepsilon = 1$ & $\varepsilon = \infty$ \\" in text
    rows = [line.split(" & ") for line in text.splitlines() if line.startswith("with")]
    assert [row[0] for row in rows] == ["with window", r"without \textless{}window\textgreater{}"]
    cells = results().cells
    for row, own in zip(rows, (cells[::2], cells[1::2]), strict=True):
        for entry, cell in zip(row[1:], own, strict=True):
            assert f"{cell.mean[-1]:.1f} \\pm {cell.half_width[-1]:.1f}" in entry
            assert ("mathbf" in entry) == (cell.label.policy == "with window")
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1


def test_latex_separates_thousands() -> None:
    made = outcome(1.0, runs=1)
    cell = Cell(Label("k", "p", "a", None), dataclasses.replace(made, regret=made.regret * 0 + 1234567.0))
    text = tables.to_latex([cell])
    assert r"$1\,234\,567$" in text
    assert "\\pm" not in text
    assert "own $p_{00}, p_{11}$" in text


def test_latex_has_a_dash_for_unfinished_cells() -> None:
    cells = results().cells
    assert tables.to_latex(cells[:-1]).count("& -- ") == 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("50 % & more_or {less} #1 $", r"50 \% \& more\_or \{less\} \#1 \$"),
        (r"\input{x} ~ ^", r"\textbackslash{}input\{x\} \textasciitilde{} \textasciicircum{}"),
        ("ε ± é", r"$\varepsilon$ $\pm$ é"),
    ],
)
def test_latex_escapes_names(name: str, shown: str) -> None:
    text = tables.to_latex(named([name, "other"], name).cells)
    assert f"{{l}}{{{shown}}}" in text
    assert f"\n{shown} & " in text
