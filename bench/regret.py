"""How much the policies lose on a seeded suite of problems, against a policy that knows every change.

For every policy: the geometric mean over the suite of its regret divided by that of KLUCB-CF restarted by an oracle,
the worst problem, and the time of a step; and of those that know nothing, how they compare with each other and
how much worse their worst runs are. The *figure of merit* is the mean over all problems of regret / (sqrt(K L T) / s).
There, s is the slope of the mask and L the number of segments, in a drift the number of parts of the oracle. Up to a
constant, the denominator is the least regret that can be guaranteed. Ratios to an oracle exaggerate small regrets of
quiet worlds, the figure of merit does not. The problems are those of ``suite.py``.

    make bench-regret                # the main policies; python -m bench.regret --all for all of them
    python -m bench.regret [--all] [--long] [--training] [--policies NAME ...] [--json] [--out DIR]

``--long`` also plays T = 10^6 on a quarter of the problems of the first four families. ``--training`` plays the other
suite, on which constants are chosen.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import suite
from bench.suite import Case
from maskedbandits import Policy, Problem, RandomizedResponse, make_policy, simulate, theory

REFERENCE = "oracle-klucb-cf"
PRECISION = 0.1  # the half-width wanted of the 95 % interval on a problem; that of the mean ratio is far smaller
FEWEST, MOST = 8, 32  # runs of a policy on a problem
ENOUGH = 24  # of one that knows nothing, to find its worst runs
UNTOLD = ("auto", "glr-klucb-cf", "glr-ts-cf")
RHYTHMS = [1 << power for power in range(9)]  # into how many equal parts an oracle divides a drift


def _window(rule: Callable[[Problem], int]) -> Callable[[Problem], dict[str, Any]]:
    return lambda problem: {"window": max(problem.arms, rule(problem))}


def _longer(problem: Problem) -> int:
    """Return a window for K arms that is tuned to the horizon and the changes, not to the gaps."""
    return int(8 * math.sqrt(problem.arms * problem.horizon / problem.segments))


def _discount(problem: Problem) -> dict[str, Any]:
    """Return the discount of Garivier and Moulines, 1 - sqrt(L / T) / 4."""
    return {"gamma": 1 - math.sqrt(problem.segments / problem.horizon) / 4}


def _oracle_parameters(problem: Problem) -> dict[str, Any]:
    """Return the changes, as an oracle tells them."""
    return {"restarts": _rhythm(problem) if problem.segments > max(suite.SEGMENTS) else problem.starts.tolist()}


@cache
def _rhythm(problem: Problem) -> list[int]:
    """Return the equal distances at which the reference does best on a drift."""
    schedules = [[problem.horizon * part // parts for part in range(parts)] for parts in RHYTHMS]

    def lost(restarts: list[int]) -> float:
        policy = make_policy(REFERENCE, arms=problem.arms, corruption=problem.corruption, restarts=restarts)
        return float(simulate(problem, policy, runs=4, seed=2, checkpoints=1, progress=False).regret.mean())

    return min(schedules, key=lost)


def _horizon(problem: Problem) -> dict[str, Any]:
    return {"horizon": problem.horizon}


def _epsilon(problem: Problem) -> dict[str, Any]:
    mask = problem.corruption[0]
    return {"epsilon": mask.epsilon if isinstance(mask, RandomizedResponse) else math.inf}


def _no_parameters(problem: Problem) -> dict[str, Any]:
    return {}


MAIN: dict[str, tuple[str, Callable[[Problem], dict[str, Any]]]] = {
    "oracle-ts-cf": ("oracle-ts-cf", _oracle_parameters),
    "auto": ("auto", _no_parameters),
    "glr-klucb-cf": ("glr-klucb-cf", _no_parameters),
    "glr-ts-cf": ("glr-ts-cf", _no_parameters),
    "sw-klucb-cf, paper's window": (
        "sw-klucb-cf",
        _window(lambda problem: theory.paper_window(problem.horizon, problem.segments)),
    ),
    "sw-klucb-cf, longer window": ("sw-klucb-cf", _window(_longer)),
    "klucb-cf": ("klucb-cf", _no_parameters),
    "ts-cf": ("ts-cf", _no_parameters),
}

OTHERS: dict[str, tuple[str, Callable[[Problem], dict[str, Any]]]] = {
    "sw-ts-cf": ("sw-ts-cf", _window(_longer)),
    "sw-ucb-cf": ("sw-ucb-cf", _window(_longer)),
    "d-klucb-cf": ("d-klucb-cf", _discount),
    "d-ucb-cf": ("d-ucb-cf", _discount),
    "d-ts-cf": ("d-ts-cf", _discount),
    "ucb-cf": ("ucb-cf", _no_parameters),
    "cusum-klucb-cf": ("cusum-klucb-cf", _no_parameters),
    "ph-klucb-cf": ("ph-klucb-cf", _no_parameters),
    "m-klucb-cf": ("m-klucb-cf", _no_parameters),
    "glr-klucb-cf, local": ("glr-klucb-cf", lambda problem: {"local": True}),
    "glr-ucb-cf": ("glr-ucb-cf", _no_parameters),
    "klucb": ("klucb", _no_parameters),
    "klucb-plus-cf": ("klucb-plus-cf", _horizon),
    "exp3s": ("exp3s", lambda problem: {"horizon": problem.horizon, "changes": problem.segments}),
    "rexp3": ("rexp3", lambda problem: {"horizon": problem.horizon, "variation": problem.variation}),
    "adswitch": ("adswitch", _horizon),
    "ldp-ucb-l": ("ldp-ucb-l", _epsilon),
    "dp-ucb": ("dp-ucb", _epsilon),
    "uniform": ("uniform", _no_parameters),
}


def regrets(
    case: Case, make: Callable[[Problem], Policy], fewest: int | None = None
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float]:
    """Return the regrets at the horizon, of as many runs as the interval needs, and the seconds of a step."""
    runs, policy = fewest or FEWEST, make(case.problem)
    while True:
        result = simulate(case.problem, policy, runs=runs, seed=1, checkpoints=1, progress=False)
        last = result.regret[:, -1]
        half_width = 1.96 * last.std(ddof=1) / math.sqrt(runs)
        if half_width <= PRECISION * last.mean() or runs >= MOST:
            return last, result.seconds / (runs * case.problem.horizon)
        runs *= 2


@dataclass(frozen=True)
class Row:
    """One policy over the suite; of each family the geometric mean and the highest of its ratios."""

    policy: str
    means: dict[str, float]
    interval: float  # half-width of the 95 % interval of the mean over abrupt problems
    worst: dict[str, float]
    worst_case: str  # the abrupt problem on which it is worst
    nanoseconds: float
    ratios: dict[str, dict[str, float]]  # by family and problem
    tails: dict[str, dict[str, float]]  # the 95th percentile of the runs over their median
    merits: dict[str, dict[str, float]]  # regret / (sqrt(K L T) / s)
    merit: float  # their mean over all problems
    merit_interval: float


def measure(cases: list[Case], label: str, yardsticks: list[float]) -> Row:
    """Return a policy's row; the time of a step is wall time on all cores, the median over the problems."""
    name, parameters = {**MAIN, **OTHERS}[label]
    ratios, errors, times, tails, merits = [], [], [], [], []
    fewest = ENOUGH if label in UNTOLD else None
    for case, yardstick in zip(cases, yardsticks, strict=True):
        last, seconds = regrets(
            case,
            lambda problem: make_policy(name, arms=problem.arms, corruption=problem.corruption, **parameters(problem)),
            fewest,
        )
        ratios.append(float(last.mean()) / yardstick)
        errors.append(float(last.std(ddof=1)) / math.sqrt(last.size) / max(float(last.mean()), 1e-9))
        merits.append(float(last.mean()) / scale_of(case.problem))
        times.append(seconds)
        tails.append(float(np.quantile(last, 0.95) / max(float(np.median(last)), 1e-9)))
    played = [family for family in suite.FAMILIES if any(case.family == family for case in cases)]
    within = {family: np.array([case.family == family for case in cases]) for family in played}
    means = {family: float(np.exp(np.log(ratios)[held].mean())) for family, held in within.items()}
    worst = {family: int(np.argmax(np.where(held, ratios, 0.0))) for family, held in within.items()}
    abrupt = within["abrupt"]
    half_width = 1.96 * float(np.sqrt(np.sum(np.square(errors)[abrupt]))) / int(abrupt.sum())
    return Row(
        label,
        means,
        half_width * means["abrupt"],
        {family: ratios[place] for family, place in worst.items()},
        cases[worst["abrupt"]].name,
        1e9 * float(np.median(times)),
        _by_family(cases, ratios),
        _by_family(cases, tails),
        _by_family(cases, merits),
        float(np.mean(merits)),
        1.96 * float(np.sqrt(np.sum(np.square(np.multiply(errors, merits))))) / len(merits),
    )


def scale_of(problem: Problem) -> float:
    """Return sqrt(K L T) / s, the regret that is inevitable up to a constant; L as the oracle counts."""
    slope = min(abs(mask(1.0) - mask(0.0)) for mask in problem.corruption)
    return math.sqrt(problem.arms * len(_oracle_parameters(problem)["restarts"]) * problem.horizon) / slope


def _by_family(cases: list[Case], values: list[float]) -> dict[str, dict[str, float]]:
    by_family: dict[str, dict[str, float]] = {}
    for case, value in zip(cases, values, strict=True):
        by_family.setdefault(case.family, {})[case.name] = value
    return by_family


def yardsticks_of(cases: list[Case]) -> list[float]:
    """Return the reference's regret on every problem."""

    def build_oracle(problem: Problem, **more: Any) -> Policy:
        return make_policy(
            REFERENCE, arms=problem.arms, corruption=problem.corruption, **_oracle_parameters(problem), **more
        )

    return [
        float(regrets(case, partial(build_oracle, c=0.0) if case.family == "any gap" else build_oracle)[0].mean())
        for case in cases
    ]


def draw(rows: list[Row], path: Path) -> None:
    """Draw every ratio as a dot, one line for each policy, and the geometric mean as a bar; the best on top."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    rows = sorted(rows, key=lambda row: row.means["abrupt"], reverse=True)
    figure = Figure(figsize=(8, 0.19 * len(rows) + 1.1), layout="constrained")
    axes = figure.add_subplot()
    for height, row in enumerate(rows):
        abrupt = list(row.ratios["abrupt"].values())
        axes.scatter(abrupt, [height] * len(abrupt), s=10, color="#0072b2", alpha=0.35, linewidths=0)
        axes.plot([row.means["abrupt"]] * 2, [height - 0.36, height + 0.36], color="#d55e00", linewidth=3)
    axes.axvline(1.0, color="#444444", linewidth=1, linestyle="--")
    names = [f"{row.policy}  {row.means['abrupt']:5.2f}" for row in rows]
    axes.set_yticks(range(len(rows)), names, size=8)
    axes.tick_params(axis="y", length=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(f"regret / regret of {REFERENCE}, which knows every change")
    axes.set_title("Dots are problems, bars and numbers geometric means. Left is better.", loc="left", size=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=150)


def play(horizon: int, labels: list[str], *, training: bool = False) -> tuple[list[Row], dict[str, Any]]:
    """Play the suite, telling how far it is; return the rows, and the same as a document."""
    cases, started = list(suite.cases(horizon, training=training)), time.perf_counter()
    yardsticks = yardsticks_of(cases)
    rows = []
    for label in labels:
        rows.append(measure(cases, label, yardsticks))
        past = time.perf_counter() - started
        print(f"{label}: {rows[-1].means['abrupt']:.2f} ({past:.0f} s)", file=sys.stderr, flush=True)
    document = {
        "horizon": horizon,
        "reference": dict(zip([case.name for case in cases], yardsticks, strict=True)),
        "policies": [vars(row) for row in rows],
        "seconds": time.perf_counter() - started,
    }
    return rows, document


def main() -> None:
    """Measure, print tables, write the figures and the JSON documents."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all policies, not the main ones alone")
    parser.add_argument("--long", action="store_true", help="T = 10^6 too, for the main policies and some problems")
    parser.add_argument("--training", action="store_true", help="the problems on which constants are chosen")
    parser.add_argument("--policies", nargs="+", choices=[*MAIN, *OTHERS], metavar="NAME", help="only these")
    parser.add_argument("--out", type=Path, default=Path("results/regret"), help="folder for figure and JSON")
    parser.add_argument("--json", action="store_true", help="print the JSON document instead of the table")
    options = parser.parse_args()
    labels = options.policies or ([*MAIN, *OTHERS] if options.all else [*MAIN])
    plan = [("regret", suite.HORIZON, labels)]
    if options.long:
        plan.append(("regret-long", suite.LONG_HORIZON, options.policies or [*MAIN]))
    options.out.mkdir(parents=True, exist_ok=True)
    for name, horizon, played in plan:
        rows, document = play(horizon, played, training=options.training)
        (options.out / f"{name}.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        draw(rows, options.out / f"{name}.png")
        tables = f"T = {horizon:,}\n\n{format_table(rows)}\n\n{untold_table(rows)}\n\n{merit_table(rows)}\n"
        print(json.dumps(document, indent=1) if options.json else tables, flush=True)


def format_table(rows: list[Row]) -> str:
    """Return the table in Markdown."""
    others = [family for family in rows[0].means if family != "abrupt"]
    lines = [
        f"| policy | abrupt | worst | on |{''.join(f' {family} | worst |' for family in others)} ns a step |",
        f"|---|--:|--:|---|{'--:|--:|' * len(others)}--:|",
        *(
            f"| {row.policy} | {row.means['abrupt']:.2f} ± {row.interval:.2f} | {row.worst['abrupt']:.2f} "
            + f"| {row.worst_case} |"
            + "".join(f" {row.means[family]:.2f} | {row.worst[family]:.2f} |" for family in others)
            + f" {row.nanoseconds:,.0f} |"
            for row in rows
        ),
    ]
    return "\n".join(lines)


def untold_table(rows: list[Row]) -> str:
    """Return in Markdown how untuned policies compare, problem by problem, with the best of the others."""
    held = {row.policy: row for row in rows if row.policy in UNTOLD}
    lines = [
        "| no tuning | on | to the oracle | worst | to the better rival | worst | 95 % / median, worst | above 2 |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in held.values():
        for family, ratios in row.ratios.items():
            rivals = [other.ratios[family] for other in held.values() if other is not row]
            beaten = [ratio / min(rival[name] for rival in rivals) for name, ratio in ratios.items()] if rivals else []
            tails = list(row.tails[family].values())
            values = [row.means[family], row.worst[family]]
            values += [float(np.exp(np.log(beaten).mean())), max(beaten)] if beaten else [math.nan] * 2
            above = f"{sum(tail > 2 for tail in tails)} of {len(tails)}"
            cells = [row.policy, family, *(f"{value:.2f}" for value in (*values, max(tails))), above]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def merit_table(rows: list[Row]) -> str:
    """Return in Markdown the figure of merit of every policy, by family too, and its tails."""
    families = [family for family in suite.FAMILIES if family in rows[0].merits]
    lines = [
        f"| policy | figure of merit |{''.join(f' {family} |' for family in families)} worst | 95 % / median, worst | "
        "above 2 |",
        f"|---|{'--:|' * (len(families) + 4)}",
    ]
    for row in rows:
        by_family = [float(np.mean(list(row.merits[family].values()))) for family in families]
        merits, tails = ([each for held in kind.values() for each in held.values()] for kind in (row.merits, row.tails))
        above = f"{sum(tail > 2 for tail in tails)} of {len(tails)}"
        cells = [row.policy, f"{row.merit:.3f} ± {row.merit_interval:.3f}", *(f"{each:.3f}" for each in by_family)]
        lines.append(f"| {' | '.join([*cells, f'{max(merits):.2f}', f'{max(tails):.2f}', above])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
