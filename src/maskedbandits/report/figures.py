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
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, MaxNLocator, NullLocator

from maskedbandits.experiments.results import Cell

# Okabe and Ito: told apart also by readers who do not see red or green. Yellow is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
INK, PALE = "#222222", "#8a8a8a"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
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
    """Return regret against time: one panel for each corruption."""
    count = min(len(groups), MOST_COLUMNS)
    rows = math.ceil(len(groups) / count)
    figure = Figure(figsize=(max(2.7 * count, 6.4), 2.7 * rows + 1.0), layout="constrained")
    panels = figure.subplots(rows, count, squeeze=False, sharex=True, sharey=one_scale(groups))
    for place, panel in enumerate(panels.flat):
        if place >= len(groups):
            panel.remove()
            continue
        draw_panel(panel, groups[place], drawn, label_changes=place == 0)
        below = place + count < len(groups)  # with a last row that is not full, the axis shows on the panel above it
        panel.tick_params(labelbottom=not below)
        panel.set_xlabel("" if below else "step")
    for row in panels:
        row[0].set_ylabel("regret so far")
    finish(figure, title, [cell.label.policy for group in groups for cell in group], drawn)
    return figure


def one_scale(groups: Sequence[Sequence[Cell]]) -> bool:
    """Tell whether the panels can share a scale: not where the curves of one would lie flat."""
    tops = [max(float(cell.mean[-1]) for cell in group) for group in groups]
    return max(tops) <= 3 * min(tops)


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
    panel.set_ylim(bottom=0)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    for time in group[0].changes:
        panel.axvline(time, color=PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
    if label_changes and group[0].changes:
        panel.annotate(
            "change",
            (group[0].changes[0], 1),
            xycoords=panel.get_xaxis_transform(),
            xytext=(3, -3),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=8.5,
            color="#666666",
        )


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
    figure.legend(
        lines,
        shown,
        title=title,
        title_fontproperties={"size": 13, "weight": "bold"},
        alignment="left",
        loc="outside upper left",
        ncols=max(1, min(len(shown), int(figure.get_figwidth() // 3))),
    )
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lay out once, not again for every format
    figure.set_layout_engine("none")


def as_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a png or pdf file, free of dates and versions."""
    stream = io.BytesIO()
    undated = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None, "Creator": None}}
    figure.savefig(stream, format=kind, metadata=undated[kind])
    return stream.getvalue()
