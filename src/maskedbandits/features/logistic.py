"""logistic-ts-cf: Thompson sampling for logistic rewards behind randomised response with a known link.

An arm with weights w gives a reward of 1 with probability sigma(x'w) for features x. So a report is a one with
probability ``lambda(x'w)``, where ``lambda(z) = (1 - p00) sigma(-z) + p11 sigma(z)``. With p00 = p11 this is ``1/2 + s
(sigma(z) - 1/2)``. The posterior of w is a normal distribution of mean m and covariance C, initially 0 and that of the
prior. A report y updates it by one step of an extended Kalman filter: with v = x'Cx,

    m <- m + C x l (y - p) / n,    C <- C - C x x'C l^2 / n,    n = p (1 - p),

where p and l are the means of lambda(z) and of its slope over the normal distribution of z = x'w, by MacKay's
approximation (1992): ``p = lambda(k x'm)`` and ``l = k lambda'(k x'm)`` with ``k = 1 / sqrt(1 + pi v / 8)``. So no
report moves x'm by more than sqrt(8 / pi) standard deviations. With p and l at x'm itself, as is usual, there would be
no such bound.

The draw of an arm is one from the distribution of x'w, which is normal with mean x'm and variance v. It needs one
random number an arm, and no root of a matrix. As time goes on, C grows to C / gamma, but the variance of no weight
exceeds that of the prior: row and column i are multiplied by the root of ``min(1 / gamma, prior / C_ii)``, after which
C is still a covariance.
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
from maskedbandits.math.logistic import masked_sigmoid, sigmoid
from maskedbandits.policies.validation import between

MODERATION = math.pi / 8.0  # MacKay 1992: flattens a logistic function to its mean over a normal law

PARAMETERS: dict[str, Param] = {
    "prior": param(1.0, between(1e-3, 1e3), "prior standard deviation of every weight"),
    "gamma": param(1.0, between(0.5, 1.0), "discount of the precision per step; 1 forgets nothing"),
}


class State(NamedTuple):
    """The posterior of every arm's weights."""

    rng: Words  # (4,)
    pulls: Ints  # (K,) reports taken in
    means: NDArray[np.float64]  # (K, d)
    covariances: NDArray[np.float64]  # (K, d, d)
    scratch: Floats  # (d,)
    p00: float
    p11: float
    gamma: float
    prior: float  # variance


State.code = sys.modules[__name__]  # type: ignore[attr-defined] # for `dispatch`


def build_state(arms: int, features: int, p00: float, p11: float, parameters: dict[str, Any]) -> State:
    """Return the initial state."""
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
    """Return the arm with the highest draw from its posterior."""
    best = -math.inf
    chosen = 0
    for arm in range(state.pulls.size):
        spread = math.sqrt(form(state.covariances[arm], x))
        draw = dot(state.means[arm], x) + spread * rng.normal(state.rng)
        if draw > best:
            best = draw
            chosen = arm
    return chosen


@inlined
def observe(state: State, x: Floats, arm: int, feedback: float) -> None:
    """Update the state with the masked feedback of an arm; the posteriors of all others widen."""
    if state.gamma < 1.0:
        for each in range(state.pulls.size):
            _widen(state.covariances[each], state.gamma, state.prior, state.scratch)
    mean, covariance, gain = state.means[arm], state.covariances[arm], state.scratch
    times(covariance, x, gain)
    shrink = 1.0 / math.sqrt(1.0 + MODERATION * max(dot(gain, x), 0.0))
    one, zero, slope = masked_sigmoid(shrink * dot(mean, x), state.p00, state.p11)
    step = shrink * slope / (one * zero)
    for index in range(x.size):
        mean[index] += gain[index] * step * (feedback - one)
    add_square(covariance, gain, -shrink * slope * step)
    state.pulls[arm] += 1


@inlined
def _widen(covariance: NDArray[np.float64], gamma: float, prior: float, roots: Floats) -> None:
    """Widen a posterior by one step of forgetting."""
    for index in range(roots.size):
        roots[index] = math.sqrt(min(1.0 / gamma, prior / covariance[index, index]))
    for row in range(roots.size):
        for column in range(row + 1):
            older = covariance[row, column] * (roots[row] * roots[column])
            covariance[row, column] = older
            covariance[column, row] = older  # otherwise rounding would make them differ more and more


@inlined
def estimate(state: State, x: Floats, arm: int) -> float:
    """Return the estimated mean reward of an arm."""
    return sigmoid(dot(state.means[arm], x))
