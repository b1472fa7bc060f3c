"""Pulls of worse arms, measured, beside what the bounds of theory allow: for SW-KLUCB-CF, of which they speak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, NullLocator

from maskedbandits import theory
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.experiments.results import Cell, half_width
from maskedbandits.problems import Problem
from maskedbandits.report import style, summary

ASIDE = 0.13  # how far policies stand apart, of the way from one corruption to the next
MARKS = {"measured": "o", "published bound": "x", "proved bound": "_"}


@dataclass(frozen=True)
class Pulls:
    """All pulls of worse arms in a run of a cell: the measured mean with half of its 95 % interval, and the bounds."""

    cell: Cell
    measured: float
    half_width: float  # NaN with a single run
    published: float
    proved: float


def bounded(cell: Cell) -> bool:
    """Tell whether the bounds speak of a cell: its policy as the paper has it, in a world that changes now and then."""
    question = cell.outcome.question
    plain = question["policy"] == "sw-klucb-cf" and set(question["parameters"]) <= {"window", "c"}
    plain = plain and "record" not in question  # what was recorded stands still in no period
    plain = plain and "noise" not in question  # the proofs are about bits
    plain = plain and cell.shares is None
    return plain and isinstance(cell.window, int) and cell.window >= cell.arms and not summary.are_many(cell)


def against_bounds(cell: Cell) -> Pulls:
    """Return what was measured in a cell, and what the bounds allow."""
    question = cell.outcome.question
    masks = [RandomizedResponse(p00, p11) for p00, p11 in zip(question["p00"], question["p11"], strict=True)]
    problem = Problem(question["means"], question["starts"], cell.horizon, masks)
    wasted = cell.outcome.suboptimal_pulls.sum(axis=1)
    window = int(question["parameters"]["window"])
    return Pulls(
        cell=cell,
        measured=float(wasted.mean()),
        half_width=float(half_width(wasted)),
        published=float(theory.published_bound(problem, window).sum()),
        proved=float(theory.corrected_bound(problem, window, question["parameters"].get("c", 3.0)).sum()),
    )


def draw(panel: Axes, rows: Sequence[Pulls], settings: Sequence[str], drawn: dict[str, style.Look]) -> None:
    """Draw three marks for each cell, corruptions side by side, on a log scale; a line shows all steps."""
    policies = list(dict.fromkeys(row.cell.label.policy for row in rows))
    for row in rows:
        policy = row.cell.label.policy
        place = settings.index(row.cell.label.setting) + ASIDE * (policies.index(policy) - (len(policies) - 1) / 2)
        colour = drawn[policy].colour
        for (what, mark), height in zip(MARKS.items(), (row.measured, row.published, row.proved), strict=True):
            size, width = (13, 2.2) if mark == "_" else (6, 1.6)
            shown = [height if 0.0 < height < math.inf else math.nan]  # a log scale has no other place
            [line] = panel.plot([place], shown, mark, color=colour, markersize=size, markeredgewidth=width)
            name = f"{settings.index(row.cell.label.setting)}-{what.replace(' ', '-')}"
            style.identify(panel, policy, drawn, **{name: line})
        half = 0.0 if math.isnan(row.half_width) else row.half_width
        bar = panel.vlines(place, max(row.measured - half, 0.5), max(row.measured + half, 0.5), color=colour)
        style.identify(panel, policy, drawn, **{f"{settings.index(row.cell.label.setting)}-bar": bar})
    panel.axhline(rows[0].cell.horizon, color=style.PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
    panel.set_yscale("log")
    panel.set_xlim(-0.5, len(settings) - 0.5)
    panel.xaxis.set_major_locator(FixedLocator(range(len(settings))))
    panel.xaxis.set_major_formatter(FixedFormatter(list(settings)))
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if tall(rows) < 100 else (1,)))
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylabel("pulls of worse arms")


def tall(rows: Sequence[Pulls]) -> float:
    """Return how many times the lowest mark the highest is."""
    heights = [height for row in rows for height in (row.measured, row.published, row.proved)]
    finite = [height for height in heights if 0.0 < height < math.inf]
    return max(finite, default=1.0) / min(finite, default=1.0)


def figure(title: str, rows: Sequence[Pulls], settings: Sequence[str], drawn: dict[str, style.Look]) -> Figure:
    """Return measured pulls beside the bounds, with a legend for the colours and one for the marks."""
    made = Figure(figsize=(6.4, 4.4), layout="constrained")
    panel = made.subplots()
    draw(panel, rows, settings, drawn)
    handles, names = style.entries([row.cell.label.policy for row in rows], drawn)
    marks = [Line2D([], [], color=style.INK, marker=mark, linestyle="") for mark in MARKS.values()]
    style.finish(made, title, [*handles, *marks], [*names, *MARKS])
    return made
