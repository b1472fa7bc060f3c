"""Writes the tables of docs/noise.md: `python -m docs.noise`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import integrate, stats

from docs import blocks
from docs.privacy import markdown
from maskedbandits import GaussianNoise, LaplaceNoise, Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.corruption import Corruption
from maskedbandits.noise import compute_spread

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
MEANS, HORIZON, RUNS = [0.5, 0.7], 100_000, 400
MANY_RUNS = 20_000


def too_low(reports: int, level: float, *, with_tail: bool) -> float:
    """Return how often the mean of so many Laplace numbers is further from 0 than an index at this level allows for.

    Their sum is the difference of two Gamma numbers, so this is an integral.
    """
    sigma, tail = compute_spread([LaplaceNoise(1.0)], rewards=0.0) or (0.0, 0.0)
    x = level / reports
    far = reports * (sigma * math.sqrt(2.0 * x) + (tail * x if with_tail else 0.0))
    gamma = stats.gamma(reports)
    found, _ = integrate.quad(
        lambda y: gamma.pdf(y) * gamma.sf(far + y), 0.0, reports + 40.0 * math.sqrt(reports), epsabs=0.0, limit=500
    )
    return float(found)


def tails() -> str:
    """Return how often an index is too low under Laplace noise, with and without the tail."""
    levels = (3, 6, 9)
    heading = ["reports"]
    heading += [f"{which}, f = ln 10^{digits}" for digits in levels for which in ("sigma alone", "sub-gamma")]
    rows = []
    for reports in (1, 3, 10, 30, 100, 1000):
        cells = [
            f"{too_low(reports, digits * math.log(10), with_tail=with_tail):.0e}"
            for digits in levels
            for with_tail in (False, True)
        ]
        rows.append([str(reports), *cells])
    return markdown(heading, rows)


def list_masks(epsilon: float) -> Iterator[tuple[str, Corruption, dict[str, Any]]]:
    """Yield masks of one epsilon, and what the policy is told beside."""
    laplace = LaplaceNoise.from_epsilon(epsilon)
    yield "randomised response", RandomizedResponse.from_epsilon(epsilon), {}
    yield "Laplace noise", laplace, {}
    yield "Laplace noise, sigma alone", laplace, {"divergence": "gaussian"}
    yield f"Gaussian noise, δ = {DELTA:g}", GaussianNoise.from_epsilon(epsilon, DELTA), {}


def costs() -> str:
    """Return the regret of klucb-cf under masks of one epsilon."""
    table: dict[str, list[str]] = {}
    for epsilon in EPSILONS:
        for label, mask, parameters in list_masks(epsilon):
            policy = make_policy("klucb-cf", arms=len(MEANS), corruption=mask, **parameters)
            regret = simulate(Problem(MEANS, [0], HORIZON, mask), policy, runs=RUNS, checkpoints=1).regret[:, 0]
            error = 1.96 * regret.std(ddof=1) / math.sqrt(RUNS)
            cell = f"{regret.mean():,.0f} ± {error:,.0f}; {np.quantile(regret, 0.99):,.0f}"
            table.setdefault(label, []).append(cell)
    heading = ["mask", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)]
    return markdown(heading, [[label, *cells] for label, cells in table.items()])


def stuck() -> str:
    """Return how often one report far out in the tail keeps the best arm away, with and without its term."""
    mask = LaplaceNoise.from_epsilon(1.0)
    problem = Problem([0.1, 0.9], [0], 10_000, mask)
    lost = 0.5 * float(problem.gaps.max()) * problem.horizon
    others: dict[str, dict[str, Any]] = {"sub-gamma": {}, "sigma alone": {"divergence": "gaussian"}}
    rows = []
    for c in (0.0, 3.0):
        for label, parameters in others.items():
            policy = make_policy("klucb-cf", arms=2, corruption=mask, c=c, **parameters)
            regret = simulate(problem, policy, runs=MANY_RUNS, checkpoints=1).regret[:, 0]
            shown = [f"{regret.mean():.0f}", f"{int((regret > lost).sum())} of {MANY_RUNS:,}", f"{regret.max():,.0f}"]
            rows.append([f"{label}, c = {c:g}", *shown])
    return markdown(["index", "mean regret", f"runs that lose more than {lost:,.0f}", "worst run"], rows)


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {"tails": tails(), "stuck": stuck(), "costs": costs()})


if __name__ == "__main__":
    main()
