"""The highest score found by looking at every arm: while reports are awaited, and among some arms alone.

While reports are awaited every arm is scored as if those of its own had come and left its mean as it is: the more are
awaited the lower is the score, so a burst of decisions goes to several arms as one after the other would.
"""

import math

from maskedbandits.compiled import inlined, inner
from maskedbandits.policies import indices, memories
from maskedbandits.policies.axes.scores import Scores, score, spread_of
from maskedbandits.policies.axes.state import mean_of
from maskedbandits.policies.indices import STEEP

LEAP = 16.0  # reports to be awaited of an arm for each that has come, at most


@inlined
def _score_ahead(state: Scores, arm: int, heavy: float, level: float, time: int) -> float:
    """Return what the score would be with the reports that are awaited; infinite if there is not even one of them.

    One lucky report must not have an arm pulled until the next one comes. So what comes is expected at the mean of what
    has come and of one report of a zero; and where more than LEAP are awaited for each that has come, they are awaited,
    unless that holds for all.
    """
    known, pending = state.counts[arm] / heavy, float(state.pending[arm])
    if known <= 0.0 and pending == 0.0:
        return math.inf
    if pending > LEAP * known:
        return -STEEP * (pending / (known + 1.0))
    count = known + pending
    mean = (state.sums[arm] / heavy + state.lows[arm]) / (known + 1.0)
    return mean_of(state, arm, indices.bound(state, mean, spread_of(state, arm, count, level, time)))


@inner
def highest_ahead(state: Scores) -> int:
    """Return the arm of the highest score with the reports that are awaited, the lowest such arm."""
    own = state.own[0]
    heavy = memories.weight(state)
    level = indices.level_of(state, memories.seen_with(state, own.awaited))
    best = -math.inf
    chosen = 0
    for arm in range(own.arms):
        if state.closed[arm]:
            continue
        value = _score_ahead(state, arm, heavy, level, own.time + own.awaited)
        if value > best:
            best = value
            chosen = arm
    return chosen


@inner
def highest_open(state: Scores) -> int:
    """Return the arm of the highest score among those that are open at this moment, whatever the tournament says."""
    own = state.own[0]
    if own.awaited > 0:
        return highest_ahead(state)
    best = -math.inf
    chosen = 0
    for arm in range(own.arms):
        if state.closed[arm]:
            continue
        value = score(state, arm)
        if value > best:
            best = value
            chosen = arm
    return chosen
