"""Tries a change of `auto`: its regret before and after, problem by problem, with intervals.

It plays problems of the training suite (``python -m bench.regret --training``) with at most MOST_ARMS arms, many arms
with at most MANY, and the *quiet rises* of experiments/paper.toml. A ratio below 1 is an improvement. The change of
the figure of merit is over the suite's problems. ``--long`` plays T = 10^6 instead, without the quiet rises.

    python -m bench.tries before.json                          # about a minute of one core
    # change a constant of policies/auto.py
    python -m bench.tries after.json --against before.json
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import suite
from bench.regret import scale_of
from bench.suite import Case
from maskedbandits import Problem, make_policy, simulate
from maskedbandits.experiments import load

MOST_ARMS, MANY = 10, 100
RUNS, LONG_RUNS = 16, 8
PAPER = Path(__file__).parents[1] / "experiments" / "paper.toml"
RISES = "quiet rises"
Lost = dict[str, dict[str, list[float]]]  # the regrets of all runs, by family and problem


def played(horizon: int) -> Iterator[Case]:
    """Yield the problems, those of the training suite first."""
    for case in suite.cases(horizon, training=True):
        most = MANY if case.family == "many arms" else math.inf if case.family == "any gap" else MOST_ARMS
        if case.problem.arms <= most:
            yield case
    if horizon < suite.LONG_HORIZON:
        for condition in load(PAPER).conditions:
            if condition.epsilon is not None and isinstance(condition.problem, Problem):
                yield Case(RISES, "paper.toml", condition.epsilon, condition.problem)


def play(cases: list[Case]) -> Lost:
    """Return the regrets of `auto`."""
    lost: Lost = {}
    for case in cases:
        policy = make_policy("auto", arms=case.problem.arms, corruption=case.problem.corruption)
        runs = RUNS if case.problem.horizon < suite.LONG_HORIZON else LONG_RUNS
        result = simulate(case.problem, policy, runs=runs, seed=1, checkpoints=1, progress=False)
        lost.setdefault(case.family, {})[case.name] = result.regret[:, -1].tolist()
    return lost


def ratio(before: dict[str, list[float]], after: dict[str, list[float]]) -> tuple[float, float]:
    """Return the geometric mean of the ratios of mean regrets, and the half-width of its 95 % interval."""
    logs = [math.log(np.mean(after[name]) / np.mean(before[name])) for name in before]
    variance = sum(_relative_variance(regrets) for lost in (before, after) for regrets in lost.values())
    middle = math.exp(float(np.mean(logs)))
    return middle, 1.96 * middle * math.sqrt(variance) / len(logs)


def _relative_variance(regrets: list[float]) -> float:
    """Return the squared standard error of the mean, relative to the mean."""
    return float(np.var(regrets, ddof=1) / len(regrets) / np.mean(regrets) ** 2)


def merit_change(before: Lost, after: Lost, scales: dict[tuple[str, str], float]) -> tuple[float, float]:
    """Return the change of the mean of regret / (sqrt(K L T) / s), and the half-width of its 95 % interval."""
    changes, variance = [], 0.0
    for (family, name), scale in scales.items():
        pair: list[NDArray[np.float64]] = [np.array(lost[family][name]) / scale for lost in (before, after)]
        changes.append(float(pair[1].mean() - pair[0].mean()))
        variance += sum(float(each.var(ddof=1)) / each.size for each in pair)
    return float(np.mean(changes)), 1.96 * math.sqrt(variance) / len(changes)


def tails(lost: dict[str, list[float]]) -> list[float]:
    """Return the 95th percentile over the median, of each problem."""
    return [float(np.quantile(regrets, 0.95) / np.median(regrets)) for regrets in lost.values()]


def table(before: Lost, after: Lost) -> str:
    """Return the ratios and the tails of each family in Markdown."""
    lines = ["| family | problems | regret, after / before | 95 % / median, worst | above 2 |", "|---|--:|--:|--:|--:|"]
    for family, lost in before.items():
        middle, half_width = ratio(lost, after[family])
        pair = tails(lost), tails(after[family])
        worst = " → ".join(f"{max(each):.2f}" for each in pair)
        above = " → ".join(str(sum(tail > 2 for tail in each)) for each in pair)
        lines.append(f"| {family} | {len(lost)} | {middle:.2f} ± {half_width:.2f} | {worst} | {above} |")
    return "\n".join(lines)


def main() -> None:
    """Play, write the regrets, and compare them with earlier ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="file for the regrets")
    parser.add_argument("--against", type=Path, metavar="FILE", help="regrets of an earlier play")
    parser.add_argument("--long", action="store_true", help="T = 10^6")
    options = parser.parse_args()
    cases = list(played(suite.LONG_HORIZON if options.long else suite.HORIZON))
    after = play(cases)
    options.out.write_text(json.dumps(after), encoding="utf-8")
    if options.against:
        before = json.loads(options.against.read_text(encoding="utf-8"))
        scales = {(case.family, case.name): scale_of(case.problem) for case in cases if case.family != RISES}
        middle, half_width = merit_change(before, after, scales)
        print(f"{table(before, after)}\n\nChange of the figure of merit: {middle:+.3f} ± {half_width:.3f}.")


if __name__ == "__main__":
    main()
