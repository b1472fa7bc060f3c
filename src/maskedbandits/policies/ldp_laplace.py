"""LDP-UCB-L (Ren, Zhou, Liu and Shroff 2020): sees rewards, and adds Laplace noise to each.

Noise of scale 1 / epsilon is added to each reward before it enters the sum. With N noisy rewards of an arm at step t,
its index is their mean + sqrt(2 log t / N) + sqrt(32 log t / N) / epsilon, once N > 4 log(t + 1); an arm with fewer is
pulled first. In the paper the noise is added on every person's device, which makes it local privacy. Here the policy
adds it, so its operator sees the rewards: it exists to compare regrets, and protects no one. The noise is drawn in
floating point from a generator that anyone can repeat.
"""

import math

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import REQUIRED, param, record
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.pending import overdue_delay, patience, unanswered_count
from maskedbandits.policies.state import Arms, flip_feedback

SUMMARY = "receives plain rewards, adds Laplace noise itself: a baseline without protection"
REFERENCE = "Ren et al. 2020"
LEARNS_FROM = "rewards"
FIRST_SCORE = 1e100  # of an arm that must be pulled first, divided by its unanswered decisions


@record
class Policy(Arms):
    """The amount of noise."""

    epsilon: float = param(REQUIRED, validation.epsilon, "epsilon of a reward, such as 1.0")


@inlined
def _index(state: Policy, arm: int, pending_total: int, pending: float) -> float:
    """Return the index, with pending reports of all arms and of this one counted as received."""
    count = state.counts[arm] + pending
    step = float(state.scalars[0].time + pending_total + 1)
    if count <= 4.0 * math.log(step + 1.0):
        return math.inf if pending == 0.0 else FIRST_SCORE / count
    mean = state.sums[arm] / state.counts[arm] if state.counts[arm] > 0.0 else 0.5
    log = math.log(step)
    noise = math.sqrt(32.0 * log / count) / state.scalars[0].epsilon
    return mean + math.sqrt(2.0 * log / count) + noise


@inner
def score(state: Policy, arm: int) -> float:
    """Return the index; infinite for an arm that must be pulled first."""
    return _index(state, arm, 0, 0.0)


@inner
def score_ahead(state: Policy, arm: int) -> float:
    """Return the index with pending reports."""
    scalars = state.scalars[0]
    return _index(
        state,
        arm,
        scalars.pending_total,
        unanswered_count(state, arm, scalars.decisions, overdue_delay(state), patience(state)),
    )


@inner
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Add noise to the reward, and forget the reward."""
    scalars = state.scalars[0]
    scalars.time += 1
    state.counts[arm] += 1.0
    state.sums[arm] += flip_feedback(state, arm, feedback) + rng.laplace(state.rng, 1.0 / scalars.epsilon)
