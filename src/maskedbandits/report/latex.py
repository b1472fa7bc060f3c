r"""Final regrets as a table for a paper: LaTeX with the rules of booktabs, a row a policy, a column an epsilon.

It needs \usepackage{booktabs} and an input encoding of UTF-8, as LaTeX has since 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from maskedbandits.experiments.results import Cell
from maskedbandits.report import tables
from maskedbandits.report.plots import regret_by_group

# What LaTeX takes for orders.
ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "ε": r"$\varepsilon$",
    "∞": r"$\infty$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
}


def escape(text: str) -> str:
    """Return somebody's own words so that LaTeX prints them and obeys none."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def number(value: float) -> str:
    """Return a number as a table shows it, its thousands apart."""
    return tables.number(value).replace(",", r"\,")


def regret(cell: Cell | None, group: Sequence[Cell]) -> str:
    """Return a regret with half of its interval, bold where it is the lowest of its column."""
    if cell is None:
        return "--"
    half = float(cell.half_width[-1])
    text = number(float(cell.mean[-1])) + ("" if math.isnan(half) else rf" \pm {number(half)}")
    return rf"$\mathbf{{{text}}}$" if tables.stands_out(cell, group) else f"${text}$"


def heading(cell: Cell) -> str:
    """Return what stands above a column."""
    if cell.label.epsilon is None:
        return r"own $p_{00}, p_{11}$"
    value = r"\infty" if math.isinf(cell.label.epsilon) else f"{cell.label.epsilon:g}"
    return rf"$\varepsilon = {value}$"


def table(problem: str, groups: Sequence[Sequence[Cell]]) -> str:
    """Return one problem's table."""
    first = groups[0][0]
    policies = list(dict.fromkeys(cell.label.policy for group in groups for cell in group))
    rows = []
    for policy in policies:
        own = [next((cell for cell in group if cell.label.policy == policy), None) for group in groups]
        texts = [regret(cell, group) for cell, group in zip(own, groups, strict=True)]
        rows.append(" & ".join([escape(policy), *texts]) + r" \\")
    interval = "" if first.runs == 1 else r", $\pm$ half of its 95\,\% interval"
    says = f"Mean regret after {number(first.horizon).split('.')[0]} {first.unit}, {first.runs} runs{interval}"
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * len(groups)}}}",
            r"\toprule",
            rf"\multicolumn{{{len(groups) + 1}}}{{l}}{{{escape(problem)}}} \\",
            rf"\multicolumn{{{len(groups) + 1}}}{{l}}{{\small {says}}} \\",
            r"\midrule",
            " & ".join(["policy", *(heading(group[0]) for group in groups)]) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def table_by_group(problem: str, groups: Sequence[Sequence[Cell]]) -> str:
    """Return one problem's table of the regret of each group."""
    shares = groups[0][0].shares or []
    rows = []
    for cell in (cell for group in groups for cell in group):
        found = [
            regret_by_group.regret(place, cell).replace(",", r"\,").replace("±", r"\pm") for place in range(len(shares))
        ]
        rows.append(" & ".join([heading(cell), escape(cell.label.policy), *(f"${text}$" for text in found)]) + r" \\")
    heads = ["", "policy", *(escape(regret_by_group.heading(place, share)) for place, share in enumerate(shares))]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{rl{'r' * len(shares)}}}",
            r"\toprule",
            rf"\multicolumn{{{len(heads)}}}{{l}}{{{escape(problem)}: regret by group}} \\",
            r"\midrule",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def as_latex(cells: Sequence[Cell]) -> str:
    """Return a table for each problem, one after the other, and after one with groups that of its groups."""
    parts = []
    for problem, groups in tables.problems(cells):
        parts.append(table(problem, groups))
        if regret_by_group.are_few(groups[0]):
            parts.append(table_by_group(problem, groups))
    return "% needs \\usepackage{booktabs}\n" + "\n\n".join(parts) + "\n"
