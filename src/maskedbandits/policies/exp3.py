"""EXP3.S and REXP3: exponential weights, whose regret is bounded for any sequence of gains.

**Gains** are numbers in [0, 1]. A feedback y is debiased by the inverse of an affine g, (y - g(0)) / (g(1) - g(0)): the
result has the mean of the reward and a wider range. Less the floor and over the width of that range, which are the same
for all arms, it is a gain. Gaps between means shrink by the width. With one randomised response for all arms, the gain
is the feedback itself.

**Weights.** An arm has a weight w_j and is drawn with probability ``p_j = (1 - gamma) w_j / W + gamma / K``, where W is
the sum of all weights. The gain y of the arm drawn counts as y / p, which estimates the gain of every arm without bias:

    w_j <- w_j exp(gamma y / (K p_j)) + e alpha W / K            (y = 0 for the others)

EXP3.S (Auer, Cesa-Bianchi, Freund and Schapire 2002) has alpha = 1 / T: no weight falls so low that it cannot rise
again. REXP3 (Besbes, Gur and Zeevi 2014) has alpha = 0 and restarts after every batch of steps.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import DURATION, REQUIRED, Floats, array, computed, param, record
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.state import Arms, count_feedback, forget

SUMMARY = "exponential weights that can recover, for adversarial rewards"
REFERENCE = "Auer et al. 2002"
REXP3_SUMMARY = "exponential weights, restarted by a variation budget"
REXP3_REFERENCE = "Besbes et al. 2014"
DRAWS_FROM = "scores"
LEARNS_FROM = "debiased feedback"

MAX_TOTAL = 1e100  # a sum of weights from which on all are scaled down ...
MIN_WEIGHT = 1e-250  # ... but none to 0, from which it would never rise again


@record
class Gains(Arms):
    """The range of debiased feedbacks, the same for all arms."""

    floor: float = computed()
    width: float = computed()


def configure_gains(state: Gains) -> None:
    """Compute the range of debiased feedbacks."""
    scalars = state.scalars[0]
    scalars.floor = float((-state.lows * state.rates).min())
    scalars.width = float(((1.0 - state.lows) * state.rates).max()) - scalars.floor


@inlined
def gain_of(state: Gains, arm: int, feedback: float) -> float:
    """Return the gain of a feedback."""
    scalars = state.scalars[0]
    return ((feedback - state.lows[arm]) * state.rates[arm] - scalars.floor) / scalars.width


@record
class Policy(Gains):
    """The weights of the arms, and the learning rate. EXP3.S takes no variation, REXP3 no changes."""

    horizon: int = param(REQUIRED, validation.count, "number of steps", stored=False, time=DURATION)
    changes: int = param(1, validation.count, "number of segments; 1 if nothing changes", stored=False)
    variation: float = param(
        None,
        validation.between(0, math.inf),
        "total variation of the means, such as problem.variation",
        stored=False,
    )
    gamma: float = computed()
    alpha: float = computed()
    batch: float = computed()  # steps between restarts, or 0
    weights: Floats = array(lambda scalars: scalars.arms, least=5e-324, most=1e300)


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Tune EXP3.S for a number of changes, or REXP3 for a variation budget."""
    configure_gains(state)
    if parameters["variation"] is None:
        _tune_for_changes(state, parameters["horizon"], parameters["changes"])
    else:
        _tune_for_variation(state, parameters["horizon"], parameters["variation"])


def _tune_for_changes(state: Policy, horizon: int, changes: int) -> None:
    """Tune as in Corollary 8.3 of Auer et al. 2002."""
    scalars = state.scalars[0]
    effort = scalars.arms * (changes * math.log(scalars.arms * horizon) + math.e)
    scalars.gamma = min(1.0, math.sqrt(effort / ((math.e - 1.0) * horizon)))
    scalars.alpha = 1.0 / horizon


def _tune_for_variation(state: Policy, horizon: int, variation: float) -> None:
    """Tune as in Theorem 2 of Besbes et al. 2014."""
    scalars = state.scalars[0]
    effort = scalars.arms * math.log(scalars.arms)
    budget = variation / scalars.width  # gains move less than means, by this factor
    batch = effort ** (1 / 3) * (horizon / budget) ** (2 / 3) if budget > 0.0 else math.inf
    length = max(1, math.ceil(min(batch, horizon)))
    scalars.batch = length
    scalars.gamma = min(1.0, math.sqrt(effort / ((math.e - 1.0) * length)))


@inner
def start(state: Policy) -> None:
    """Make all weights equal."""
    forget(state)
    state.weights[:] = 1.0


@inner
def _total(state: Policy) -> float:
    """Return the sum of all weights."""
    weights = state.weights
    total = 0.0
    for arm in range(weights.size):
        total += weights[arm]
    return total


@inlined
def _probability(state: Policy, arm: int, total: float) -> float:
    """Return the probability of an arm, given the sum of all weights."""
    scalars = state.scalars[0]
    return (1.0 - scalars.gamma) * state.weights[arm] / total + scalars.gamma / scalars.arms


@inner
def score(state: Policy, arm: int) -> float:
    """Return the probability that the arm is drawn next."""
    return _probability(state, arm, _total(state))


@inner
def choose(state: Policy) -> int:
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
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Raise the weight of the arm by its gain, and share out a little of all weight."""
    scalars = state.scalars[0]
    gain = gain_of(state, arm, count_feedback(state, arm, feedback))
    total = _total(state)
    gain /= _probability(state, arm, total)
    weights = state.weights
    weights[arm] *= math.exp(scalars.gamma * gain / scalars.arms)
    share = math.e * scalars.alpha * total / scalars.arms
    for each in range(weights.size):
        weights[each] += share
    if scalars.batch > 0.0 and scalars.time % int(scalars.batch) == 0:
        state.weights[:] = 1.0
    elif total > MAX_TOTAL:
        for each in range(weights.size):
            weights[each] = max(weights[each] / total, MIN_WEIGHT)
