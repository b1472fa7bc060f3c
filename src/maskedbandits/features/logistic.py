"""logistic-ts-cf: Thompson sampling for logistic rewards behind randomised response, the link of which is known.

An arm with weights w gives a reward of 1 with probability sigma(x'w) for features x, so a report is a one with
probability ``lambda(x'w)``, where ``lambda(z) = (1 - p00) sigma(-z) + p11 sigma(z)``; with p00 = p11 that is
``1/2 + s (sigma(z) - 1/2)``. What is known of w is kept as a normal law of mean m and covariance C, at first 0 and the
prior's. A report y moves it by one step of an extended Kalman filter: with v = x'Cx,

    m <- m + C x l (y - p) / n,    C <- C - C x x'C l^2 / n,    n = p (1 - p),

where p and l are the means of lambda(z) and of its slope over the normal law of z = x'w, by MacKay's approximation
(1992): ``p = lambda(k x'm)`` and ``l = k lambda'(k x'm)`` with ``k = 1 / sqrt(1 + pi v / 8)``. So no report moves x'm
by more than sqrt(8 / pi) standard deviations; with p and l at x'm itself, as is usual, there would be no such bound.

An arm's lot is drawn from the law of x'w, which is normal with mean x'm and variance v: one lot an arm, and no root of
a matrix. As time goes on, C grows to C / gamma; but the variance of no weight grows beyond the prior's: row and column
i are multiplied by the root of ``min(1 / gamma, prior / C_ii)``, after which C is a covariance still.
"""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import Floats, Ints, Param, Words, param
from maskedbandits.math import rng
from maskedbandits.math.linalg import add_square, dot, form, times
from maskedbandits.math.logistic import masked, sigmoid
from maskedbandits.policies.validation import between

MODERATION = math.pi / 8.0  # MacKay 1992: a logistic function's mean over a normal law is one, flatter by this

PARAMETERS: dict[str, Param] = {
    "prior": param(1.0, between(1e-3, 1e3), "the standard deviation of every weight before anything is seen"),
    "gamma": param(1.0, between(0.5, 1.0), "what is left of the certainty after a step; 1 forgets nothing"),
}


class State(NamedTuple):
    """What is known of every arm's weights."""

    rng: Words  # (4,)
    pulls: Ints  # (K,) reports taken in
    means: NDArray[np.float64]  # (K, d)
    covariances: NDArray[np.float64]  # (K, d, d)
    scratch: Floats  # (d,)
    p00: float
    p11: float
    gamma: float
    prior: float  # variance


State.code = sys.modules[__name__]  # type: ignore[attr-defined] # where `dispatch` looks


def made(arms: int, features: int, p00: float, p11: float, parameters: dict[str, Any]) -> State:
    """Return the state of a policy that has seen nothing."""
    prior = parameters["prior"] ** 2
    return State(
        np.zeros(4, dtype=np.uint64),
        np.zeros(arms, dtype=np.int64),
        np.zeros((arms, features)),
        np.tile(prior * np.eye(features), (arms, 1, 1)),
        np.zeros(features),
        p00,
        p11,
        parameters["gamma"],
        prior,
    )


@inlined
def choose(state: State, x: Floats) -> int:
    """Return the arm with the highest lot."""
    best = -math.inf
    chosen = 0
    for arm in range(state.pulls.size):
        spread = math.sqrt(form(state.covariances[arm], x))
        lot = dot(state.means[arm], x) + spread * rng.normal(state.rng)
        if lot > best:
            best = lot
            chosen = arm
    return chosen


@inlined
def observe(state: State, x: Floats, arm: int, feedback: float) -> None:
    """Take in the masked feedback of an arm; of all others the knowledge grows older."""
    if state.gamma < 1.0:
        for each in range(state.pulls.size):
            _grow_older(state.covariances[each], state.gamma, state.prior, state.scratch)
    mean, covariance, gain = state.means[arm], state.covariances[arm], state.scratch
    times(covariance, x, gain)
    shrink = 1.0 / math.sqrt(1.0 + MODERATION * max(dot(gain, x), 0.0))
    one, zero, slope = masked(shrink * dot(mean, x), state.p00, state.p11)
    step = shrink * slope / (one * zero)
    for place in range(x.size):
        mean[place] += gain[place] * step * (feedback - one)
    add_square(covariance, gain, -shrink * slope * step)
    state.pulls[arm] += 1


@inlined
def _grow_older(covariance: NDArray[np.float64], gamma: float, prior: float, roots: Floats) -> None:
    for place in range(roots.size):
        roots[place] = math.sqrt(min(1.0 / gamma, prior / covariance[place, place]))
    for row in range(roots.size):
        for column in range(row + 1):
            older = covariance[row, column] * (roots[row] * roots[column])
            covariance[row, column] = older
            covariance[column, row] = older  # else rounding would make them differ, and what they differ by would grow


@inlined
def estimate(state: State, x: Floats, arm: int) -> float:
    """Return the estimated mean reward of an arm."""
    return sigmoid(dot(state.means[arm], x))
