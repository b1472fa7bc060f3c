"""How the regret of `auto` grows with the horizon, the number of segments and the strength of the mask.

No bound is proved for `auto`. Here one of T, L and 1/s (s the slope of randomised response) varies, the others stay at
T = 10^5, L = 5, eps = 1; K = 5. Means and times of changes of 48 problems are drawn uniformly and independently. The
exponent is the slope of the line of least squares through the points on log axes, its interval that of a bootstrap over
the problems. AdSwitch and the lower bound have sqrt(L T) / s: 1/2, 1/2 and 1.

    python -m bench.growth [--json] [--out DIR]        # half a minute
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate

ARMS, HORIZON, SEGMENTS, EPSILON = 5, 100_000, 5, 1.0
PROBLEMS = 48
HORIZONS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
COUNTS = (2, 5, 10, 20, 50)
EPSILONS = (0.25, 0.5, 1.0, 2.0, math.inf)
EXPECTED = {"T": 0.5, "L": 0.5, "1/s": 1.0}  # of the lower bound
AXES = {"T": "horizon T", "L": "segments L", "1/s": "1/s, inverse slope of the mask"}
FloatArray = NDArray[np.float64]


def regrets(horizon: int, segments: int, epsilon: float) -> FloatArray:
    """Return the regret of one run on each of the problems."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    lost = []
    for seed in range(PROBLEMS):
        draws = np.random.default_rng(seed)
        starts = [0, *sorted(draws.choice(np.arange(1, horizon), segments - 1, replace=False).tolist())]
        problem = Problem(draws.random((segments, ARMS)).tolist(), starts, horizon, mask)
        policy = make_policy("auto", arms=ARMS, corruption=mask)
        lost.append(simulate(problem, policy, runs=1, seed=seed, checkpoints=1, progress=False).regret[0, -1])
    return np.array(lost)


def measure() -> dict[str, tuple[list[float], FloatArray]]:
    """Return for T, L and 1/s the values and, (values, problems), the regrets."""
    slopes = [1.0 / RandomizedResponse.from_epsilon(epsilon).slope for epsilon in EPSILONS]
    plans: dict[str, tuple[list[float], list[tuple[int, int, float]]]] = {
        "T": ([float(each) for each in HORIZONS], [(each, SEGMENTS, EPSILON) for each in HORIZONS]),
        "L": ([float(each) for each in COUNTS], [(HORIZON, each, EPSILON) for each in COUNTS]),
        "1/s": (slopes, [(HORIZON, SEGMENTS, each) for each in EPSILONS]),
    }
    return {name: (values, np.array([regrets(*each) for each in plan])) for name, (values, plan) in plans.items()}


def exponent(values: list[float], lost: FloatArray) -> tuple[float, float, float]:
    """Return the exponent with which the mean over the problems grows, and its 95 % interval."""
    draws = np.random.default_rng(0).integers(0, lost.shape[1], (1000, lost.shape[1]))
    means = np.vstack([lost.mean(axis=1), *(lost[:, drawn].mean(axis=1) for drawn in draws)])
    found = np.polyfit(np.log(values), np.log(means).T, 1)[0]
    return float(found[0]), *np.quantile(found[1:], [0.025, 0.975]).tolist()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def format_table(made: dict[str, tuple[list[float], FloatArray]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| varies | from | to | mean regret, from | to | exponent, 95 % | lower bound |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, (values, lost) in made.items():
        (first, *_, last), means = sorted(values), lost.mean(axis=1)
        least, most = means[int(np.argmin(values))], means[int(np.argmax(values))]
        middle, low, high = exponent(values, lost)
        lines.append(
            f"| {name} | {_short(first)} | {_short(last)} | {least:,.0f} | {most:,.0f} "
            f"| {middle:.2f} ({low:.2f} to {high:.2f}) | {EXPECTED[name]:g} |"
        )
    return "\n".join(lines)


def draw(made: dict[str, tuple[list[float], FloatArray]], path: Path) -> None:
    """Draw the mean regrets on log axes, with the growth of the lower bound beside them."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    panels = figure.subplots(1, len(made), sharey=True)
    for axes, (name, (values, lost)) in zip(panels, made.items(), strict=True):
        order = np.argsort(values)
        at, means = np.array(values)[order], lost.mean(axis=1)[order]
        wide = 1.96 * lost.std(axis=1, ddof=1)[order] / math.sqrt(lost.shape[1])
        axes.errorbar(at, means, wide, color="#0072b2", marker="o", markersize=4, label="auto, mean and 95 % interval")
        rule = means[0] * (at / at[0]) ** EXPECTED[name]
        axes.plot(at, rule, color="#d55e00", linestyle="--", label="growth rate of the lower bound")
        axes.set(xscale="log", yscale="log", xlabel=AXES[name])
        axes.set_xticks(at, [f"{value:,.0f}" if value >= 10 else f"{value:.3g}" for value in at])
        axes.tick_params(axis="x", labelsize=8)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks([300, 1000, 3000])
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("cumulative regret")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, draw and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--out", type=Path, default=Path("results/growth"), help="folder for the figure")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = measure()
    draw(made, options.out / "growth.png")
    document: dict[str, Any] = {
        name: {"values": values, "means": lost.mean(axis=1).tolist(), "exponent": exponent(values, lost)}
        for name, (values, lost) in made.items()
    }
    print(json.dumps(document, indent=1) if options.json else format_table(made))


if __name__ == "__main__":
    main()
