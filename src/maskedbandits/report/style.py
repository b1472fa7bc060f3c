"""The look of all figures, their lettering, and regret against time with its 95 % interval.

Figures: how all of them look, and regret against time with its 95 % interval.

They are drawn without pyplot and without the reader's own matplotlib settings, and carry no dates: the same
results give the same bytes. What is drawn of one policy has an id with its number: a page finds it there.

Somebody's own words in a figure: no formula, no character without a glyph, no longer than there is room.
"""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, MaxNLocator

from maskedbandits._util import safe_text
from maskedbandits.experiments.results import Cell
from maskedbandits.report import summary

# Okabe and Ito: told apart also by readers who do not see red or green. Yellow is too pale for a line.
FAMILY = "DejaVu Sans"  # comes with matplotlib: figures look the same on every machine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
INK, PALE, GRID = "#222222", "#8a8a8a", "#e6e6e6"
STYLE: dict[str, Any] = {
    "font.family": FAMILY,
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
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    "svg.hashsalt": "maskedbandits",  # else its ids would be others every time
}
KINDS: dict[str, dict[str, Any]] = {  # of files, and what they would say of the day and the program that made them
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
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
    with_means = summary.are_many(groups[0][0])
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
    for panel in curves[: len(groups)]:  # once all are drawn: it also ends the search for a scale that holds all curves
        panel.set_ylim(bottom=lowest(groups))
    if with_means:
        share_scale(list(panels[-1]), count, same=True)
        for panel in panels[-1]:
            draw_means(panel, groups[0][0])
        panels[-1][0].set_ylabel("means")
    for row in panels[:rows]:
        row[0].set_ylabel("regret so far")
    finish(figure, title, *entries([cell.label.policy for group in groups for cell in group], drawn))
    return figure


def one_scale(groups: Sequence[Sequence[Cell]]) -> bool:
    """Tell whether the panels can share a scale: not where the curves of one would lie flat."""
    tops = [max(float(cell.mean[-1]) for cell in group) for group in groups]
    return max(tops) <= 3 * min(tops)


def lowest(groups: Sequence[Sequence[Cell]]) -> float:
    """Return where a scale of regret begins: at 0, or below if what was recorded let a policy win."""
    return 1.05 * min(0.0, *(float(cell.mean.min()) for group in groups for cell in group))


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
        [line] = panel.plot(times, mean, color=look.colour, linestyle=look.dash)
        band = panel.fill_between(times, mean - half, mean + half, color=look.colour, alpha=0.25, linewidth=0)
        identify(panel, cell.label.policy, drawn, line=line, band=band)
    panel.set_title(setting_of(group), loc="left")
    panel.set_xlim(0, group[0].horizon)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    if not summary.are_many(group[0]):
        word = "period" if "record" in group[0].outcome.question else "change"
        mark_changes(panel, group[0].changes, word if label_changes else "")


def identify(panel: Axes, policy: str, drawn: dict[str, Look], **parts: Artist) -> None:
    """Give what is drawn of a policy an id: the panel's number, the policy's, and the part."""
    figure = panel.get_figure(root=True)
    place = figure.axes.index(panel) if figure else 0
    for name, part in parts.items():
        part.set_gid(f"panel-{place}-series-{list(drawn).index(policy)}-{name}")


def setting_of(group: Sequence[Cell]) -> str:
    """Return what stands above the panel of one corruption."""
    label = group[0].label
    return label.setting + (", no privacy" if label.epsilon == math.inf else "")


def mark_changes(panel: Axes, times: Sequence[int], word: str) -> None:
    """Draw a dashed vertical at each change, and beside the first say what it is."""
    for time in times:
        panel.axvline(time, color=PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
    if word and times:
        panel.annotate(
            word,
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
    times, means = summary.curves(cell)
    best = means.reshape(len(means), -1, cell.arms).max(axis=2)  # of each group
    for heights, colour, width in ((means, PALE, 0.8), (best, INK, 1.3)):
        if cell.drifts:
            panel.plot(times, heights, color=colour, linewidth=width)
        else:  # jumps would cover the panel with verticals
            left, right = (np.repeat(ends, heights.shape[1]) for ends in (times[:-1], times[1:]))
            panel.hlines(heights[:-1].ravel(), left, right, color=colour, linewidth=width)
    panel.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_xlabel("step")


def entries(policies: Sequence[str], drawn: dict[str, Look]) -> tuple[list[Artist], list[str]]:
    """Return the legend's lines and names of those policies that a figure has."""
    shown = [policy for policy in drawn if policy in policies]
    looks = [drawn[policy] for policy in shown]
    return [mpl.lines.Line2D([], [], color=look.colour, linestyle=look.dash) for look in looks], shown


def finish(figure: Figure, title: str, handles: Sequence[Artist], shown: Sequence[str]) -> None:
    """Put title and legend above the panels, where no curve can hide them, and lay everything out."""
    small, large = FontProperties(), FontProperties(size=13, weight="bold")
    width = figure.get_figwidth() - MARGIN
    names = told_apart([fitted(name, width - LEGEND_HANDLE, small) for name in shown])
    columns = legend_columns([inches(name, small) for name in names], width)
    legend = figure.legend(
        handles,
        ["policy"] * len(shown),
        title="title",
        title_fontproperties=large,
        alignment="left",
        loc="outside upper left",
        ncols=columns,
    )
    write(legend, fitted(title, width, large), names)
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
    """Return a figure as a file of one of KINDS, free of dates and versions."""
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=KINDS[kind])
    return stream.getvalue()


NO_GLYPH = "□"
LONGEST = 300  # characters that are looked at: more fit in no figure


@cache
def glyphs() -> frozenset[int]:
    """Return the characters that both of our weights can draw."""
    fonts = (get_font(findfont(FontProperties(family=FAMILY, weight=weight))) for weight in ("normal", "bold"))
    return frozenset.intersection(*(frozenset(font.get_charmap()) for font in fonts))


def drawable(text: str) -> str:
    """Return a text in characters that our font has; what others only modify is left out."""
    return "".join(_drawn(character) for character in safe_text.one_line(text[:LONGEST]))


def _drawn(character: str) -> str:
    if ord(character) in glyphs():
        return character
    return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else NO_GLYPH


def inches(text: str, font: FontProperties) -> float:
    """Return how wide a text is that our font can draw."""
    face = get_font(findfont(font))
    face.set_size(font.get_size_in_points(), 72)
    face.set_text(text)
    return face.get_width_height()[0] / 64 / 72  # it counts in 64ths of a point


def fitted(text: str, width: float, font: FontProperties) -> str:
    """Return a text as a figure can show it in so many inches: what does not fit ends in three dots."""
    text = drawable(text)
    whole = inches(text, font)
    if whole <= width:
        return text
    kept = text[: int(len(text) * width / whole) + 1]
    while kept and inches(f"{kept}…", font) > width:
        kept = kept[:-1]
    return f"{kept}…"


def told_apart(names: Sequence[str]) -> list[str]:
    """Return names of which no two are alike: those that are get their number."""
    return [f"({place}) {name}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def write(legend: Legend, title: str, names: Sequence[str]) -> None:
    """Put words into a legend as they are: a dollar starts no formula, an underscore hides no entry."""
    for text, words in zip([legend.get_title(), *legend.get_texts()], [title, *names], strict=True):
        literal(text, words)


def literal(text: Text, words: str) -> None:
    """Let a text show these words and nothing else."""
    text.set_parse_math(False)
    text.set_text(words)
