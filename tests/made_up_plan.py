"""Made-up plans for tests of their text: nothing is simulated."""

from __future__ import annotations

import math

from maskedbandits.planner import Estimate, Level, Plan, PlanInputs, Settling
from maskedbandits.privacy.exposure import compute_exposure

HORIZON, BLIND = 10_000, 500.0  # people; what a blind choice loses with two arms and a gap of 0.1


def around(mean: float, half: float) -> Estimate:
    return Estimate(mean, mean - half, mean + half)


def level(
    epsilon: float,
    extra: float,
    half: float,
    *,
    settled: int | None = 400,
    pays_from: int | None = 2000,
    looked_to: int = HORIZON,
) -> Level:
    gain = BLIND - 100.0
    return Level(
        epsilon,
        loss=around(100.0 + extra, half),
        extra=around(extra, half),
        cost=around(extra / gain, half / gain),
        settling=Settling(settled, 1.0 if settled else 0.25, 50),
        pays_from=pays_from,
        looked_to=looked_to,
        exposure=compute_exposure(epsilon),
    )


def made_up(*levels: Level, gain: Estimate | None = None, changes: int = 2, tolerance: float = 0.1) -> Plan:
    epsilons = (*(each.epsilon for each in levels), math.inf)
    inputs = PlanInputs(2, HORIZON, changes, 0.1, 0.3, epsilons, "auto", tolerance, 12, 0)
    return Plan(inputs, (*levels, level(math.inf, 0.0, 0.0)), gain or around(BLIND - 100.0, 10.0))


# At 0.5 too much, at 1 in doubt, at 2 within.
USUAL = made_up(level(0.5, 300.0, 20.0, settled=None, pays_from=None), level(1.0, 36.0, 10.0), level(2.0, 20.0, 10.0))
