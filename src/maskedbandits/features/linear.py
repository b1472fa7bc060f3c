"""d-linucb-cf: discounted linear UCB (Russac, Vernade and Cappe 2019) with debiased rewards.

An arm with weights w gives a reward of mean x'w for features x. A report is debiased to y = (report - (1 - p00)) / s,
with s = p00 + p11 - 1: it has the mean of the reward, and lies in an interval of length 1 / |s|, so its noise is
sub-Gaussian with sigma = 1 / (2 |s|). Of each arm these sums are kept, n being how many steps old a report is:

    V = sum gamma^n x x' + r I             b = sum gamma^n x y
    U = sum gamma^2n x x' + r^2 / ridge I  q = sum gamma^2n x'x

The weights are estimated by V^-1 b. If no arm's have changed, and none are longer than ``size``, then at any one step
the means x'w of all arms lie, with probability 1 - delta, within beta ``sqrt(x' V^-1 U V^-1 x)`` of their estimates,

    beta = sqrt(ridge) size + sigma sqrt(2 ln(K / delta) + d ln(1 + q ridge / (d r^2))).

This is Theorem 1 of the paper for each arm by itself, at the level delta / K, with the sum q in place of a bound on it.
The arm is chosen whose mean may be the highest.

In the paper r = ridge at all times. Then V gains a multiple of I in every step, and its inverse has to be made anew, in
d^3 operations. The theorem holds for any r that does not depend on what is seen: so r fades with the rest, and is set
back to the ridge, and the inverse made anew, every d steps, or when half of it is gone. So a step takes of the order of
K d^2 operations on average while gamma^d is 1/2 or more. Where it is less, where hardly more than d steps are
remembered, half is gone sooner, and a step takes of the order of K d^3 ln(1 / gamma). To wait longer would leave so
little of r that the inverse loses its digits, and widths grow.
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
    "gamma": param(REQUIRED, between(0.5, 1.0), "the discount of a step, such as 0.999; 1 forgets nothing"),
    "size": param(1.0, between(0.0, 1e3, above=True), "how long the weights of an arm are at most"),
    "ridge": param(1.0, between(1e-3, 1e6), "what is added to the diagonal"),
    "delta": param(0.05, between(0.0, 1.0, above=True, below=True), "how often an interval may miss"),
    "width": param(1.0, between(0.0, 10.0), "what the proved width is multiplied by; below 1 nothing is proved"),
}


class State(NamedTuple):
    """What is known of every arm's weights."""

    rng: Words  # (4,) of which it draws none
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
    low: float  # what a debiased report is less, and multiplied by
    rate: float
    gamma: float
    size: float
    ridge: float
    delta: float
    width: float


State.code = sys.modules[__name__]  # type: ignore[attr-defined] # where `dispatch` looks


def made(arms: int, features: int, p00: float, p11: float, parameters: dict[str, Any]) -> State:
    """Return the state of a policy that has seen nothing."""
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
    """Return how far the mean of an arm may be from its estimate."""
    arms, d = state.pulls.size, x.size
    floor = state.left[0] * state.left[0] / state.ridge
    level = 2.0 * math.log(arms / state.delta) + d * math.log1p(state.lengths[arm] / (d * floor))
    beta = math.sqrt(state.ridge) * state.size + 0.5 * abs(state.rate) * math.sqrt(level)
    times(state.inverses[arm], x, state.scratch)
    return state.width * beta * math.sqrt(form(state.squares[arm], state.scratch))


@inlined
def choose(state: State, x: Floats) -> int:
    """Return the arm whose mean may be the highest; the first such arm."""
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
    """Take in the masked feedback of an arm; of all others the knowledge fades."""
    if state.gamma < 1.0:
        _fade(state)
    inverse, u = state.inverses[arm], state.scratch
    times(inverse, x, u)
    add_square(inverse, u, -1.0 / (1.0 + max(dot(u, x), 0.0)))  # Sherman and Morrison
    add_square(state.grams[arm], x, 1.0)
    add_square(state.squares[arm], x, 1.0)
    state.lengths[arm] += dot(x, x)
    reward = (feedback - state.low) * state.rate
    for place in range(x.size):
        state.sums[arm, place] += reward * x[place]
    times(inverse, state.sums[arm], state.weights[arm])
    state.pulls[arm] += 1
    state.clock[0] += 1
    if state.clock[0] >= x.size or state.left[0] < 0.5 * state.ridge:
        _set_back(state)


@inlined
def _fade(state: State) -> None:
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
def _set_back(state: State) -> None:
    """Let r be the ridge again, and make the inverses anew; rounding does not add up for longer."""
    missing = state.ridge - state.left[0]
    missing_squared = state.ridge - state.left[0] * state.left[0] / state.ridge
    for arm in range(state.pulls.size):
        for place in range(state.scratch.size):
            state.grams[arm, place, place] += missing
            state.squares[arm, place, place] += missing_squared
        invert(state.grams[arm], state.ridge, state.inverses[arm])
        times(state.inverses[arm], state.sums[arm], state.weights[arm])
    state.left[0] = state.ridge
    state.clock[0] = 0


@inlined
def estimate(state: State, x: Floats, arm: int) -> float:
    """Return the estimated mean reward of an arm, which is a probability."""
    return min(max(dot(state.weights[arm], x), 0.0), 1.0)
