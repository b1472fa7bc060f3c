r"""Tables of results: for a terminal, for the page, as JSON and as LaTeX; and the table of windows and bounds.

Tables of cells have a row for each cell. LaTeX tables have a row for each policy and a column for each epsilon. They
need \usepackage{booktabs} and an input encoding of UTF-8, the default since 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from rich.box import SIMPLE_HEAD, Box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from maskedbandits import theory
from maskedbandits._util import safe_text
from maskedbandits.experiments.canonical_json import to_plain
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.problems import Problem
from maskedbandits.report import summary
from maskedbandits.report.summary import Groups, format_interval, format_number, is_best, lowest_regret

FULL_WIDTH = 90  # columns of a terminal that holds the whole table
MAX_GROUPS = 12  # that a table has columns for
SIMPLE_ASCII = Box(str(SIMPLE_HEAD).replace("─", "-"), ascii=True)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table of cells.

    ``format`` and ``sort_key`` take a cell and the lowest regret of its group. A sort key is None for an empty entry.
    """

    heading: str
    format: Callable[[Cell, float], str]
    sort_key: Callable[[Cell, float], float | str | None]
    justify: Literal["left", "right"] = "right"
    wraps: bool = False  # whether a text may fold between words


def divide_by_best(cell: Cell, best: float) -> float | None:
    """Return the regret divided by the lowest of the group."""
    return float(cell.mean[-1]) / best if best > 0 else None


def format_ratio(cell: Cell, best: float) -> str:
    """Return the regret divided by the lowest of the group, as text."""
    ratio = divide_by_best(cell, best)
    return "–" if ratio is None else f"{ratio:.2f}×"


def choose_speed_unit(speeds: Sequence[float]) -> Callable[[float], str]:
    """Return a format for steps a second in the largest unit in which none of them rounds to zero."""
    slowest = min(speeds, default=0.0)
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if slowest >= 0.05 * size:
            return lambda speed: f"{speed / size:,.1f} {letter}"
    return lambda speed: f"{speed:,.0f}"


def window_size(cell: Cell) -> float | None:
    """Return the window as a number."""
    return None if cell.window is None else float(cell.window)


def format_window(cell: Cell) -> str:
    """Return the window, and the rule that chose it."""
    if cell.window is None:
        return "–"
    rule = f" ({cell.label.window})" if cell.label.window else ""
    return f"{'∞' if cell.window == 'inf' else format(cell.window, ',')}{rule}"


def format_published(cell: Cell) -> str:
    """Return the published regret and the distance of ours."""
    published = cell.label.published
    return "–" if published is None else f"{published:,g} ({cell.mean[-1] / published - 1:+.1%})"


def list_columns(cells: Sequence[Cell]) -> list[TableColumn]:
    """Return the columns that apply to these cells."""
    decimals = summary.count_regret_decimals(cells)
    unit = choose_speed_unit([cell.steps_per_second for cell in cells])
    columns = {
        "regret": TableColumn(
            "regret, 95 %", lambda cell, _: summary.format_regret(cell, decimals), lambda cell, _: float(cell.mean[-1])
        ),
        "best": TableColumn("of best", format_ratio, divide_by_best),
        "published": TableColumn(
            "published (ours)", lambda cell, _: format_published(cell), lambda cell, _: cell.label.published
        ),
        "window": TableColumn(
            "window", lambda cell, _: format_window(cell), lambda cell, _: window_size(cell), wraps=True
        ),
        "pulls": TableColumn(
            "suboptimal pulls", lambda cell, _: f"{cell.suboptimal_share:.1%}", lambda cell, _: cell.suboptimal_share
        ),
        "time": TableColumn(
            "time", lambda cell, _: f"{cell.outcome.seconds:.2f} s", lambda cell, _: cell.outcome.seconds
        ),
        "speed": TableColumn(
            "steps/s", lambda cell, _: unit(cell.steps_per_second), lambda cell, _: cell.steps_per_second
        ),
    }
    if all(cell.window is None for cell in cells):
        del columns["window"]
    if all(cell.label.published is None for cell in cells):
        del columns["published"]
    if len({cell.label.policy for cell in cells}) == 1:
        del columns["best"]
    return [*list_name_columns(), *columns.values()]


def list_name_columns() -> list[TableColumn]:
    """Return the columns of epsilon and policy."""
    epsilon = TableColumn("ε", lambda cell, _: summary.format_epsilon(cell), lambda cell, _: cell.label.epsilon)
    policy = TableColumn(
        "policy", lambda cell, _: cell.label.policy, lambda cell, _: cell.label.policy, "left", wraps=True
    )
    return [epsilon, policy]


# Groups of people


def fits_groups(cells: Sequence[Cell]) -> bool:
    """Return whether there are groups, and a table has room for them."""
    return 0 < len(cells[0].shares or ()) <= MAX_GROUPS


def list_group_columns(cells: Sequence[Cell]) -> list[TableColumn]:
    """Return a column with the regret of each group, after epsilon and policy."""
    columns = [
        TableColumn(format_group(group, share), partial(format_group_regret, group), partial(group_sort_key, group))
        for group, share in enumerate(cells[0].shares or [])
    ]
    return [*list_name_columns(), *columns]


def format_group(group: int, share: float) -> str:
    """Return the number of a group and its size."""
    return f"group {group} ({share:.0%})"


def format_group_regret(group: int, cell: Cell, _: float = 0.0) -> str:
    """Return the regret of a group with its 95 % interval."""
    mean, half_width = (float(part[group]) for part in cell.final_group_regret)
    return format_interval(mean, half_width)


def group_sort_key(group: int, cell: Cell, _: float) -> float:
    """Return the regret of a group as a number."""
    return float(cell.final_group_regret[0][group])


# A terminal


def build_table(
    problem: str,
    groups: Groups,
    width: int = FULL_WIDTH,
    encoding: str = "utf-8",
    columns: Sequence[TableColumn] = (),
) -> Table:
    """Return the table of a problem for a terminal, with the best policy of each corruption in bold.

    Without ``columns`` it has the usual ones.
    """
    first = groups[0][0]
    title = f"{problem}: {first.horizon:,} {first.unit}, {first.runs:,} runs, {summary.describe_changes(first)}"
    if columns:
        title = f"{problem}: regret by group"
    else:
        columns = list_columns([cell for group in groups for cell in group])
    if width < FULL_WIDTH:
        columns = [column for column in columns if column.heading != "steps/s"]
    table = Table(
        title=Text(for_terminal(title, encoding)),
        title_justify="left",
        box=SIMPLE_HEAD if encoding.startswith("utf") else SIMPLE_ASCII,
        padding=(0, 1, 0, 0),
    )
    texts = [
        [[for_terminal(column.format(cell, lowest_regret(group)), encoding) for column in columns] for cell in group]
        for group in groups
    ]
    for column, entries in zip(columns, zip(*(row for rows in texts for row in rows), strict=True), strict=True):
        table.add_column(
            for_terminal(column.heading, encoding),
            justify=column.justify,
            min_width=min_width(entries, column.wraps, width),
            overflow="fold",
        )
    for group, rows in zip(groups, texts, strict=True):
        for cell, row in zip(group, rows, strict=True):
            style = "bold" if is_best(cell, group) else ""
            table.add_row(*(Text(text, style=style) for text in row))
        if len(group) > 1:
            table.add_section()
    return table


def for_terminal(text: str, encoding: str) -> str:
    """Return a text without control characters, in characters of the encoding."""
    return safe_text.spell(safe_text.one_line(text), encoding)


def min_width(texts: Sequence[str], wraps: bool, width: int) -> int:
    """Return the columns that texts need in a terminal: names may fold, numbers may not."""
    if not wraps:
        return max(map(cell_len, texts))
    return min(width // 4, max(cell_len(word) for text in texts for word in text.split() or [""]))


# JSON


def to_json(results: Results) -> dict[str, Any]:
    """Return the whole table in types that JSON has; an infinite epsilon is the word "inf"."""
    manifest = results.manifest
    document = {
        "title": manifest.title,
        "version": manifest.version,
        "command": manifest.command,
        "complete": results.complete,
        "arms": manifest.arms,
        "cells": [cell_to_json(cell) for cell in results.cells],
    }
    return {key: to_plain(value) for key, value in document.items()}


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """Return a row of the table, with all that is needed to run the cell by itself."""
    spec, label = cell.outcome.spec, cell.label
    mean, half = float(cell.mean[-1]), float(cell.half_width[-1])
    return {
        "problem": label.problem,
        "epsilon": label.epsilon,
        "label": label.policy,
        "policy": spec["policy"],
        "parameters": spec["parameters"],
        "window_rule": label.window,
        "horizon": cell.horizon,
        "runs": cell.runs,
        "seed": spec["seed"],
        "regret": {"mean": mean, "low": mean - half, "high": mean + half},
        "published": label.published,
        **groups_to_json(cell),
        "suboptimal_share": cell.suboptimal_share,
        "pulls": cell.outcome.pulls.mean(axis=0),
        "seconds": cell.outcome.seconds,
        "steps_per_second": cell.steps_per_second,
    }


def groups_to_json(cell: Cell) -> dict[str, Any]:
    """Return the entries about groups, if there are any."""
    if cell.shares is None:
        return {}
    regret = [
        {"mean": mean, "low": mean - half, "high": mean + half}
        for mean, half in zip(*cell.final_group_regret, strict=True)
    ]
    return {"context": cell.chooses_by_group, "shares": cell.shares, "group_regret": regret}


# LaTeX

LATEX_ESCAPES = {
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


def to_latex(cells: Sequence[Cell]) -> str:
    """Return a LaTeX table for each problem, followed by one of its groups if it has some."""
    parts = []
    for problem, groups in summary.group_by_problem(cells):
        parts.append(latex_table(problem, groups))
        if fits_groups(groups[0]):
            parts.append(latex_group_table(problem, groups))
    return "% needs \\usepackage{booktabs}\n" + "\n\n".join(parts) + "\n"


def escape_latex(text: str) -> str:
    """Return a text that LaTeX prints literally."""
    return "".join(LATEX_ESCAPES.get(letter, letter) for letter in text)


def latex_number(value: float, decimals: int | None = None) -> str:
    """Return a number with thin spaces between thousands."""
    return format_number(value, decimals).replace(",", r"\,")


def latex_regret(cell: Cell | None, group: Sequence[Cell]) -> str:
    """Return a regret with half the width of its interval, in bold if it is the lowest of its column."""
    if cell is None:
        return "--"
    half, decimals = float(cell.half_width[-1]), summary.count_regret_decimals(group)
    interval = "" if math.isnan(half) else rf" \pm {latex_number(half, decimals)}"
    text = latex_number(float(cell.mean[-1]), decimals) + interval
    return rf"$\mathbf{{{text}}}$" if is_best(cell, group) else f"${text}$"


def latex_epsilon(cell: Cell) -> str:
    """Return the heading of the column of an epsilon."""
    if cell.label.epsilon is None:
        return r"own $p_{00}, p_{11}$"
    value = r"\infty" if math.isinf(cell.label.epsilon) else f"{cell.label.epsilon:g}"
    return rf"$\varepsilon = {value}$"


def latex_table(problem: str, groups: Groups) -> str:
    """Return the table of one problem."""
    first = groups[0][0]
    rows = []
    for policy in summary.list_policies(groups):
        cells = [next((cell for cell in group if cell.label.policy == policy), None) for group in groups]
        texts = [latex_regret(cell, group) for cell, group in zip(cells, groups, strict=True)]
        rows.append(" & ".join([escape_latex(policy), *texts]) + r" \\")
    interval = "" if first.runs == 1 else r", $\pm$ half of its 95\,\% interval"
    steps = latex_number(first.horizon).split(".")[0]
    caption = f"Mean regret after {steps} {first.unit}, {first.runs} runs{interval}"
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * len(groups)}}}",
            r"\toprule",
            rf"\multicolumn{{{len(groups) + 1}}}{{l}}{{{escape_latex(problem)}}} \\",
            rf"\multicolumn{{{len(groups) + 1}}}{{l}}{{\small {caption}}} \\",
            r"\midrule",
            " & ".join(["policy", *(latex_epsilon(group[0]) for group in groups)]) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def latex_group_table(problem: str, groups: Groups) -> str:
    """Return the table of the regret of each group on one problem."""
    shares = groups[0][0].shares or []
    rows = []
    for cell in (cell for group in groups for cell in group):
        regrets = [format_group_regret(group, cell) for group in range(len(shares))]
        texts = ["$" + text.replace(",", r"\,").replace("±", r"\pm") + "$" for text in regrets]
        rows.append(" & ".join([latex_epsilon(cell), escape_latex(cell.label.policy), *texts]) + r" \\")
    headings = ["", "policy", *(escape_latex(format_group(group, share)) for group, share in enumerate(shares))]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{rl{'r' * len(shares)}}}",
            r"\toprule",
            rf"\multicolumn{{{len(headings)}}}{{l}}{{{escape_latex(problem)}: regret by group}} \\",
            r"\midrule",
            " & ".join(headings) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


# Windows and bounds

BOUNDS = ("published", "corrected")


def list_windows(horizon: int, changes: int) -> dict[str, int]:
    """Return the windows that depend only on the horizon and the number of segments."""
    return {
        "paper": theory.paper_window(horizon, changes),
        "lambert": theory.lambert_window(horizon, changes),
    }


def compute_bounds(problem: Problem, window: int | None = None) -> dict[str, Any]:
    """Return the windows of a problem, and for each the bounds on suboptimal pulls of every arm."""
    windows = list_windows(problem.horizon, problem.segments)
    windows["corrected"] = theory.corrected_window(problem)
    slopes = [g(1.0) - g(0.0) for g in problem.corruption]
    windows["variation"] = theory.variation_window(problem.horizon, problem.arms, problem.variation, slopes)
    # With many arms a rule's window may be too short for one pull of each: then it has no bounds.
    usable = {name: size for name, size in windows.items() if size >= problem.arms}
    if window is not None:
        windows["given"] = usable["given"] = window
    return {
        "horizon": problem.horizon,
        "changes": problem.segments,
        "windows": windows,
        "suboptimal_pulls": {
            name: {
                "published": theory.published_bound(problem, size).tolist(),
                "corrected": theory.corrected_bound(problem, size).tolist(),
            }
            for name, size in usable.items()
        },
        "regret_lower_bound": float(theory.lower_bound(problem)),
    }


def build_windows_table(windows: dict[str, int]) -> Table:
    """Return a table of windows for a terminal."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("window")
    table.add_column("steps", justify="right")
    for name, size in windows.items():
        table.add_row(name, f"{size:,}")
    return table


def build_bounds_table(title: str, bounds: dict[str, Any], encoding: str = "utf-8") -> Table:
    """Return a table of windows and bounds for a terminal."""
    lower_bound = f"asymptotic lower bound on the regret {bounds['regret_lower_bound']:,.0f}"
    facts = f"{title}: {bounds['horizon']:,} steps, {bounds['changes']} segments; {lower_bound}"
    heading = Text(for_terminal(facts, encoding))
    table = Table(title=heading, title_justify="left", header_style="bold", show_edge=False, pad_edge=False)
    for name in ("window", "steps", "published bound", "corrected bound"):
        table.add_column(name, justify="left" if name == "window" else "right")
    for name, size in bounds["windows"].items():
        pulls = bounds["suboptimal_pulls"].get(name)
        texts = [format_bound(pulls[kind], bounds["horizon"]) if pulls else "too short" for kind in BOUNDS]
        table.add_row(name, f"{size:,}", *texts)
    return table


def format_bound(pulls: Sequence[float], horizon: int) -> str:
    """Return the bound on all suboptimal pulls, and its share of the horizon unless it exceeds it."""
    share = sum(pulls) / horizon
    return f"{sum(pulls):,.0f} ({share:.0%} of steps)" if share < 1 else f"{sum(pulls):,.0f} (says nothing)"
