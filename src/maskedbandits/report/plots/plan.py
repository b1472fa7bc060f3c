"""The figure of a plan: what is lost at every epsilon, and how much of it by privacy."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import EngFormatter, MaxNLocator

from maskedbandits.planner import Plan
from maskedbandits.planner.text import counted, epsilon_text, successes
from maskedbandits.report.page import save
from maskedbandits.report.style import COLOURS, INK, PALE, as_bytes, our_style

BESIDE = 2.0  # a blind choice's loss is drawn unless all others would look small beside it
LEARNING, PRIVACY, ADVISED = "#c4c4c4", COLOURS[4], COLOURS[0]


def write(plan: Plan, folder: Path) -> list[Path]:
    """Write the figure as png and pdf; the same plan gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with our_style():
        drawn = figure(plan)
        for kind in ("png", "pdf"):
            paths.append(folder / f"plan.{kind}")
            save(paths[-1], as_bytes(drawn, kind))
    return paths


def figure(plan: Plan) -> Figure:
    """Return what is lost against epsilon: what learning loses anyway in grey, and what privacy adds in colour."""
    made = Figure(figsize=(max(6.4, 0.95 * len(plan.levels) + 1.2), 4.4), layout="constrained")
    panel = made.subplots()
    draw_bars(panel, plan)
    draw_blind(panel, plan)
    panel.set_xticks(range(len(plan.levels)), [tick(level.epsilon) for level in plan.levels])
    panel.tick_params(axis="x", length=0)
    panel.set_xlabel("ε: more privacy to the left, less to the right")
    panel.set_ylabel(f"successes lost among {plan.question.horizon:,} people")
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    made.legend(
        title=heading(plan),
        title_fontproperties=FontProperties(size=13, weight="bold"),
        alignment="left",
        loc="outside upper left",
        ncols=3,
    )
    FigureCanvasAgg(made)
    return made


def heading(plan: Plan) -> str:
    """Return what the figure says, in a few words."""
    asked = plan.question
    advised = plan.advice.epsilon
    told = "No ε is within the tolerance" if advised is None else f"Take ε = {advised:g}"
    return f"{told}: {asked.arms:,} arms, {counted(asked.changes, 'change')}, gap {asked.gap:g}, {asked.policy}"


def tick(epsilon: float) -> str:
    """Return an epsilon as its tick says it."""
    text = epsilon_text(epsilon)
    return "no\nprivacy" if text == "none" else text


def draw_bars(panel: Axes, plan: Plan) -> None:
    """Draw a bar for every epsilon, its interval, and its number."""
    anyway = plan.levels[-1].loss.mean
    tops = [level.loss.mean for level in plan.levels]
    places = range(len(tops))
    colours = [ADVISED if level.epsilon == plan.advice.epsilon else PRIVACY for level in plan.levels]
    panel.bar(places, [min(top, anyway) for top in tops], 0.62, color=LEARNING, label="lost by learning")
    added = [max(top - anyway, 0.0) for top in tops]
    panel.bar(places, added, 0.62, bottom=anyway, color=colours)
    panel.bar([0], [0], color=PRIVACY, label="added by privacy")
    if plan.advice.epsilon is not None:
        panel.bar([0], [0], color=ADVISED, label=f"ε = {plan.advice.epsilon:g}, advised")
    halves = [level.loss.high - level.loss.mean for level in plan.levels]
    panel.errorbar(places, tops, yerr=halves, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4)
    for place, level in zip(places, plan.levels, strict=True):
        panel.annotate(
            successes(level.loss.mean),
            (place, level.loss.high),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
        )


def draw_blind(panel: Axes, plan: Plan) -> None:
    """Draw what a blind choice loses, where the bars stay readable beside it."""
    highest = max(level.loss.high for level in plan.levels)
    blind = plan.blind_loss
    if blind <= BESIDE * highest:
        panel.axhline(blind, color=PALE, linewidth=1.2, linestyle=(0, (4, 3)))
        panel.annotate(
            f"a blind choice loses {successes(blind)}",
            (1, blind),
            xycoords=panel.get_yaxis_transform(),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            color=PALE,
            fontsize=9.5,
        )
    panel.set_ylim(0, 1.12 * max(highest, blind if blind <= BESIDE * highest else 0.0))
