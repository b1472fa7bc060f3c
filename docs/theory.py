"""Write the tables of docs/theory.md and draw its figure: `python -m docs.theory`, some minutes.

Measured pulls against both bounds, windows against the best one, bounds where gaps differ, restarts by a test against
their bound, and how the regret of `auto` grows.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from bench import gaps, growth
from numpy.typing import NDArray

from docs import blocks, private_groups
from maskedbandits import theory
from maskedbandits.contextual import contextual_bound, make_contextual
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.policies import make_policy
from maskedbandits.problems import ContextualProblem, Problem
from maskedbandits.simulation.simulator import simulate

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PAGE = Path(__file__).with_suffix(".md")
FIGURE = PAGE.parent / "figures" / "bounds.png"
GROWTH = PAGE.parent / "figures" / "growth.png"
EPSILONS = (0.5, 1.0, 2.0, 4.0)
HORIZONS = (10**4, 10**5, 10**6)
RUNS = {10**4: 400, 10**5: 100, 10**6: 20}
ALARMS: dict[str, Any] = {"delta": 1e-6, "exploration": 3.0, "prior_changes": 2.0}
GRID = [2**k for k in range(4, 20)]  # windows tried, up to half the horizon

# Okabe and Ito's palette, for colour-blind readers and for print in grey
PUBLISHED, CORRECTED, MEASURED = "#D55E00", "#0072B2", "#000000"

FloatArray = NDArray[np.float64]


class Row(NamedTuple):
    """Pulls of a suboptimal arm, both arms together, at the paper's window."""

    epsilon: float
    horizon: int
    window: int
    measured: float
    interval: float  # half of the 95 % interval
    published: float
    corrected: float


def build_swapping(horizon: int, epsilon: float) -> Problem:
    """Two arms that change places in the middle."""
    corruption = RandomizedResponse.from_epsilon(epsilon)
    return Problem([[0.9, 0.4], [0.4, 0.9]], [0, horizon // 2], horizon, corruption)


def build_wandering(horizon: int, epsilon: float, arms: int, segments: int) -> Problem:
    """Arms whose means are drawn independently in every segment."""
    means = np.random.default_rng(7).uniform(0.1, 0.9, (segments, arms)).round(2)
    starts = np.arange(segments) * (horizon // segments)
    return Problem(means, starts, horizon, RandomizedResponse.from_epsilon(epsilon))


def play(problem: Problem, window: int, runs: int, seed: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return each run's suboptimal pulls and its regret at the horizon."""
    policy = make_policy("sw-klucb-cf", arms=problem.arms, corruption=problem.corruption, window=window)
    result = simulate(problem, policy, runs=runs, seed=seed, checkpoints=1)
    return result.suboptimal_pulls.sum(axis=1).astype(np.float64), result.regret[:, -1]


def _mean(sample: FloatArray) -> tuple[float, float]:
    """Return the mean and half of its 95 % interval."""
    return float(sample.mean()), float(1.96 * sample.std(ddof=1) / np.sqrt(sample.size))


def measure() -> Iterator[Row]:
    """Play at the paper's window."""
    for epsilon in EPSILONS:
        for horizon in HORIZONS:
            problem = build_swapping(horizon, epsilon)
            window = theory.paper_window(horizon, problem.segments)
            measured, interval = _mean(play(problem, window, RUNS[horizon])[0])
            published = float(theory.published_bound(problem, window).sum())
            corrected = float(theory.corrected_bound(problem, window).sum())
            yield Row(epsilon, horizon, window, measured, interval, published, corrected)


def pulls_table(rows: list[Row]) -> str:
    """Return the first table of docs/theory.md."""
    lines = [
        "| ε | T | w | measured (95 %) | published bound | measured ÷ published | corrected bound |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ratio = row.measured / row.published
        cells = [
            f"{row.epsilon:g}",
            f"{row.horizon:,}",
            f"{row.window:,}",
            f"{row.measured:,.0f} ± {row.interval:,.0f}",
            f"{row.published:,.0f}",
            f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}",
            f"{row.corrected:,.0f}" + (" (trivial)" if row.corrected >= row.horizon else ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def windows_table() -> str:
    """Return the second table: regret at the paper's window, the corrected one, and the best of a grid."""
    lines = [
        "| problem | ε | paper's w | regret | corrected w | regret | at twice it | best w tried | regret |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    makers: list[tuple[str, int, Callable[[int, float], Problem]]] = [
        (f"2 arms swap once, T = {horizon:,}", horizon, build_swapping) for horizon in HORIZONS
    ]
    for arms, segments in ((10, 10), (10, 2), (2, 20)):
        make = partial(build_wandering, arms=arms, segments=segments)
        makers.append((f"{arms} arms, {segments} segments, T = {HORIZONS[-1]:,}", HORIZONS[-1], make))
    for name, horizon, maker in makers:
        for epsilon in EPSILONS:
            problem = maker(horizon, epsilon)
            runs = RUNS[horizon] // 4
            grid = [window for window in GRID if problem.arms <= window <= horizon // 2]
            regret = {window: float(play(problem, window, runs)[1].mean()) for window in grid}
            best = min(regret, key=regret.__getitem__)
            cells = [name, f"{epsilon:g}"]
            paper = theory.paper_window(horizon, problem.segments)
            corrected = theory.corrected_window(problem)
            for window in (paper, corrected, 2 * corrected, best):
                # The best is simulated again, because the minimum of many means is biased.
                mean, half = _mean(play(problem, window, 2 * runs, seed=2)[1])
                cells += [f"{window:,}"] * (window != 2 * corrected) + [f"{mean:,.0f} ± {half:,.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _panel(axes: Axes, epsilon: float, rows: list[Row]) -> None:
    horizons = np.unique(np.rint(np.geomspace(HORIZONS[0], HORIZONS[-1], 120) / 2).astype(int) * 2)
    problems = [(build_swapping(int(T), epsilon), theory.paper_window(int(T), 2)) for T in horizons]
    published = np.array([theory.published_bound(problem, window).sum() for problem, window in problems])
    corrected = np.array([theory.corrected_bound(problem, window).sum() for problem, window in problems])
    at, pulls = [row.horizon for row in rows], [row.measured for row in rows]
    between = np.exp(np.interp(np.log(horizons), np.log(at), np.log(pulls)))
    trivial = corrected >= horizons  # every step: nothing is claimed
    axes.fill_between(
        horizons,
        published,
        between,
        where=list(between > published),
        color=PUBLISHED,
        alpha=0.25,
        linewidth=0,
    )
    axes.plot(horizons, published, color=PUBLISHED, linewidth=2.4, linestyle=(0, (4, 1.5)))
    axes.plot(horizons, np.where(trivial, np.nan, corrected), color=CORRECTED, linewidth=2.4)
    axes.plot(horizons, np.where(trivial, corrected, np.nan), color=CORRECTED, linewidth=1.4, linestyle=":")
    axes.errorbar(
        at,
        pulls,
        yerr=[row.interval for row in rows],
        color=MEASURED,
        marker="o",
        markersize=6,
        linewidth=1.6,
    )
    last = rows[-1]
    ratio = last.measured / last.published
    edge = 1.35 * last.horizon
    axes.plot([edge, edge], [last.published, last.measured], color=MEASURED, linewidth=1.0)
    axes.text(
        1.18 * edge,
        np.sqrt(last.published * last.measured),
        f"{ratio:.1f} ×",
        va="center",
        fontsize=13 if ratio > 1 else 11,
        fontweight="bold" if ratio > 1 else "normal",
        color=PUBLISHED if ratio > 1 else "#555555",
    )
    strength = {EPSILONS[0]: ", strong privacy", EPSILONS[-1]: ", weak privacy"}.get(epsilon, "")
    axes.set_title(f"ε = {epsilon:g}{strength}", fontsize=12)
    axes.set(xscale="log", yscale="log", xlim=(7e3, 6.5e6), ylim=(3e2, 1.6e6), xlabel="horizon T")
    axes.set_xticks(HORIZONS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.minorticks_off()


def draw(rows: list[Row], path: Path) -> None:
    """Draw a panel for every epsilon, strong privacy first; name the lines once."""
    figure, panels = plt.subplots(1, len(EPSILONS), figsize=(12, 4.6), sharey=True, layout="constrained")
    for axes, epsilon in zip(panels, EPSILONS, strict=True):
        _panel(axes, epsilon, [row for row in rows if row.epsilon == epsilon])
    panels[0].set_ylabel("pulls of the worse arm")
    panels[0].text(9e3, 3e5, "corrected bound\n(dotted: trivial)", color=CORRECTED, fontsize=10)
    panels[0].text(1.5e4, 2.2e3, "measured", color=MEASURED, fontsize=10)
    panels[0].text(1.6e5, 6.2e3, "published bound", color=PUBLISHED, fontsize=10)
    figure.suptitle(
        "Measured pulls break the published bound where privacy is strong; the corrected bound holds",
        fontsize=14,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def alarms_table() -> str:
    """Return what GLR-KLUCB-CF is proved to lose at most, and what it lost, in Markdown; one row a mask."""
    lines = ["| ε | alarm at the latest after | bound | measured, 8 plays |", "|---|--:|--:|--:|"]
    for epsilon in (2.0, 4.0, math.inf):
        corruption = RandomizedResponse.from_epsilon(epsilon)
        problem = Problem([[0.9, 0.1], [0.1, 0.9]], [0, 500_000], 1_000_000, corruption)
        delay = theory.glr_delays(problem, **ALARMS)[0]
        policy = make_policy("glr-klucb-cf", arms=2, corruption=corruption, follow_up=0.0, **ALARMS)
        lost = simulate(problem, policy, runs=8, seed=1, checkpoints=1).regret[:, -1]
        half = 2.36 * lost.std(ddof=1) / math.sqrt(lost.size)  # Student's, 7 degrees of freedom
        mask = "no privacy" if math.isinf(epsilon) else f"{epsilon:g}"
        bound = theory.glr_regret_bound(problem, **ALARMS)
        lines.append(f"| {mask} | {delay:,.0f} | {bound:,.0f} | {lost.mean():,.0f} ± {half:,.0f} |")
    return "\n".join(lines)


def groups_table() -> str:
    """Return the bound on regret with groups beside what is measured, in Markdown; one row a kind of answers."""
    lines = ["| answers | ε | T | bound | measured, 20 plays |", "|---|--:|--:|--:|--:|"]
    for kind in ("bit", "one of many"):
        for epsilon in (1.0, 2.0, 4.0):
            horizon = 100_000
            problem = ContextualProblem([[0.9, 0.1], [0.1, 0.9]], [0], horizon)
            policy = make_contextual(
                "sw-klucb-cf", groups=2, arms=2, epsilon=epsilon, answers=kind, pool=False, window=horizon
            )
            mean, half = _mean(simulate(problem, policy, runs=20, seed=1, checkpoints=1).regret[:, -1])
            bound = contextual_bound(problem, epsilon, horizon, answers=kind).sum()
            lines.append(f"| {kind} | {epsilon:g} | {horizon:,} | {bound:,.0f} | {mean:,.0f} ± {half:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Draw the figure and write the tables into the page."""
    rows = list(measure())
    draw(rows, FIGURE)
    grown = growth.measure()
    growth.draw(grown, GROWTH)
    tables = {"pulls": pulls_table(rows), "windows": windows_table(), "growth": growth.format_table(grown)}
    tables |= {"gaps": gaps.gaps_table(), "two thirds": gaps.two_thirds_table()}
    tables |= {"alarms": alarms_table(), "visitors": private_groups.naive(), "groups": groups_table()}
    blocks.fill(PAGE, tables)


if __name__ == "__main__":
    main()
