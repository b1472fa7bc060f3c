"""Bounds on the regret of a sliding window where the gaps of segments differ, beside plays on the hardest gaps.

    python -m bench.gaps        # some seconds

docs/theory.md shows both tables and has the proofs.
"""

import math

import numpy as np

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory
from maskedbandits.theory.bounds import exploration

SEGMENTS, HORIZON = 10, 10**8
GAPS = ((0.9, 0.9), (0.02, 0.02), (0.9, 0.02))
HORIZONS = (10**4, 10**5, 10**6, 10**7)
RUNS = 8
UNMASKED = RandomizedResponse(1.0, 1.0)


def build_alternating(gaps: tuple[float, float]) -> Problem:
    """Return two arms around 1/2 that change places, with two gaps in turns."""
    means = [[0.5 + gaps[i % 2] / 2 * (-1) ** (i + arm) for arm in (0, 1)] for i in range(SEGMENTS)]
    return Problem(means, np.arange(SEGMENTS) * (HORIZON // SEGMENTS), HORIZON, UNMASKED)


def hardest(horizon: int) -> Problem:
    """Return the problem of the proposition: two segments without a mask, first a small gap, then one of 1/2."""
    steps = horizon // 2
    small = math.sqrt(21.0 / 8.0 / (10.5 * steps**2) ** (1.0 / 3.0))
    return Problem([[0.5 + small, 0.5], [0.5, 1.0]], [0, steps], horizon, UNMASKED)


def gaps_table() -> str:
    """Return the bound at its own best window beside the formulas, in Markdown; one row a pair of gaps."""
    head = "| gaps | best w | bound there | √(8 F S H) / s | if gaps were equal, √(8 F (L−1) T) / s | for any gaps |"
    lines = [head, "|---|--:|--:|--:|--:|--:|"]
    level = float(exploration(HORIZON, 3.0))
    for gaps in GAPS:
        problem = build_alternating(gaps)
        window = theory.corrected_window(problem)
        largest = problem.gaps.max(axis=1)
        product = largest[1:].sum() * (problem.lengths / largest).sum()
        values = (
            window,
            theory.corrected_regret_bound(problem, window),
            math.sqrt(8.0 * level * product),
            math.sqrt(8.0 * level * (SEGMENTS - 1) * HORIZON),
            theory.sw_klucb_bound(HORIZON, SEGMENTS, 2),
        )
        label = f"all {gaps[0]:g}" if gaps[0] == gaps[1] else f"{gaps[0]:g} and {gaps[1]:g} in turns"
        lines.append(f"| {label} | {' | '.join(f'{value:,.0f}' for value in values)} |")
    return "\n".join(lines)


def two_thirds_table() -> str:
    """Return bounds and plays on the hardest gaps, in Markdown; one row a horizon."""
    lines = ["| T | w | bound there | ½ (L T² / s²)^⅓ | measured, 95 % |", "|--:|--:|--:|--:|--:|"]
    for horizon in HORIZONS:
        problem = hardest(horizon)
        window = theory.corrected_window(problem)
        policy = make_policy("sw-klucb-cf", arms=2, corruption=UNMASKED, window=window)
        lost = simulate(problem, policy, runs=RUNS, seed=1, checkpoints=1, progress=False).regret[:, -1]
        half = 2.36 * lost.std(ddof=1) / math.sqrt(lost.size)  # Student's, 7 degrees of freedom
        bound, least = theory.corrected_regret_bound(problem, window), 0.5 * (2.0 * horizon**2) ** (1.0 / 3.0)
        lines.append(f"| {horizon:,} | {window:,} | {bound:,.0f} | {least:,.0f} | {lost.mean():,.0f} ± {half:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    print(gaps_table(), two_thirds_table(), sep="\n\n")


if __name__ == "__main__":
    main()
