"""Figures: regret against time, and regret against epsilon, each with its 95 % interval.

They are drawn without pyplot and without the reader's own matplotlib settings, and carry no dates: the same
results give the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, MaxNLocator, NullLocator

from maskedbandits.experiments.results import Cell
from maskedbandits.report import changes, lettering

# Okabe and Ito: told apart also by readers who do not see red or green. Yellow is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
INK, PALE = "#222222", "#8a8a8a"
STYLE: dict[str, Any] = {
    "font.family": lettering.FAMILY,
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
}
MOST_COLUMNS = 4
LEGEND_LINE, LEGEND_HANDLE, MARGIN = (
    0.225,
    0.7,
    0.4,
)  # inches: the height of a line, what stands beside a name, the edge


class Look(NamedTuple):
    """How a policy is drawn, the same in every figure of a report."""

    colour: str
    dash: Dash


@contextmanager
def our_style() -> Iterator[None]:
    """Draw with our settings alone, and put the reader's own back."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # the stubs want literal keys
        yield


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """Return how each policy is drawn: colours first, and other dashes once the colours are used up."""
    ordered = list(dict.fromkeys(policies))
    size = len(COLOURS)
    return {
        policy: Look(COLOURS[place % size], DASHES[place // size % len(DASHES)]) for place, policy in enumerate(ordered)
    }


def regret_over_time(title: str, groups: Sequence[Sequence[Cell]], drawn: dict[str, Look]) -> Figure:
    """Return regret against time: one panel for each corruption, and under them the means where these change a lot."""
    count = min(len(groups), MOST_COLUMNS)
    rows = math.ceil(len(groups) / count)
    with_means = changes.are_many(groups[0][0])
    heights = [2.7] * rows + [1.2] * with_means
    figure = Figure(figsize=(max(2.7 * count, 6.4), sum(heights) + 1.0), layout="constrained")
    panels = figure.subplots(len(heights), count, squeeze=False, sharex=True, height_ratios=heights)
    curves = list(panels[:rows].flat)
    share_scale(curves[: len(groups)], count, one_scale(groups))
    for place, panel in enumerate(curves):
        if place >= len(groups):
            panel.remove()
            continue
        draw_panel(panel, groups[place], drawn, label_changes=place == 0)
        below = with_means or place + count < len(groups)  # else its own axis shows, also above a gap in the last row
        panel.tick_params(labelbottom=not below)
        panel.set_xlabel("" if below else "step")
    for panel in curves[: len(groups)]:
        panel.set_ylim(bottom=0)  # once all are drawn: it also ends the search for a scale that holds all curves
    if with_means:
        share_scale(list(panels[-1]), count, same=True)
        for panel in panels[-1]:
            draw_means(panel, groups[0][0])
        panels[-1][0].set_ylabel("means")
    for row in panels[:rows]:
        row[0].set_ylabel("regret so far")
    finish(figure, title, [cell.label.policy for group in groups for cell in group], drawn)
    return figure


def one_scale(groups: Sequence[Sequence[Cell]]) -> bool:
    """Tell whether the panels can share a scale: not where the curves of one would lie flat."""
    tops = [max(float(cell.mean[-1]) for cell in group) for group in groups]
    return max(tops) <= 3 * min(tops)


def share_scale(panels: Sequence[Axes], count: int, same: bool) -> None:
    """Give panels in rows of so many one scale, told once for each row; or leave each its own."""
    for place, panel in enumerate(panels):
        if same and place:
            panel.sharey(panels[0])
            panel.tick_params(labelleft=place % count == 0)


def draw_panel(panel: Axes, group: Sequence[Cell], drawn: dict[str, Look], label_changes: bool) -> None:
    """Draw the policies of one corruption: a line for the mean, a band for its 95 % interval."""
    for cell in group:
        look = drawn[cell.label.policy]
        times, mean, half = (np.concatenate([[0], part]) for part in (cell.outcome.times, cell.mean, cell.half_width))
        panel.plot(times, mean, color=look.colour, linestyle=look.dash)
        panel.fill_between(times, mean - half, mean + half, color=look.colour, alpha=0.25, linewidth=0)
    no_privacy = group[0].label.epsilon == math.inf
    panel.set_title(group[0].label.setting + (", no privacy" if no_privacy else ""), loc="left")
    panel.set_xlim(0, group[0].horizon)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    if not changes.are_many(group[0]):
        mark_changes(panel, group[0].changes, label_changes)


def mark_changes(panel: Axes, times: Sequence[int], with_label: bool) -> None:
    """Draw a dashed vertical at each change."""
    for time in times:
        panel.axvline(time, color=PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
    if with_label and times:
        panel.annotate(
            "change",
            (times[0], 1),
            xycoords=panel.get_xaxis_transform(),
            xytext=(3, -3),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=8.5,
            color="#666666",
        )


def draw_means(panel: Axes, cell: Cell) -> None:
    """Draw the arms' means over time, thin, and the best of them at each time on top."""
    times, means = changes.curves(cell)
    for heights, colour, width in ((means, PALE, 0.8), (means.max(axis=1, keepdims=True), INK, 1.3)):
        if cell.drifts:
            panel.plot(times, heights, color=colour, linewidth=width)
        else:  # jumps would cover the panel with verticals
            left, right = (np.repeat(ends, heights.shape[1]) for ends in (times[:-1], times[1:]))
            panel.hlines(heights[:-1].ravel(), left, right, color=colour, linewidth=width)
    panel.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_xlabel("step")


def regret_by_epsilon(title: str, groups: Sequence[Sequence[Cell]], drawn: dict[str, Look]) -> Figure:
    """Return regret at the horizon against epsilon, both on log axes, with no privacy at all at the right."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    panel = figure.subplots()
    places = epsilon_places([epsilon_of(group[0]) for group in groups])
    policies = list(dict.fromkeys(cell.label.policy for group in groups for cell in group))
    for policy in policies:
        cells = [cell for group in groups for cell in group if cell.label.policy == policy]
        draw_against_epsilon(panel, cells, places, drawn[policy])
    panel.set_yscale("log")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(places.values())))
    panel.xaxis.set_major_formatter(FixedFormatter([epsilon_text(epsilon) for epsilon in places]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("ε: more privacy to the left, less to the right")
    panel.set_ylabel(f"regret after {groups[0][0].horizon:,} steps")
    finish(figure, title, policies, drawn)
    return figure


def draw_against_epsilon(panel: Axes, cells: Sequence[Cell], places: dict[float, float], look: Look) -> None:
    """Draw one policy; its line ends at the last epsilon, for infinity is not a point of the axis."""
    finite = [cell for cell in cells if math.isfinite(epsilon_of(cell))]
    for part in (finite, [cell for cell in cells if cell not in finite]):
        panel.errorbar(
            [places[epsilon_of(cell)] for cell in part],
            [float(cell.mean[-1]) for cell in part],
            yerr=np.nan_to_num([float(cell.half_width[-1]) for cell in part]),
            color=look.colour,
            linestyle=look.dash,
            marker="o",
            capsize=3,
        )


def epsilon_of(cell: Cell) -> float:
    """Return a cell's epsilon; a problem with matrices of its own has one group, and no such figure."""
    return math.nan if cell.label.epsilon is None else cell.label.epsilon


def epsilon_places(epsilons: Sequence[float]) -> dict[float, float]:
    """Return where each epsilon stands on the axis; infinity stands one step beyond the last."""
    finite = sorted(epsilon for epsilon in epsilons if math.isfinite(epsilon))
    places = {epsilon: epsilon for epsilon in finite}
    if len(finite) < len(epsilons):
        step = (finite[-1] / finite[0]) ** (1 / (len(finite) - 1)) if len(finite) > 1 else 2.0
        places[math.inf] = (finite[-1] if finite else 1.0) * step
    return places


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon as a tick says it."""
    return "∞\n(no privacy)" if math.isinf(epsilon) else f"{epsilon:g}"


def finish(figure: Figure, title: str, policies: Sequence[str], drawn: dict[str, Look]) -> None:
    """Put title and legend above the panels, where no curve can hide them, and lay everything out."""
    shown = [policy for policy in drawn if policy in policies]
    lines = [mpl.lines.Line2D([], [], color=drawn[policy].colour, linestyle=drawn[policy].dash) for policy in shown]
    small, large = FontProperties(), FontProperties(size=13, weight="bold")
    width = figure.get_figwidth() - MARGIN
    names = lettering.told_apart([lettering.fitted(name, width - LEGEND_HANDLE, small) for name in shown])
    columns = legend_columns([lettering.inches(name, small) for name in names], width)
    legend = figure.legend(
        lines,
        ["policy"] * len(shown),
        title="title",
        title_fontproperties=large,
        alignment="left",
        loc="outside upper left",
        ncols=columns,
    )
    lettering.write(legend, lettering.fitted(title, width, large), names)
    extra = max(0, math.ceil(len(shown) / columns) - 2)  # lines for which the figure has no room yet
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * extra)
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lay out once, not again for every format
    figure.set_layout_engine("none")


def legend_columns(widths: Sequence[float], room: float) -> int:
    """Return the most columns in which names of these widths fit into the room; they are filled one by one."""
    for count in range(len(widths), 1, -1):
        if sum(max(column) + LEGEND_HANDLE for column in np.array_split(widths, count)) <= room:
            return count
    return 1


def as_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a png or pdf file, free of dates and versions."""
    stream = io.BytesIO()
    undated = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None, "Creator": None}}
    figure.savefig(stream, format=kind, metadata=undated[kind])
    return stream.getvalue()
