"""Evidence that arms lose different shares of reports, from binomial coefficients in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def likelihood_ratio(reports: int, issued: int, received: int, total: int, odds: Fraction) -> Fraction:
    """Return how much likelier an odds ratio makes the reports of an arm than equal odds do."""
    ways = {
        k: math.comb(issued, k) * math.comb(total - issued, received - k)
        for k in range(min(issued, received) + 1)
        if received - k <= total - issued
    }
    tilted = sum(count * odds**k for k, count in ways.items())
    return odds**reports * sum(ways.values()) / tilted


def evidence(steps: Sequence[Sequence[tuple[int, int]]], effects: Sequence[float]) -> float:
    """Return the weighted mean of the products of ratios; a step has a pair (issued, reported) for each arm."""
    arms = len(steps[0])
    result = Fraction(0)
    unused = Fraction(1)
    for arm in range(arms):
        weight = Fraction(1, (arm + 1) * (arm + 2))
        unused -= weight
        for effect in effects:
            product = Fraction(1)
            for step in steps:
                total, received = sum(n for n, _ in step), sum(r for _, r in step)
                issued, reports = step[arm]
                product *= likelihood_ratio(reports, issued, received, total, Fraction(math.exp(effect)))
            result += weight / len(effects) * product
    return float(result + unused)
