"""Tables: one row for each cell, for a terminal, a page or a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from rich.box import SIMPLE_HEAD, Box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from maskedbandits._util import safe_text
from maskedbandits.experiments.canonical_json import plain
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report import summary

WIDE = 90  # columns of a terminal that holds the whole table
MANY = 200  # cells
SIMPLE_ASCII = Box(str(SIMPLE_HEAD).replace("─", "-"), ascii=True)


@dataclass(frozen=True)
class Column:
    """A column: its heading, what it says of a cell whose group's lowest regret is given, and what it is sorted by."""

    heading: str
    say: Callable[[Cell, float], str]
    sort_by: Callable[[Cell, float], float | str | None]  # None where it says nothing
    justify: Literal["left", "right"] = "right"
    whole: bool = True  # False where a text may fold between words


def number(value: float) -> str:
    """Return a number with as many decimals as a reader can use."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def regret(cell: Cell) -> str:
    """Return the regret at the horizon with its 95 % interval."""
    half = cell.half_width[-1]
    return number(cell.mean[-1]) + ("" if math.isnan(half) else f" ± {number(half)}")


def times_best(cell: Cell, best: float) -> float | None:
    """Return how many times the lowest regret of the group this is."""
    return float(cell.mean[-1]) / best if best > 0 else None


def against_best(cell: Cell, best: float) -> str:
    """Return how many times the lowest regret of the group this is, in words."""
    times = times_best(cell, best)
    return "–" if times is None else f"{times:.2f}×"


def window_size(cell: Cell) -> float | None:
    """Return the window as a number."""
    return None if cell.window is None else float(cell.window)


def window(cell: Cell) -> str:
    """Return the window, and the rule that chose it."""
    if cell.window is None:
        return "–"
    rule = f" ({cell.label.window})" if cell.label.window else ""
    return f"{'∞' if cell.window == 'inf' else format(cell.window, ',')}{rule}"


def against_published(cell: Cell) -> str:
    """Return the published regret and our distance from it."""
    published = cell.label.published
    return "–" if published is None else f"{published:,g} ({cell.mean[-1] / published - 1:+.1%})"


def columns(cells: Sequence[Cell]) -> list[Column]:
    """Return the columns that say something about these cells."""
    parts = {
        "regret": Column("regret, 95 %", lambda cell, _: regret(cell), lambda cell, _: float(cell.mean[-1])),
        "best": Column("of best", against_best, times_best),
        "published": Column(
            "published (ours)", lambda cell, _: against_published(cell), lambda cell, _: cell.label.published
        ),
        "window": Column("window", lambda cell, _: window(cell), lambda cell, _: window_size(cell), whole=False),
        "pulls": Column(
            "suboptimal pulls", lambda cell, _: f"{cell.suboptimal_share:.1%}", lambda cell, _: cell.suboptimal_share
        ),
        "time": Column("time", lambda cell, _: f"{cell.outcome.seconds:.2f} s", lambda cell, _: cell.outcome.seconds),
        "speed": Column(
            "steps/s", lambda cell, _: f"{cell.steps_per_second / 1e6:.1f} M", lambda cell, _: cell.steps_per_second
        ),
    }
    if all(cell.window is None for cell in cells):
        del parts["window"]
    if all(cell.label.published is None for cell in cells):
        del parts["published"]
    if len({cell.label.policy for cell in cells}) == 1:
        del parts["best"]
    epsilon = Column("ε", lambda cell, _: cell.label.setting.removeprefix("ε = "), lambda cell, _: cell.label.epsilon)
    policy = Column("policy", lambda cell, _: cell.label.policy, lambda cell, _: cell.label.policy, "left", whole=False)
    return [epsilon, policy, *parts.values()]


def are_many(cells: Sequence[Cell]) -> bool:
    """Tell whether there are more cells than somebody would look at one by one."""
    return len(cells) > MANY


def problems(cells: Sequence[Cell]) -> list[tuple[str, list[list[Cell]]]]:
    """Return the cells by problem, and within one by corruption: there policies are compared."""
    return [
        (problem, [list(group) for _, group in groupby(members, key=lambda cell: cell.label.epsilon)])
        for problem, members in groupby(cells, key=lambda cell: cell.label.problem)
    ]


def contenders(group: Sequence[Cell]) -> list[Cell]:
    """Return the policies that are not told what nobody can know; where all are, all."""
    return [cell for cell in group if not cell.outcome.question["policy"].startswith("oracle")] or list(group)


def lowest(group: Sequence[Cell]) -> float:
    """Return the lowest mean regret of a group, oracles left aside."""
    return min(float(cell.mean[-1]) for cell in contenders(group))


def stands_out(cell: Cell, group: Sequence[Cell]) -> bool:
    """Tell whether a cell has the lowest regret among others."""
    return len(group) > 1 and cell in contenders(group) and float(cell.mean[-1]) == lowest(group)


def as_table(
    problem: str,
    groups: Sequence[Sequence[Cell]],
    width: int = WIDE,
    encoding: str = "utf-8",
    shown: Sequence[Column] = (),
) -> Table:
    """Return one problem's table for a terminal, with these columns or the usual; the best policy of each is bold."""
    first = groups[0][0]
    facts = f"{problem}: {first.horizon:,} {first.unit}, {first.runs:,} runs, {summary.in_words(first)}"
    if shown:
        facts = f"{problem}: regret by group"
    else:
        shown = columns([cell for group in groups for cell in group])
    if width < WIDE:
        shown = [column for column in shown if column.heading != "steps/s"]
    table = Table(
        title=Text(for_terminal(facts, encoding)),
        title_justify="left",
        box=SIMPLE_HEAD if encoding.startswith("utf") else SIMPLE_ASCII,
        padding=(0, 1, 0, 0),
    )
    texts = [
        [[for_terminal(column.say(cell, lowest(group)), encoding) for column in shown] for cell in group]
        for group in groups
    ]
    for column, said in zip(shown, zip(*(row for rows in texts for row in rows), strict=True), strict=True):
        heading = for_terminal(column.heading, encoding)
        table.add_column(
            heading, justify=column.justify, min_width=narrowest(said, column.whole, width), overflow="fold"
        )
    for group, rows in zip(groups, texts, strict=True):
        for cell, row in zip(group, rows, strict=True):
            style = "bold" if stands_out(cell, group) else ""
            table.add_row(*(Text(text, style=style) for text in row))
        if len(group) > 1:
            table.add_section()
    return table


def for_terminal(text: str, encoding: str) -> str:
    """Return a text that gives a terminal no orders, in the letters that it has."""
    return safe_text.spelled(safe_text.one_line(text), encoding)


def narrowest(texts: Sequence[str], whole: bool, width: int) -> int:
    """Return how much of a terminal's width texts need: names fold where it is narrow, a number is never broken."""
    if whole:
        return max(map(cell_len, texts))
    return min(width // 4, max(cell_len(word) for text in texts for word in text.split() or [""]))


def as_json(results: Results) -> dict[str, Any]:
    """Return the whole table as plain values that JSON can hold; an infinite epsilon is the word "inf"."""
    plan = results.plan
    document = {
        "title": plan.title,
        "version": plan.version,
        "command": plan.command,
        "complete": results.complete,
        "arms": plan.arms,
        "cells": [cell_as_json(cell) for cell in results.cells],
    }
    return {key: plain(value) for key, value in document.items()}


def cell_as_json(cell: Cell) -> dict[str, Any]:
    """Return what a row says, and what it takes to run the cell by itself."""
    question, label = cell.outcome.question, cell.label
    mean, half = float(cell.mean[-1]), float(cell.half_width[-1])
    return {
        "problem": label.problem,
        "epsilon": label.epsilon,
        "label": label.policy,
        "policy": question["policy"],
        "parameters": question["parameters"],
        "window_rule": label.window,
        "horizon": cell.horizon,
        "runs": cell.runs,
        "seed": question["seed"],
        "regret": {"mean": mean, "low": mean - half, "high": mean + half},
        "published": label.published,
        **groups_as_json(cell),
        "suboptimal_share": cell.suboptimal_share,
        "pulls": cell.outcome.pulls.mean(axis=0),
        "seconds": cell.outcome.seconds,
        "steps_per_second": cell.steps_per_second,
    }


def groups_as_json(cell: Cell) -> dict[str, Any]:
    """Return what a program wants to know of the groups, where there are any."""
    if cell.shares is None:
        return {}
    lost = [{"mean": mean, "low": mean - half, "high": mean + half} for mean, half in zip(*cell.by_group, strict=True)]
    return {"context": cell.asks_groups, "shares": cell.shares, "group_regret": lost}
