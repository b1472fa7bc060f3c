"""When context pays: a choice for each group beside one arm for everybody, by the audience and by epsilon.

Two cells are compared that differ in nothing else: the first policy of the file that chooses for each group, and the
same policy with one arm for everybody. Context pays from a checkpoint on if from there to the end it has lost less, and
the 95 % intervals are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, tables
from maskedbandits.report.summary import epsilon_text, listed

MOST_COLUMNS = 3
RATIO = "regret with context : without"
MANY = 9  # problems: fewer are told one by one
FURTHEST = 1024.0  # times as much, or as little, that a panel shows


@dataclass(frozen=True, eq=False)
class Pair:
    """The same policy on the same problem, with a choice for each group and with one arm for everybody."""

    asking: Cell
    plain: Cell

    @lockfree_cached_property
    def gained(self) -> NDArray[np.float64]:
        """How many times the regret of one arm for everybody that of a choice for each group is, by checkpoint."""
        return np.asarray(self.asking.mean / np.maximum(self.plain.mean, 1e-12))

    @property
    def pays_from(self) -> int | None:
        """The first checkpoint from which on a choice for each group has lost less, intervals apart, to the end."""
        return self._from(self.asking, self.plain)

    @property
    def costs(self) -> bool:
        """Whether a choice for each group has lost more in the end, intervals apart."""
        return self._from(self.plain, self.asking) is not None

    @staticmethod
    def _from(less: Cell, more: Cell) -> int | None:
        apart = less.mean + less.half_width < more.mean - more.half_width  # never with a single run
        behind = np.flatnonzero(~apart)
        first = int(behind[-1]) + 1 if behind.size else 0
        return int(less.outcome.times[first]) if first < apart.size else None

    @property
    def in_words(self) -> str:
        """When it pays, as a table says it."""
        if (first := self.pays_from) is not None:
            return f"{first:,}"
        return "no" if self.costs else "unclear"


Problems = Sequence[tuple[str, Sequence[Pair]]]


def pairs(cells: Sequence[Cell]) -> list[tuple[str, list[Pair]]]:
    """Return the pairs of every problem that has some, one for each epsilon."""
    found = []
    for problem, groups in tables.problems(cells):
        own = [pair for group in groups if (pair := pair_of(group)) is not None]
        if own:
            found.append((problem, own))
    return found


def pair_of(group: Sequence[Cell]) -> Pair | None:
    """Return the pair of one corruption, if it has one."""
    for cell in group:
        for other in group:
            alike = other.outcome.question["policy"] == cell.outcome.question["policy"]
            if cell.asks_groups and other.shares is not None and not other.asks_groups and alike:
                return Pair(cell, other)
    return None


def sentence(problems: Problems) -> str:
    """Return when context pays; of many problems, how often."""
    if len(problems) > MANY:
        every = [pair for _, own in problems for pair in own]
        pays, costs = sum(pair.pays_from is not None for pair in every), sum(pair.costs for pair in every)
        return f"A choice for each group pays in {pays} of {len(every)} comparisons, and loses more in {costs}."
    return f"A choice for each group pays {'; '.join(said(name, own, len(problems) > 1) for name, own in problems)}."


def said(problem: str, own: Sequence[Pair], named: bool) -> str:
    """Return when it pays on a problem: at which epsilons, and from how many visitors on."""
    where = f"on “{problem}” " if named else ""
    paying = [pair for pair in own if pair.pays_from is not None]
    if not paying:
        loses = "loses more" if all(pair.costs for pair in own) else "is not seen to lose less"
        return f"{where}at no ε up to {own[0].asking.horizon:,} visitors, where it {loses}"
    at = "" if len(paying) == len(own) else f"at ε = {listed([epsilon_text(pair.asking) for pair in paying])}, "
    first, last = (choose(paying, key=lambda pair: pair.pays_from or 0) for choose in (min, max))
    ends = [f"{pair.pays_from:,} visitors ({pair.asking.label.setting})" for pair in (first, last)]
    return f"{where}{at}from {ends[0] if first.pays_from == last.pays_from else ' to '.join(ends)} on"


def settings(problems: Problems) -> list[str]:
    """Return the corruptions of all problems."""
    return list(dict.fromkeys(pair.asking.label.setting for _, own in problems for pair in own))


def colour_of(setting: str, problems: Problems) -> str:
    """Return the colour of a corruption."""
    return style.COLOURS[settings(problems).index(setting) % len(style.COLOURS)]


def draw(panel: Axes, own: Sequence[Pair], problems: Problems) -> None:
    """Draw how many times the regret of one arm for everybody a choice for each group has, by the audience."""
    low, high = bounds(problems)
    panel.axhspan(low, 1.0, color="#009E73", alpha=0.12, linewidth=0)
    panel.axhline(1.0, color=style.INK, linewidth=1.2)
    for pair in own:
        colour = colour_of(pair.asking.label.setting, problems)
        panel.plot(pair.asking.outcome.times, np.clip(pair.gained, low, high), color=colour)
        if (first := pair.pays_from) is not None:
            place = int(np.searchsorted(pair.asking.outcome.times, first))
            panel.plot([first], [np.clip(pair.gained[place], low, high)], "o", color=colour, markersize=7)
    panel.set_xscale("log")
    panel.set_yscale("log", base=2)
    panel.set_ylim(low, high)
    panel.set_xlim(int(own[0].asking.outcome.times[0]), own[0].asking.horizon)
    panel.xaxis.set_major_locator(LogLocator())
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(base=4))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: times_as_much(value)))
    panel.yaxis.set_minor_locator(NullLocator())


def times_as_much(value: float) -> str:
    """Return a ratio as an axis tells it."""
    return f"{value:g}×" if value >= 1.0 else f"1/{1.0 / value:g}×"


def bounds(problems: Problems) -> tuple[float, float]:
    """Return where the scale of the ratio begins and ends: the same in all panels."""
    seen = np.concatenate([pair.gained for _, own in problems for pair in own])
    low = 2.0 ** np.floor(np.log2(max(min(float(seen.min()), 0.5), 1.0 / FURTHEST)))
    high = 2.0 ** np.ceil(np.log2(min(max(float(seen.max()), 2.0), FURTHEST)))
    return float(low), float(high)


def label(panel: Axes) -> None:
    """Say which half is which."""
    for height, words, side in ((0.98, "context costs", "top"), (0.03, "context pays", "bottom")):
        panel.text(0.03, height, words, transform=panel.transAxes, va=side, fontsize=9.5, color="#666666")


def figure(title: str, problems: Problems) -> Figure:
    """Return a panel for each problem, on one scale."""
    count = min(len(problems), MOST_COLUMNS)
    rows = -(-len(problems) // count)
    made = Figure(figsize=(max(3.3 * count, 6.4), 3.0 * rows + 1.0), layout="constrained")
    panels = made.subplots(rows, count, squeeze=False, sharey=True)
    for place, panel in enumerate(panels.flat):
        if place >= len(problems):
            panel.remove()
            continue
        problem, own = problems[place]
        draw(panel, own, problems)
        label(panel)
        above = panel.set_title("problem", loc="left", fontsize=10.5)
        room = made.get_figwidth() / count - 0.5
        style.literal(above, style.fitted(problem, room, above.get_fontproperties()))
        panel.set_xlabel("visitors so far" if place + count >= len(problems) else "")
    for row in panels:
        row[0].set_ylabel(RATIO)
    shown = settings(problems)
    handles = [Line2D([], [], color=colour_of(setting, problems)) for setting in shown]
    style.finish(made, title, handles, shown)
    return made
