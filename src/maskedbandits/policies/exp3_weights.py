"""Exponential weights, shared by EXP3.S, REXP3 and others that learn from gains.

Gains in [0, 1], for algorithms that want them: debiased feedbacks, shrunk.

A feedback y is debiased by the inverse of an affine g, (y - g(0)) / (g(1) - g(0)): its mean is that of the reward, and
its range wider. Less the floor and over the width of that range, which are the same for all arms, it is a gain: gaps of
means come out smaller by the width. With one randomised response for all arms the gain is the feedback itself.

Exponential weights, which hold against any sequence of gains.

An arm has a weight w_j and is drawn with probability ``p_j = (1 - gamma) w_j / W + gamma / K``, W the sum of all. The
gain y of the arm drawn is counted as y / p, in the mean the gain of every arm, and

    w_j <- w_j exp(gamma y / (K p_j)) + e alpha W / K            (y = 0 for the others)

EXP3.S (Auer, Cesa-Bianchi, Freund and Schapire 2002) has alpha = 1 / T: a weight never falls so low that it could not
rise again. REXP3 (Besbes, Gur and Zeevi 2014) has alpha = 0 and begins anew after every batch of steps.

Gains are debiased feedbacks, shrunk to [0, 1] (``exp3_weights.py``): so the learning rate fits their range.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import DURATION, REQUIRED, Floats, array, computed, param, record
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.state import Arms, counted, forget


@record
class Gains(Arms):
    """The range of debiased feedbacks, the same for all arms."""

    floor: float = computed()
    width: float = computed()


def configure(state: Gains, parameters: Mapping[str, Any]) -> None:
    """Write down the range."""
    scalars = state.scalars[0]
    scalars.floor = float((-state.lows * state.rates).min())
    scalars.width = float(((1.0 - state.lows) * state.rates).max()) - scalars.floor


@inlined
def gain_of(state: Gains, arm: int, feedback: float) -> float:
    """Return the gain that a feedback stands for."""
    scalars = state.scalars[0]
    return ((feedback - state.lows[arm]) * state.rates[arm] - scalars.floor) / scalars.width


HEAVY = 1e100  # a sum of weights at which all are scaled down ...
LIGHT = 1e-250  # ... but none to nothing: a weight of 0 would never rise again
DRAWS_FROM = "scores"
LEARNS_FROM = "debiased feedback"


@record
class Weights(Gains):
    """Weights of the arms, and how fast they learn."""

    horizon: int = param(REQUIRED, validation.count, "how many steps will be played", stored=False, time=DURATION)
    gamma: float = computed()
    alpha: float = computed()
    batch: float = computed()
    weights: Floats = array(lambda scalars: scalars.arms, least=5e-324, most=1e300)


@inner
def start(state: Weights) -> None:
    """Make all weights equal."""
    forget(state)
    state.weights[:] = 1.0


@inner
def _total(state: Weights) -> float:
    weights = state.weights
    total = 0.0
    for arm in range(weights.size):
        total += weights[arm]
    return total


@inlined
def _probability(state: Weights, arm: int, total: float) -> float:
    scalars = state.scalars[0]
    return (1.0 - scalars.gamma) * state.weights[arm] / total + scalars.gamma / scalars.arms


@inner
def score(state: Weights, arm: int) -> float:
    """Return the probability with which the arm is drawn next."""
    return _probability(state, arm, _total(state))


@inner
def choose(state: Weights) -> int:
    """Draw an arm."""
    total = _total(state)
    left = rng.uniform(state.rng)
    last = state.scalars[0].arms - 1
    for arm in range(last):
        left -= _probability(state, arm, total)
        if left < 0.0:
            return arm
    return last


@inner
def observe(state: Weights, arm: int, feedback: float) -> None:
    """Raise the weight of the arm for its gain, and share out a little of all weight."""
    scalars = state.scalars[0]
    gain = gain_of(state, arm, counted(state, arm, feedback))
    total = _total(state)
    gain /= _probability(state, arm, total)
    weights = state.weights
    weights[arm] *= math.exp(scalars.gamma * gain / scalars.arms)
    share = math.e * scalars.alpha * total / scalars.arms
    for each in range(weights.size):
        weights[each] += share
    if scalars.batch > 0.0 and scalars.time % int(scalars.batch) == 0:
        state.weights[:] = 1.0
    elif total > HEAVY:
        for each in range(weights.size):
            weights[each] = max(weights[each] / total, LIGHT)
