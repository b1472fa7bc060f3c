"""d-linucb-cf: discounted linear UCB (Russac, Vernade and Cappe 2019) with debiased rewards.

An arm with weights w gives a reward of mean x'w for features x. A report is debiased to y = (report - (1 - p00)) / s,
with s = p00 + p11 - 1: it has the mean of the reward, and lies in an interval of length 1 / |s|, so its noise is
sub-Gaussian with sigma = 1 / (2 |s|). Each arm has these sums, where n is the age of a report in steps:

    V = sum gamma^n x x' + r I             b = sum gamma^n x y
    U = sum gamma^2n x x' + r^2 / ridge I  q = sum gamma^2n x'x

The weights are estimated by V^-1 b. If no weights have changed, and none are longer than ``size``, then at any one step
the means x'w of all arms lie, with probability 1 - delta, within beta ``sqrt(x' V^-1 U V^-1 x)`` of their estimates,

    beta = sqrt(ridge) size + sigma sqrt(2 ln(K / delta) + d ln(1 + q ridge / (d r^2))).

This is Theorem 1 of the paper for each arm by itself, at the level delta / K, with the sum q in index of a bound on it.
The policy chooses the arm with the highest upper bound.

In the paper r = ridge at all times. Then V gains a multiple of I in every step, and its inverse must be recomputed in
d^3 operations. The theorem holds for any r that does not depend on the observations. So r fades with the rest. Every d
steps, or when half of it is gone, r is reset to the ridge and the inverse recomputed. A step takes of the order of K
d^2 operations on average while gamma^d is 1/2 or more. If it is less, hardly more than d steps are remembered, half of
r is gone sooner, and a step takes of the order of K d^3 ln(1 / gamma). With a longer wait so little of r would be left
that the inverse loses its digits, and widths grow.
"""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import REQUIRED, Floats, Ints, Param, Words, param
from maskedbandits.math.linalg import add_square, dot, form, invert, times
from maskedbandits.policies.validation import between

PARAMETERS: dict[str, Param] = {
    "gamma": param(REQUIRED, between(0.5, 1.0), "discount of a step, such as 0.999; 1 forgets nothing"),
    "size": param(1.0, between(0.0, 1e3, above=True), "largest norm of the weights of an arm"),
    "ridge": param(1.0, between(1e-3, 1e6), "number added to the diagonal"),
    "delta": param(0.05, between(0.0, 1.0, above=True, below=True), "probability that an interval misses"),
    "width": param(1.0, between(0.0, 10.0), "factor of the proved width; below 1 the proof does not hold"),
}


class State(NamedTuple):
    """The statistics of every arm's weights."""

    rng: Words  # (4,), not used
    pulls: Ints  # (K,) reports taken in
    weights: NDArray[np.float64]  # (K, d) V^-1 b
    grams: NDArray[np.float64]  # (K, d, d) V
    inverses: NDArray[np.float64]  # (K, d, d) V^-1
    squares: NDArray[np.float64]  # (K, d, d) U
    sums: NDArray[np.float64]  # (K, d) b
    lengths: Floats  # (K,) q
    left: Floats  # (1,) r
    clock: Ints  # (1,) steps since r was set back
    scratch: Floats  # (d,)
    low: float  # subtracted from a report, and the factor, to debias it
    rate: float
    gamma: float
    size: float
    ridge: float
    delta: float
    width: float


State.code = sys.modules[__name__]  # type: ignore[attr-defined] # for `dispatch`


def build_state(arms: int, features: int, p00: float, p11: float, parameters: dict[str, Any]) -> State:
    """Return the initial state."""
    ridge = parameters["ridge"]
    return State(
        np.zeros(4, dtype=np.uint64),
        np.zeros(arms, dtype=np.int64),
        np.zeros((arms, features)),
        np.tile(ridge * np.eye(features), (arms, 1, 1)),
        np.tile(np.eye(features) / ridge, (arms, 1, 1)),
        np.tile(ridge * np.eye(features), (arms, 1, 1)),
        np.zeros((arms, features)),
        np.zeros(arms),
        np.array([ridge]),
        np.zeros(1, dtype=np.int64),
        np.zeros(features),
        1.0 - p00,
        1.0 / (p00 + p11 - 1.0),
        *(parameters[name] for name in ("gamma", "size", "ridge", "delta", "width")),
    )


@inlined
def half_width(state: State, x: Floats, arm: int) -> float:
    """Return the half width of the confidence interval of an arm's mean."""
    arms, d = state.pulls.size, x.size
    floor = state.left[0] * state.left[0] / state.ridge
    level = 2.0 * math.log(arms / state.delta) + d * math.log1p(state.lengths[arm] / (d * floor))
    beta = math.sqrt(state.ridge) * state.size + 0.5 * abs(state.rate) * math.sqrt(level)
    times(state.inverses[arm], x, state.scratch)
    return state.width * beta * math.sqrt(form(state.squares[arm], state.scratch))


@inlined
def choose(state: State, x: Floats) -> int:
    """Return the arm with the highest upper bound; the first such arm."""
    best = -math.inf
    chosen = 0
    for arm in range(state.pulls.size):
        score = dot(state.weights[arm], x) + half_width(state, x, arm)
        if score > best:
            best = score
            chosen = arm
    return chosen


@inlined
def observe(state: State, x: Floats, arm: int, feedback: float) -> None:
    """Update the state with the masked feedback of an arm; the statistics of all others fade."""
    if state.gamma < 1.0:
        _fade(state)
    inverse, u = state.inverses[arm], state.scratch
    times(inverse, x, u)
    add_square(inverse, u, -1.0 / (1.0 + max(dot(u, x), 0.0)))  # Sherman and Morrison
    add_square(state.grams[arm], x, 1.0)
    add_square(state.squares[arm], x, 1.0)
    state.lengths[arm] += dot(x, x)
    reward = (feedback - state.low) * state.rate
    for index in range(x.size):
        state.sums[arm, index] += reward * x[index]
    times(inverse, state.sums[arm], state.weights[arm])
    state.pulls[arm] += 1
    state.clock[0] += 1
    if state.clock[0] >= x.size or state.left[0] < 0.5 * state.ridge:
        _reset_ridge(state)


@inlined
def _fade(state: State) -> None:
    """Discount all sums by one step."""
    gamma = state.gamma
    for arm in range(state.pulls.size):
        state.lengths[arm] *= gamma * gamma
        for row in range(state.scratch.size):
            state.sums[arm, row] *= gamma
            for column in range(state.scratch.size):
                state.grams[arm, row, column] *= gamma
                state.squares[arm, row, column] *= gamma * gamma
                state.inverses[arm, row, column] /= gamma
    state.left[0] *= gamma


@inlined
def _reset_ridge(state: State) -> None:
    """Reset r to the ridge, and recompute the inverses, which also removes rounding errors."""
    missing = state.ridge - state.left[0]
    missing_squared = state.ridge - state.left[0] * state.left[0] / state.ridge
    for arm in range(state.pulls.size):
        for index in range(state.scratch.size):
            state.grams[arm, index, index] += missing
            state.squares[arm, index, index] += missing_squared
        invert(state.grams[arm], state.ridge, state.inverses[arm])
        times(state.inverses[arm], state.sums[arm], state.weights[arm])
    state.left[0] = state.ridge
    state.clock[0] = 0


@inlined
def estimate(state: State, x: Floats, arm: int) -> float:
    """Return the estimated mean reward of an arm, clipped to [0, 1]."""
    return min(max(dot(state.weights[arm], x), 0.0), 1.0)
