"""The one loop: the arm's mean, corrupted, gives a feedback; the policy takes it in; regret is counted.

A reward drawn with mean m and then corrupted is a Bernoulli feedback of mean g(m), so one random number a step draws
both at once, in law exactly. Regret is counted in gaps of means, not in rewards.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core import lots, own, policy
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.lots import Words
from maskedbandits.core.state import State, solo, unpack


class World(NamedTuple):
    """A piecewise stationary problem, as arrays."""

    starts: NDArray[np.int64]  # (L + 1,), the horizon at the end
    feedback_means: NDArray[np.float64]  # (L, K) of what the policy is shown
    gaps: NDArray[np.float64]  # (L, K) best mean less the arm's


class Tally(NamedTuple):
    """What is counted of one run."""

    position: NDArray[np.int64]  # steps done, segment, next checkpoint
    regret: NDArray[np.float64]  # (C,) cumulative at the checkpoints
    total: NDArray[np.float64]  # (1,) cumulative so far
    pulls: NDArray[np.int64]  # (K,)
    suboptimal_pulls: NDArray[np.int64]  # (K,)
    recent: NDArray[np.int64]  # (K,) pulls since the last reckoning


@inlined
def _play(
    state: State,
    words: Words,
    feedback_means: NDArray[np.float64],
    recent: NDArray[np.int64],
    steps: int,
    on_its_own: int | None,
) -> None:
    """Play on in a world that stands still."""
    if on_its_own is None:
        for _ in range(steps):
            arm = policy.decide(state, words)
            feedback = 1.0 if lots.uniform(words) < feedback_means[arm] else 0.0
            policy.observe(state, arm, feedback)
            recent[arm] += 1
    else:
        alone = solo(state)
        for _ in range(steps):
            arm = own.decide(alone, words)
            feedback = 1.0 if lots.uniform(words) < feedback_means[arm] else 0.0
            own.observe(alone, arm, feedback, words)
            recent[arm] += 1


@inlined
def _reckon(tally: Tally, gaps: NDArray[np.float64]) -> None:
    """Turn the pulls since the last reckoning into regret."""
    for arm in range(gaps.size):
        pulls = tally.recent[arm]
        tally.recent[arm] = 0
        tally.pulls[arm] += pulls
        if gaps[arm] > 0.0:
            tally.suboptimal_pulls[arm] += pulls
            tally.total[0] += gaps[arm] * pulls


@compiled
def advance(
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
    words: Words,
    world: World,
    checkpoints: NDArray[np.int64],
    tally: Tally,
    until: int,
    on_its_own: int | None,
) -> None:
    """Play one run on, up to step ``until``, stopping at every change and every checkpoint to reckon.

    ``on_its_own`` is None for a policy on the axes, and any number for one in ``own.py``: the compiler makes two
    kernels of this one, so that neither kind waits for the other to be compiled, nor asks at every step which it is.
    """
    state = unpack(ints, floats)
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        stop = min(until, world.starts[segment + 1])
        if following < checkpoints.size:
            stop = min(stop, checkpoints[following])
        _play(state, words, world.feedback_means[segment], tally.recent, stop - done, on_its_own)
        done = stop
        changed = done == world.starts[segment + 1]
        checked = following < checkpoints.size and done == checkpoints[following]
        if changed or checked:  # and not at ``until``: where a caller pauses must not change how sums are rounded
            _reckon(tally, world.gaps[segment])
        if changed:
            segment += 1
        if checked:
            tally.regret[following] = tally.total[0]
            following += 1
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
