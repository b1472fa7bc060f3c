"""The highest score found by looking at every arm: while reports are awaited, and among some arms alone.

While reports are awaited every arm is scored as if those of its own had come and left its mean as it is: the more are
awaited the lower is the score, so a burst of decisions goes to several arms as one after the other would.

Of many arms these scores stand in a tournament of their own. A decision, a report or a wait that is given up changes
the score of its arm; the level of all changes with the number of reports that count or are awaited, which is therefore
rounded up to seven binary digits: until it reaches the next such number nothing else changes. So each arm is asked
whether it is what it was when it was scored, which takes a nanosecond, and scored again if not. Counts and sums change
with the time alone: as long as no report comes, only what is awaited is looked at.
"""

import math

from maskedbandits.compiled import inlined, inner
from maskedbandits.maths import tournament
from maskedbandits.policies import indices, memories
from maskedbandits.policies.axes.scores import FEW, Scores, score, spread_of
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
    if state.own[0].arms > FEW:
        return _highest_of_many(state)
    return _highest_of_few(state)


@inner
def _highest_of_few(state: Scores) -> int:
    """Return it by scoring every arm that is open."""
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


@inlined
def _rounded_up(number: float) -> float:
    """Return the next number of seven binary digits."""
    step = 1.0
    while number > 2 * FEW * step:
        step *= 2.0
    return math.ceil(number / step) * step


@inner
def _highest_of_many(state: Scores) -> int:
    """Return it by scoring the arms that are not what they were when they were last scored."""
    own = state.own[0]
    heavy = memories.weight(state)
    level = indices.level_of(state, _rounded_up(memories.seen_with(state, own.awaited)))
    time = int(_rounded_up(float(own.time + own.awaited)))
    is_news = own.time != own.ahead_seen
    own.ahead_seen = own.time
    # masks of reports' own may change with no count and no sum
    if level != own.ahead_level or heavy != own.ahead_weight or time != own.ahead_time or (own.mixed and is_news):
        own.ahead_level = level
        own.ahead_weight = heavy
        own.ahead_time = time
        return _highest_scored_anew(state)
    if is_news:
        for arm in range(own.arms):
            if state.ahead_counts[arm] != state.counts[arm] or state.ahead_sums[arm] != state.sums[arm]:
                tournament.place(state.ahead_values, state.ahead_winners, arm, _scored_anew(state, arm))
    for arm in range(own.arms):
        if state.ahead_pending[arm] != (-1 if state.closed[arm] else state.pending[arm]):
            tournament.place(state.ahead_values, state.ahead_winners, arm, _scored_anew(state, arm))
    return state.ahead_winners[1]


@inner
def _highest_scored_anew(state: Scores) -> int:
    """Score every arm, and let all play."""
    own = state.own[0]
    for leaf in range(own.leaves):
        state.ahead_winners[own.leaves + leaf] = leaf
        state.ahead_values[own.leaves + leaf] = _scored_anew(state, leaf) if leaf < own.arms else -math.inf
    tournament.play_all(state.ahead_values, state.ahead_winners)
    return state.ahead_winners[1]


@inner
def _scored_anew(state: Scores, arm: int) -> float:
    """Return an arm's score, and note what it was computed from."""
    own = state.own[0]
    state.ahead_counts[arm] = state.counts[arm]
    state.ahead_sums[arm] = state.sums[arm]
    if state.closed[arm]:
        state.ahead_pending[arm] = -1
        return -math.inf
    state.ahead_pending[arm] = state.pending[arm]
    return _score_ahead(state, arm, own.ahead_weight, own.ahead_level, own.ahead_time)


@inner
def highest_open(state: Scores) -> int:
    """Return the arm of the highest score among those that are open at this moment, whatever the tournament says."""
    own = state.own[0]
    if own.awaited > 0:
        return _highest_of_few(state)  # which arms are open changes from call to call
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
