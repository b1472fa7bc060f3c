"""Regret at the end against epsilon: what privacy costs, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, NullLocator

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style


def figure(title: str, groups: Sequence[Sequence[Cell]], drawn: dict[str, style.Look]) -> Figure:
    """Return regret at the horizon against epsilon, both on log axes, with no privacy at all at the right."""
    made = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw(made.subplots(), groups, drawn)
    style.finish(made, title, *style.entries([cell.label.policy for group in groups for cell in group], drawn))
    return made


def draw(panel: Axes, groups: Sequence[Sequence[Cell]], drawn: dict[str, style.Look]) -> None:
    """Draw every policy's regret at the horizon against epsilon."""
    places = places_of([epsilon_of(group[0]) for group in groups])
    above = [float(cell.mean[-1]) for group in groups for cell in group if cell.mean[-1] > 0.0]
    floor = min(above, default=1.0) / 2  # what lies below ends there
    for policy in drawn:
        cells = [cell for group in groups for cell in group if cell.label.policy == policy]
        draw_one(panel, cells, places, floor, drawn)
    panel.set_yscale("log")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(places.values())))
    panel.xaxis.set_major_formatter(FixedFormatter([text_of(epsilon) for epsilon in places]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("ε: more privacy to the left, less to the right")
    panel.set_ylabel(f"regret after {groups[0][0].horizon:,} {groups[0][0].unit}")


def draw_one(
    panel: Axes, cells: Sequence[Cell], places: dict[float, float], floor: float, drawn: dict[str, style.Look]
) -> None:
    """Draw one policy; its line and band end at the last epsilon, for infinity is not a point of the axis.

    They are drawn down to a floor: a log scale has no place for 0.
    """
    finite = [cell for cell in cells if math.isfinite(epsilon_of(cell))]
    for kind, part in (("finite", finite), ("infinite", [cell for cell in cells if cell not in finite])):
        part = [cell for cell in part if cell.mean[-1] > 0.0]
        if not part:
            continue
        policy, look = part[0].label.policy, drawn[part[0].label.policy]
        where = [places[epsilon_of(cell)] for cell in part]
        mean = np.array([cell.mean[-1] for cell in part])
        half = np.nan_to_num([cell.half_width[-1] for cell in part])
        low, high = np.maximum(mean - half, floor), mean + half
        [line] = panel.plot(where, mean, color=look.colour, linestyle=look.dash, marker="o")
        bars = panel.vlines(where, low, high, color=look.colour, linewidth=1.6)
        band = panel.fill_between(where, low, high, color=look.colour, alpha=0.25, linewidth=0)
        style.identify(panel, policy, drawn, **{f"{kind}-line": line, f"{kind}-bars": bars, f"{kind}-band": band})


def epsilon_of(cell: Cell) -> float:
    """Return a cell's epsilon; a problem with a mask of its own has one group, and no such figure."""
    return math.nan if cell.label.epsilon is None else cell.label.epsilon


def places_of(epsilons: Sequence[float]) -> dict[float, float]:
    """Return where each epsilon stands on the axis; infinity stands one step beyond the last."""
    finite = sorted(epsilon for epsilon in epsilons if math.isfinite(epsilon))
    places = {epsilon: epsilon for epsilon in finite}
    if len(finite) < len(epsilons):
        step = (finite[-1] / finite[0]) ** (1 / (len(finite) - 1)) if len(finite) > 1 else 2.0
        places[math.inf] = (finite[-1] if finite else 1.0) * step
    return places


def text_of(epsilon: float) -> str:
    """Return an epsilon as a tick says it."""
    return "∞\n(no privacy)" if math.isinf(epsilon) else f"{epsilon:g}"
