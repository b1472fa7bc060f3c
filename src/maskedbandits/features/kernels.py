"""Compiled entry points of a live policy over features, and the loop that simulates one."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, dispatch, entry, inlined
from maskedbandits._numba.state import Floats, Ints
from maskedbandits.math import rng
from maskedbandits.math.linalg import dot
from maskedbandits.math.logistic import masked_sigmoid, sigmoid
from maskedbandits.policies.kernels import Tally


class FeaturedWorld(NamedTuple):
    """A problem with features, as arrays."""

    starts: Ints  # (L + 1,), the horizon at the end
    weights: NDArray[np.float64]  # (L, K, d)
    p00: float
    p11: float
    features: Floats  # (d,) of the present step


# The code of a policy is in the module of its state.


@dispatch("code")
def choose(state: Any, x: Floats) -> int:
    """Return the arm to pull next."""
    return 0


@dispatch("code")
def observe(state: Any, x: Floats, arm: int, feedback: float) -> None:
    """Update the state with the feedback of a pull."""


@dispatch("code")
def estimate(state: Any, x: Floats, arm: int) -> float:
    """Return the estimated mean reward of an arm."""
    return math.nan


@entry
def choose_live(state: Any, x: Floats) -> int:
    """Return the arm to pull next."""
    return choose(state, x)


@entry
def observe_live(state: Any, x: Floats, arm: int, feedback: float) -> None:
    """Update the state with the feedback of a pull."""
    observe(state, x, arm, feedback)


@entry
def estimates_live(state: Any, x: Floats, out: Floats) -> None:
    """Write the estimated mean reward of every arm; NaN without observations."""
    for arm in range(out.size):
        out[arm] = estimate(state, x, arm) if state.pulls[arm] > 0 else math.nan


@inlined
def _draw_features(words: Any, x: Floats) -> None:
    """Draw features: a constant, and standard normal ones."""
    x[0] = 1.0
    for index in range(1, x.size):
        x[index] = rng.normal(words)


@inlined
def _regret_of(weights: NDArray[np.float64], x: Floats, arm: int) -> float:
    """Return the regret of an arm for these features."""
    best = -math.inf
    for each in range(weights.shape[0]):
        best = max(best, dot(weights[each], x))
    return sigmoid(best) - sigmoid(dot(weights[arm], x))


@compiled
def advance(state: Any, world: FeaturedWorld, checkpoints: Ints, tally: Tally, until: int) -> None:
    """Continue a run up to step ``until``."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    x = world.features
    while done < until:
        weights = world.weights[segment]
        _draw_features(state.rng, x)
        arm = choose(state, x)
        one, _, _ = masked_sigmoid(dot(weights[arm], x), world.p00, world.p11)
        observe(state, x, arm, 1.0 if rng.uniform(state.rng) < one else 0.0)
        regret = _regret_of(weights, x, arm)
        tally.total[0] += regret
        tally.pulls[arm] += 1
        if regret > 0.0:
            tally.suboptimal_pulls[arm] += 1
        done += 1
        if done == world.starts[segment + 1]:
            segment += 1
        if following < checkpoints.size and done == checkpoints[following]:
            tally.regret[following] = tally.total[0]
            for each in range(tally.pulls.size):
                tally.pulls_over_time[following, each] += tally.pulls[each]
            following += 1
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
