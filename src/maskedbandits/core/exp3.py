"""EXP3.S and REXP3: exponential weights, which hold against any sequence of gains.

An arm has a weight w_j and is drawn with probability ``p_j = (1 - gamma) w_j / W + gamma / K``, W the sum of all. The
gain y of the arm drawn is counted as y / p, in the mean the gain of every arm, and

    w_j <- w_j exp(gamma y / (K p_j)) + e alpha W / K            (y = 0 for the others)

EXP3.S (Auer, Cesa-Bianchi, Freund and Schapire 2002) has alpha = 1 / T: a weight never falls so low that it could not
rise again. REXP3 (Besbes, Gur and Zeevi 2014) has alpha = 0 and begins anew after every batch of steps.

Gains are debiased feedbacks, shrunk to [0, 1] (``corruption.gain``): so the learning rate fits their range.
"""

import math

from maskedbandits.core import corruption, lots
from maskedbandits.core.compiled import compiled
from maskedbandits.core.lots import Words
from maskedbandits.core.state import ARMS, FLOOR, OWN_HEAD, TIME, WIDTH, Solo

GAMMA, ALPHA, BATCH = range(2, 5)  # places among the parameters
HEAVY = 1e100  # a sum of weights at which all are scaled down ...
LIGHT = 1e-250  # ... but none to nothing: a weight of 0 would never rise again


def size(arms: int) -> int:
    """Return how many numbers it keeps."""
    return OWN_HEAD + arms


@compiled
def start(state: Solo) -> None:
    """Make all weights equal."""
    state.own[OWN_HEAD:] = 1.0


@compiled
def _total(state: Solo) -> float:
    total = 0.0
    for arm in range(state.head[ARMS]):
        total += state.own[OWN_HEAD + arm]
    return total


@compiled
def _probability(state: Solo, arm: int, total: float) -> float:
    gamma = state.own[GAMMA]
    return (1.0 - gamma) * state.own[OWN_HEAD + arm] / total + gamma / state.head[ARMS]


@compiled
def score(state: Solo, arm: int) -> float:
    """Return the probability with which the arm is drawn next."""
    return _probability(state, arm, _total(state))


@compiled
def decide(state: Solo, words: Words) -> int:
    """Draw an arm."""
    total = _total(state)
    left = lots.uniform(words)
    last = state.head[ARMS] - 1
    for arm in range(last):
        left -= _probability(state, arm, total)
        if left < 0.0:
            return arm
    return last


@compiled
def observe(state: Solo, arm: int, feedback: float) -> None:
    """Raise the weight of the arm for its gain, and share out a little of all weight."""
    arms = state.head[ARMS]
    total = _total(state)
    gain = corruption.gain(feedback, state.lows[arm], state.rates[arm], state.own[FLOOR], state.own[WIDTH])
    gain /= _probability(state, arm, total)
    state.own[OWN_HEAD + arm] *= math.exp(state.own[GAMMA] * gain / arms)
    share = math.e * state.own[ALPHA] * total / arms
    for each in range(arms):
        state.own[OWN_HEAD + each] += share
    batch = state.own[BATCH]
    if batch > 0.0 and state.head[TIME] % int(batch) == 0:
        start(state)
    elif total > HEAVY:
        for each in range(arms):
            state.own[OWN_HEAD + each] = max(state.own[OWN_HEAD + each] / total, LIGHT)
