"""The table for a paper: all regrets, the lowest bold, and nobody's words are orders."""

from __future__ import annotations

import dataclasses

import pytest

from made_up import named, outcome, results
from maskedbandits.experiments.results import Cell, Label
from maskedbandits.report import tables


def test_rows_are_policies_and_columns_epsilons() -> None:
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


def test_thousands_stand_apart_and_one_run_has_no_interval() -> None:
    made = outcome(1.0, runs=1)
    cell = Cell(Label("k", "p", "a", None), dataclasses.replace(made, regret=made.regret * 0 + 1234567.0))
    text = tables.to_latex([cell])
    assert r"$1\,234\,567$" in text
    assert "\\pm" not in text
    assert "own $p_{00}, p_{11}$" in text


def test_what_is_not_finished_is_a_dash() -> None:
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
def test_no_letter_of_a_name_is_an_order(name: str, shown: str) -> None:
    text = tables.to_latex(named([name, "other"], name).cells)
    assert f"{{l}}{{{shown}}}" in text
    assert f"\n{shown} & " in text
