"""Which epsilon to take: the smallest whose cost, and that of all larger ones, is surely within the tolerance.

Epsilons are judged from the largest down, and the first one that is not surely within ends the search. So however many
there are, the chance to call any of them within that is not is that of a single interval, 2.5 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from maskedbandits.planner.statistics import Estimate


@dataclass(frozen=True)
class Advice:
    """An epsilon to take, if there is one, and where the search ended."""

    epsilon: float | None
    refused: float | None  # the largest epsilon that is not surely within the tolerance
    in_doubt: bool  # whether that one may be within all the same: more worlds would tell
    gains: bool  # whether learning gains anything at all without privacy


def advise(costs: Mapping[float, Estimate | None], tolerance: float) -> Advice:
    """Return which epsilon to take, of the share of the gain that each costs."""
    taken = None
    for epsilon in sorted(costs, reverse=True):
        cost = costs[epsilon]
        if cost is None:
            return Advice(None, None, in_doubt=False, gains=False)
        if cost.high > tolerance:
            return Advice(taken, epsilon, in_doubt=cost.low <= tolerance, gains=True)
        taken = epsilon
    return Advice(taken, None, in_doubt=False, gains=True)
