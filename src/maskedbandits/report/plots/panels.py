"""The panels of a page: each a drawing of its own, side by side or one below the other as there is room.

With each come the numbers that a reader finds under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maskedbandits.experiments.canonical_json import plain
from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, summary, svg
from maskedbandits.report.plots import context, pulls, regret_by_epsilon, regret_by_group, shares

Groups = Sequence[Sequence[Cell]]
Looks = dict[str, style.Look]

# The page's names for our colours: its style sheet says what they are in light and in dark.
COLOURS = {
    style.INK: "var(--ink)",
    style.PALE: "var(--axis)",
    style.GRID: "var(--line)",
    "#666666": "var(--pale)",
    **{colour.lower(): f"var(--series-{place})" for place, colour in enumerate(style.COLOURS)},
}


@dataclass(frozen=True)
class Panel:
    """One drawing of a page: its id, what stands above it, the drawing, and the numbers to be read from it if any."""

    name: str
    title: str
    drawing: str
    numbers: dict[str, Any] | None = None


class Margins(NamedTuple):
    """Room around a panel, in inches: for the labels at the left and below, and for numbers that stick out."""

    left: float = 0.72
    bottom: float = 0.5
    right: float = 0.24
    top: float = 0.1


USUAL = Margins()


def canvas(width: float = 4.9, height: float = 3.1, around: Margins = USUAL) -> tuple[Figure, Axes]:
    """Return a figure of so many inches and its panel."""
    figure = Figure(figsize=(width, height))
    left, bottom, right, top = around
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
    return figure, figure.add_axes(box)


def finished(figure: Figure, name: str, title: str, numbers: dict[str, Any] | None = None, label: str = "") -> Panel:
    """Return what was drawn, fit for a page; its title stands above it in the page's own letters."""
    [panel] = figure.axes
    panel.set_title("", loc="left")
    if numbers:
        box = panel.get_position()
        numbers |= {"top": round(1 - box.y1, 5), "bottom": round(1 - box.y0, 5)}
    return Panel(name, title, svg.inline(figure, name, label or title, COLOURS), numbers)


def regret_over_time(name: str, groups: Groups, drawn: Looks) -> list[Panel]:
    """Return a panel for each corruption, and one of the means where these change a lot."""
    made = []
    tops = [max(float(cell.mean[-1] + nothing_for_nan(cell.half_width[-1])) for cell in group) for group in groups]
    shared = style.one_scale(groups)
    for place, group in enumerate(groups):
        figure, panel = canvas()
        style.draw_panel(panel, group, drawn, label_changes=True)
        panel.set_ylim(style.lowest([group]), 1.05 * (max(tops) if shared else tops[place]) or 1.0)
        panel.set(xlabel="step", ylabel="regret so far")
        numbers = over_time_numbers(panel, group, drawn)
        made.append(finished(figure, f"{name}-{place}", style.setting_of(group), numbers))
    if summary.are_many(groups[0][0]):
        figure, panel = canvas()
        style.draw_means(panel, groups[0][0])
        panel.set_xlim(0, groups[0][0].horizon)
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.set_ylabel("means")
        made.append(finished(figure, f"{name}-means", "Means of the arms, the best one bold"))
    return made


def over_time_numbers(panel: Axes, group: Sequence[Cell], drawn: Looks) -> dict[str, Any]:
    """Return what is read from the curves of one corruption."""
    times = [int(time) for time in group[0].outcome.times]
    series = [line(drawn, cell.label.policy, cell.mean.tolist(), cell.half_width.tolist()) for cell in group]
    return {"places": places(panel, times), "heads": [f"step {time:,}" for time in times], "series": series}


def by_epsilon(name: str, groups: Groups, drawn: Looks) -> list[Panel]:
    """Return regret against epsilon."""
    figure, panel = canvas(6.0, 3.8, Margins(bottom=0.72))
    regret_by_epsilon.draw(panel, groups, drawn)
    where = regret_by_epsilon.places_of([regret_by_epsilon.epsilon_of(group[0]) for group in groups])
    series = []
    for policy in drawn:
        cells = [next((cell for cell in group if cell.label.policy == policy), None) for group in groups]
        if any(cells):
            means = [math.nan if cell is None else float(cell.mean[-1]) for cell in cells]
            halves = [math.nan if cell is None else float(cell.half_width[-1]) for cell in cells]
            series.append(line(drawn, policy, means, halves))
    heads = [style.setting_of(group) for group in groups]
    at = places(panel, [where[regret_by_epsilon.epsilon_of(group[0])] for group in groups])
    numbers = {"places": at, "heads": heads, "series": series}
    return [finished(figure, name, "", numbers, "Regret against epsilon")]


def arm_shares(name: str, groups: Groups) -> list[tuple[str, list[Panel]]]:
    """Return for each policy a row of small panels, one for each corruption."""
    cells = [cell for group in groups for cell in group]
    arms, rows = shares.coloured(cells), []
    for number, policy in enumerate(dict.fromkeys(cell.label.policy for cell in cells)):
        row = []
        for place, cell in enumerate(cell for cell in cells if cell.label.policy == policy):
            figure, panel = canvas(2.9, 1.5, Margins(0.34, 0.24, 0.14, 0.06))
            shares.draw(panel, cell, arms, shares.intervals(len(cells)))
            panel.tick_params(labelsize=8)
            row.append(finished(figure, f"{name}-{number}-{place}", cell.label.setting))
        rows.append((policy, row))
    return rows


def against_bounds(name: str, rows: Sequence[pulls.Pulls], settings: Sequence[str], drawn: Looks) -> list[Panel]:
    """Return measured pulls beside the bounds."""
    figure, panel = canvas(6.0, 3.6)
    pulls.draw(panel, rows, settings, drawn)
    series = []
    for policy in dict.fromkeys(row.cell.label.policy for row in rows):
        own = {row.cell.label.setting: row for row in rows if row.cell.label.policy == policy}
        found = [own.get(setting) for setting in settings]
        halves = [math.nan if row is None else row.half_width for row in found]
        for what, values in (
            ("measured", [math.nan if row is None else row.measured for row in found]),
            ("published bound", [math.nan if row is None else row.published for row in found]),
            ("proved bound", [math.nan if row is None else row.proved for row in found]),
        ):
            series.append(line(drawn, policy, values, halves if what == "measured" else None, f", {what}"))
    numbers = {"places": places(panel, list(range(len(settings)))), "heads": list(settings), "series": series}
    return [finished(figure, name, "", numbers, "Pulls of worse arms and their bounds")]


def by_group(name: str, groups: Groups, drawn: Looks) -> list[Panel]:
    """Return what visitors of each group have lost, a panel for each corruption."""
    made = []
    for place, group in enumerate(groups):
        figure, panel = canvas()
        regret_by_group.draw(panel, group, drawn)
        panel.set_ylim(regret_by_group.scale(groups))
        panel.set(xlabel="group", ylabel="lost per visitor")
        made.append(finished(figure, f"{name}-{place}", style.setting_of(group)))
    return made


def when_context_pays(name: str, problems: context.Problems) -> list[Panel]:
    """Return what a choice for each group loses beside one arm for everybody, a panel for each problem."""
    made = []
    for place, (problem, own) in enumerate(problems):
        figure, panel = canvas(3.9, 2.9)
        context.draw(panel, own, problems)
        context.label(panel)
        panel.set(xlabel="visitors so far", ylabel=context.RATIO)
        made.append(finished(figure, f"{name}-{place}", problem))
    return made


def line(
    drawn: Looks, policy: str, values: Sequence[float], halves: Sequence[float] | None, what: str = ""
) -> dict[str, Any]:
    """Return the numbers of one policy, with no more digits than are shown."""
    number = list(drawn).index(policy)
    return {"number": number, "what": what, "values": short(values), "halves": halves and short(halves)}


def short(values: Sequence[float]) -> Any:
    """Return numbers for a page: six digits of each; a page has no word for what is no number."""
    return plain([float(f"{value:.6g}") for value in values])


def places(panel: Axes, where: Sequence[float]) -> list[float]:
    """Return where values of the horizontal axis stand, as shares of the figure's width."""
    figure = panel.get_figure(root=True)
    width = figure.bbox.width if figure else 1.0
    across = panel.get_xaxis_transform().transform([(value, 0.0) for value in where])[:, 0] / width
    return [round(float(share), 5) for share in across]


def nothing_for_nan(value: float) -> float:
    """Return a number, or 0 where there is none."""
    return 0.0 if math.isnan(value) else float(value)
