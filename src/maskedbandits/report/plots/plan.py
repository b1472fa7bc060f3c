"""The figure of a plan: successes lost at every epsilon, and how many of them by privacy."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import EngFormatter, MaxNLocator

from maskedbandits.planner import Plan
from maskedbandits.planner.text import count_noun, format_count, format_epsilon
from maskedbandits.report.page import save_file
from maskedbandits.report.style import COLOURS, INK, PALE, render, use_style

MAX_BLIND_RATIO = 2.0  # a higher loss of a blind choice is not drawn: all bars would look small beside it
LEARNING, PRIVACY, ADVISED = "#c4c4c4", COLOURS[4], COLOURS[0]


def write_figure(plan: Plan, folder: Path) -> list[Path]:
    """Write the figure as png and pdf, and return the files; the same plan gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with use_style():
        figure = draw_figure(plan)
        for kind in ("png", "pdf"):
            paths.append(folder / f"plan.{kind}")
            save_file(paths[-1], render(figure, kind))
    return paths


def draw_figure(plan: Plan) -> Figure:
    """Return the loss against epsilon: the loss of learning in grey, the part added by privacy in colour."""
    figure = Figure(figsize=(max(6.4, 0.95 * len(plan.levels) + 1.2), 4.4), layout="constrained")
    panel = figure.subplots()
    draw_bars(panel, plan)
    draw_blind(panel, plan)
    panel.set_xticks(range(len(plan.levels)), [format_tick(level.epsilon) for level in plan.levels])
    panel.tick_params(axis="x", length=0)
    panel.set_xlabel("ε: more privacy to the left, less to the right")
    panel.set_ylabel(f"successes lost among {plan.inputs.horizon:,} people")
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    figure.legend(
        title=format_title(plan),
        title_fontproperties=FontProperties(size=13, weight="bold"),
        alignment="left",
        loc="outside upper left",
        ncols=3,
    )
    FigureCanvasAgg(figure)
    return figure


def format_title(plan: Plan) -> str:
    """Return the advice and the inputs in a few words."""
    inputs = plan.inputs
    advised = plan.advice.epsilon
    advice = "No ε is within the tolerance" if advised is None else f"Take ε = {advised:g}"
    return (
        f"{advice}: {inputs.arms:,} arms, {count_noun(inputs.changes, 'change')}, gap {inputs.gap:g}, {inputs.policy}"
    )


def format_tick(epsilon: float) -> str:
    """Return the label of a tick."""
    text = format_epsilon(epsilon)
    return "no\nprivacy" if text == "none" else text


def draw_bars(panel: Axes, plan: Plan) -> None:
    """Draw a bar for every epsilon, with its interval and its number."""
    baseline = plan.levels[-1].loss.mean
    tops = [level.loss.mean for level in plan.levels]
    places = range(len(tops))
    colours = [ADVISED if level.epsilon == plan.advice.epsilon else PRIVACY for level in plan.levels]
    panel.bar(places, [min(top, baseline) for top in tops], 0.62, color=LEARNING, label="lost by learning")
    added = [max(top - baseline, 0.0) for top in tops]
    panel.bar(places, added, 0.62, bottom=baseline, color=colours)
    panel.bar([0], [0], color=PRIVACY, label="added by privacy")
    if plan.advice.epsilon is not None:
        panel.bar([0], [0], color=ADVISED, label=f"ε = {plan.advice.epsilon:g}, advised")
    halves = [level.loss.high - level.loss.mean for level in plan.levels]
    panel.errorbar(places, tops, yerr=halves, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4)
    for place, level in zip(places, plan.levels, strict=True):
        panel.annotate(
            format_count(level.loss.mean),
            (place, level.loss.high),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
        )


def draw_blind(panel: Axes, plan: Plan) -> None:
    """Draw the loss of a blind choice, if the bars stay readable beside it."""
    highest = max(level.loss.high for level in plan.levels)
    blind = plan.blind_loss
    if blind <= MAX_BLIND_RATIO * highest:
        panel.axhline(blind, color=PALE, linewidth=1.2, linestyle=(0, (4, 3)))
        panel.annotate(
            f"a blind choice loses {format_count(blind)}",
            (1, blind),
            xycoords=panel.get_yaxis_transform(),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            color=PALE,
            fontsize=9.5,
        )
    panel.set_ylim(0, 1.12 * max(highest, blind if blind <= MAX_BLIND_RATIO * highest else 0.0))
