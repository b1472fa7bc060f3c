"""How many lies in a row turn each policy, how soon it recovers, and what ``contamination`` costs in regret.

Two arms with means 0.65 and 0.35, and 10,000 honest steps. Then every report is a lie: zeros for the better arm, ones
for the worse, whichever is chosen. The policy is *turned* by the smallest number of lies after which it gives the worse
arm to more than half of the next 400 visitors, none of whose reports is in yet. Then reports are honest again. It has
*recovered* once the worse arm goes to fewer than one in ten of the next 400. Both are looked for after every report up
to 50, then in steps of 2 %.

The table has the median over the runs and, in brackets, the sixth smallest and the sixth largest of 20. These enclose
the true median with a confidence of 95.9 %.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maskedbandits import Policy, Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.policies import kind_of
from maskedbandits.policies.runtime import compile_all
from maskedbandits.problems import sinusoid

MEANS = (0.65, 0.35)
HONEST, RUNS = 10_000, 20
OUTSIDE = 5  # of 20 sorted numbers on each side: 1 - 2 P(Binomial(20, 1/2) <= 5) = 0.959
VISITORS, FEW = 400, 0.1
MOST = 5_000  # lies, and honest reports after them
EPSILONS = (1.0, 2.0, math.inf)
SHARES = (0.0, 0.001, 0.01)  # contamination whose price is measured
COST_RUNS, COST_HORIZON = 32, 100_000
PAPERS = [[0.6, 0.4, 0.3, 0.2, 0.1], [0.6, 0.4, 0.9, 0.2, 0.1], [0.1, 0.4, 0.3, 0.2, 0.7], [0.1, 0.9, 0.3, 0.2, 0.7]]


class Burst(NamedTuple):
    """How many lies turn a policy, and after how many honest reports it has recovered; infinite if above MOST."""

    lies: float
    reports: float


def burst(name: str, parameters: Mapping[str, Any], epsilon: float, seed: int) -> Burst:
    """Measure one run."""
    mask, world = RandomizedResponse.from_epsilon(epsilon), np.random.default_rng(seed)
    policy = make_policy(name, arms=2, corruption=mask, seed=seed, **parameters)
    shown = [mask(mean) for mean in MEANS]
    for draw in world.random(HONEST):
        arm = policy.choose()
        policy.observe(arm, float(draw < shown[arm]))
    lies = _count(policy, lambda arm: float(arm), lambda share: share > 0.5)
    reports = _count(policy, lambda arm: float(world.random() < shown[arm]), lambda share: share < FEW)
    return Burst(lies, reports)


def _count(policy: Policy, answer: Callable[[int], float], is_enough: Callable[[float], bool]) -> float:
    """Return after how many reports enough of the next visitors get the worse arm; infinite if after more than MOST."""
    number = following = 0
    while True:
        if number == following:
            if is_enough(worse_share(policy)):
                return float(number)
            following += 1 + (number // 50 if number >= 50 else 0)
        if number == MOST:
            return math.inf
        arm = policy.choose()
        policy.observe(arm, answer(arm))
        number += 1


def worse_share(policy: Policy) -> float:
    """Return the share of the next visitors that get the worse arm; the policy itself decides nothing."""
    return float(copy.copy(policy).choose(VISITORS).mean())


def bursts(name: str, parameters: Mapping[str, Any], epsilon: float) -> list[Burst]:
    """Measure all runs."""
    compile_all(kind_of(name).layout, name)
    return [burst(name, parameters, epsilon, seed) for seed in range(RUNS)]


def format_median(numbers: Sequence[float]) -> str:
    """Return the median of all runs, and between what it lies."""
    ordered = sorted(numbers)
    low, middle, high = ordered[OUTSIDE], float(np.median(ordered)), ordered[-1 - OUTSIDE]
    return f"{_format_number(middle)} ({_format_number(low)} to {_format_number(high)})"


def _format_number(number: float) -> str:
    return f"{number:,.0f}" if number <= MOST else f"> {MOST:,}"


def burst_table(rows: Mapping[str, Sequence[Sequence[Burst]]]) -> str:
    """Return a table of what turns policies: lies, and honest reports until they have recovered."""
    heads = " | ".join(f"ε = {each:g}: lies | recovered after" for each in EPSILONS)
    lines = [f"| lies in a row | {heads} |", "|---" + "|--:" * 2 * len(EPSILONS) + "|"]
    for label, columns in rows.items():
        pairs = [
            (format_median([one.lies for one in each]), _middle([one.reports for one in each])) for each in columns
        ]
        lines.append(f"| `{label}` | " + " | ".join(cell for pair in pairs for cell in pair) + " |")
    return "\n".join(lines)


def _middle(numbers: Sequence[float]) -> str:
    return _format_number(float(np.median(numbers)))


def cost_problems() -> dict[str, Problem]:
    """Return problems with real changes, and one without."""
    found = {}
    for epsilon in (1.0, math.inf):
        mask = RandomizedResponse.from_epsilon(epsilon)
        starts = list(range(0, COST_HORIZON, COST_HORIZON // 10))
        swaps = [MEANS[:: 1 if place % 2 else -1] for place in range(len(starts))]
        found[f"two arms, no change, ε = {epsilon:g}"] = Problem([MEANS], [0], COST_HORIZON, mask)
        found[f"two arms that swap nine times, ε = {epsilon:g}"] = Problem(swaps, starts, COST_HORIZON, mask)
        quarters = [place * COST_HORIZON for place in range(4)]
        found[f"the paper's five arms, three changes, ε = {epsilon:g}"] = Problem(
            PAPERS, quarters, 4 * COST_HORIZON, mask
        )
        drifts = sinusoid(5, COST_HORIZON, corruption=mask, seed=1)
        found[f"five arms that drift, ε = {epsilon:g}"] = drifts
    return found


def costs(problem: Problem) -> list[tuple[float, float]]:
    """Return the regret of ``auto`` for every contamination, and two standard errors."""
    found = []
    for share in SHARES:
        policy = make_policy("auto", arms=problem.arms, corruption=problem.corruption, contamination=share)
        last = simulate(problem, policy, runs=COST_RUNS, seed=0, checkpoints=1, progress=False).regret[:, -1]
        found.append((float(last.mean()), 2.0 * float(last.std(ddof=1)) / math.sqrt(last.size)))
    return found


def cost_table(rows: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return a table of the regret of ``auto``."""
    lines = [
        "| regret of `auto` | " + " | ".join(f"contamination = {share:g}" for share in SHARES) + " |",
        "|---" + "|--:" * len(SHARES) + "|",
    ]
    for name, cells in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{mean:,.0f} ± {error:,.0f}" for mean, error in cells) + " |")
    return "\n".join(lines)
