"""Write the tables of docs/private_groups.md, or only those named: `python -m docs.private_groups [NAME ...]`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench import context as bench
from bench import context_peers
from numpy.typing import NDArray

from docs import blocks
from docs.privacy import markdown
from maskedbandits import ContextualProblem, make_contextual, simulate
from maskedbandits.contextual import masks

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
GROUPS = (2, 5, 10, 20, 50)
SIZES = ((5, 2), (10, 5))  # groups and arms
TRUE_SHARES, PROBLEMS = (0.6, 0.3, 0.1), 16
POOLING = {"": None, ", `pool=False`": False}
MANY_RUNS = 32
RULES = ("prediction", "choice")
AT_FOUR: dict[str, tuple[str, dict[str, Any]]] = {
    "`auto`": ("auto", {}),
    "`ts-cf`": ("ts-cf", {}),
    "`klucb-cf`, c = 0": ("klucb-cf", {"c": 0.0}),
}


def fewest(epsilon: float, groups: int) -> tuple[str, float]:
    """Return the kind of answers that takes fewer visitors, and how many times as many that is, groups of one size."""
    equal = np.full(groups, 1.0 / groups)
    kind = masks.better_kind(epsilon, equal)
    return kind, 1.0 / float(masks.worth(kind, epsilon, equal)[0])


def of_the_triple(epsilon: float, groups: int, arms: int) -> float:
    """Return the same where group, arm and reward are masked as one of 2 G K answers.

    The table still tells the arm of each group, so an answer of another arm is known to be false, and left out.
    """
    truth, other = masks.truth_and_other(epsilon, groups * arms)
    difference = (truth - other) / groups
    return (2.0 * other + difference) / (difference**2 * groups)


def format_ratio(times: float) -> str:
    """Return how many times, with a digit more where there are few."""
    return f"{times:,.{0 if times >= 10 else 1}f}"


def visitors() -> str:
    """Return how many times as many visitors each number of groups takes, and the kind of answers."""
    rows = []
    for groups in GROUPS:
        found = [fewest(epsilon, groups) for epsilon in EPSILONS]
        rows.append([str(groups), *(f"{format_ratio(times)}, {kind}" for kind, times in found)])
    return markdown(["groups", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], rows)


def naive() -> str:
    """Return how many times as many visitors it takes to mask group, arm and reward as one of 2 G K answers."""
    rows = []
    for groups, arms in SIZES:
        ours = [format_ratio(fewest(epsilon, groups)[1]) for epsilon in EPSILONS]
        triple = [format_ratio(of_the_triple(epsilon, groups, arms)) for epsilon in EPSILONS]
        rows += [[f"{groups} x {arms}", "a question", *ours], [f"{groups} x {arms}", "the triple", *triple]]
    return markdown(["groups x arms", "masked", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], rows)


def switch() -> str:
    """Return from which epsilon on one of many answers takes fewer visitors than a bit, found by bisection."""
    found = []
    for groups in GROUPS:
        low, high = 0.0, 16.0
        while high - low > 1e-4:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if fewest(middle, groups)[0] == masks.BIT else (low, middle)
        found.append(f"{high:.2f}")
    return markdown(["groups", *map(str, GROUPS)], [["one of many from ε =", *found]])


def shares() -> str:
    """Return the regret of policies with right shares, none, or wrong ones, with pooled groups or without."""
    shares = {
        "true": TRUE_SHARES,
        "none (equal assumed)": None,
        "reversed": TRUE_SHARES[::-1],
    }
    rows = []
    for (title, pool), name in itertools.product(POOLING.items(), ("auto", "ts-cf", "klucb-cf")):
        cells = []
        for given in shares.values():
            lost = [shares_lost(name, given, seed, pool) for seed in range(PROBLEMS)]
            cells.append(f"{np.mean(lost):,.0f} ± {2 * np.std(lost, ddof=1) / PROBLEMS**0.5:,.0f}")
        rows.append([f"`{name}`{title}", *cells])
    return markdown(["given shares", *shares], rows)


def shares_lost(name: str, given: Sequence[float] | None, seed: int, pool: bool | None) -> float:
    """Return the mean regret of a policy that is given shares, in one world."""
    means = np.random.default_rng(seed).uniform(0.05, 0.95, (len(TRUE_SHARES), 3))
    problem = ContextualProblem(means, [0], 50_000, TRUE_SHARES)
    policy = make_contextual(name, groups=len(TRUE_SHARES), arms=3, epsilon=1, shares=given, pool=pool)
    return float(simulate(problem, policy, runs=4, seed=seed, checkpoints=1).regret.mean())


def regret() -> str:
    """Return what contextual policies lose, as the benchmark prints it."""
    return _run_program("bench.context")


def others() -> str:
    """Return the same on problems on which nothing was chosen."""
    return _run_program("bench.context", "--first-seed", "100")


def four() -> str:
    """Return what policies lose at epsilon = 4 on the independent groups of the benchmark, with more runs each."""
    rows = []
    for (title, (name, parameters)), epsilon in itertools.product(AT_FOUR.items(), (4.0, 16.0)):
        cells = []
        for first in (0, 100):
            found = [_measure_regret(name, parameters, epsilon, seed) for seed in range(first, first + bench.PROBLEMS)]
            means = [float(each.mean()) for each in found]
            spread = 2 * np.std(means, ddof=1) / bench.PROBLEMS**0.5
            cells += [f"{np.mean(means):,.0f} ± {spread:,.0f}", f"{np.mean([np.median(each) for each in found]):,.0f}"]
        rows.append([title, f"{epsilon:g}", *cells])
    return markdown(["policy", "ε", "problems of the table", "median run", "8 others", "median run"], rows)


def _measure_regret(name: str, parameters: dict[str, Any], epsilon: float, seed: int) -> NDArray[np.float64]:
    """Return the regret of many runs in one world of independent groups."""
    policy = make_contextual(name, groups=bench.GROUPS, arms=bench.ARMS, epsilon=epsilon, pool=False, **parameters)
    played = simulate(bench.independent(seed), policy, runs=MANY_RUNS, seed=1000 + seed, checkpoints=1)
    return np.asarray(played.regret[:, -1])


def partitions() -> str:
    """Return what trees of grids lose beside grids, as the benchmark prints it."""
    return _run_program("bench.partitions")


def epsilons() -> str:
    """Return what trees lose with two arms by epsilon, by both rules for the level that decides."""
    rules = [_run_program("bench.partitions", "--epsilons", "--runs", "4", "--rule", rule) for rule in RULES]
    return "\n".join([rules[0], *(row for rest in rules[1:] for row in rest.splitlines()[2:])])


def _run_program(*command: str) -> str:
    """Return what a program of ours prints."""
    whole = [sys.executable, "-m", *command]
    return subprocess.run(whole, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip()  # noqa: S603


def peers() -> str:
    """Return what other ways lose in the same worlds, as their benchmark prints it."""
    return context_peers.table(4)


def noise() -> str:
    """Return what noise others add to a coordinate, where features and rewards are at most 1, at delta = 0.01."""
    found = {
        "program of Han et al.": context_peers.noise_of_han,
        "program for Zheng et al., a comment": context_peers.noise_in_comment,
        "program for Zheng et al., as it computes": context_peers.noise_of_zheng,
    }
    rows = [[f"{epsilon:g}", *(f"{deviation(epsilon):.1f}" for deviation in found.values())] for epsilon in EPSILONS]
    return markdown(["ε", *found], rows)


TABLES = {
    each.__name__: each
    for each in (visitors, naive, switch, noise, regret, peers, shares, four, others, partitions, epsilons)
}


def main() -> None:
    """Write the page's blocks, or those that are named."""
    for which in sys.argv[1:] or TABLES:
        blocks.fill(PAGE, {which: TABLES[which]()})


if __name__ == "__main__":
    main()
