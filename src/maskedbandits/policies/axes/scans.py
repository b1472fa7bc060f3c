"""The highest score found by looking at every arm: while reports are pending, and among some arms alone.

While reports are pending every arm is scored as if its unanswered decisions (``policies/pending.py``) had been answered
and left its mean as it is. The more are unanswered the lower is the score, so a burst of decisions goes to several arms
as one after the other would.

The scores of many arms are in a tournament of their own. A decision or a report changes the score of its arm. What
changes for all arms is rounded, so that it changes seldom: the number of reports that count or are pending to seven
binary digits, and the time that unanswered decisions have waited to a share of the patience. Until one of them changes,
each arm is asked whether it is what it was when it was scored, which takes a nanosecond, and scored again if not.
Counts and sums change with the time alone: as long as no report comes, only unanswered decisions are compared.
"""

import math

from maskedbandits.compiled import inlined, inner
from maskedbandits.maths import tournament
from maskedbandits.policies import indices, memories
from maskedbandits.policies.axes.scores import FEW, Scores, score, spread_of
from maskedbandits.policies.axes.state import mean_of
from maskedbandits.policies.pending import open_decisions

LEAP = 16.0  # unanswered decisions of an arm for each report of it, and one more, that count at most


@inlined
def patience_of(state: Scores) -> float:
    """Return after how many decisions without a pull an arm's unanswered ones count half."""
    return max(1.0, memories.seen_with(state, state.own[0].awaited))


@inlined
def _score_ahead(state: Scores, arm: int, heavy: float, level: float, time: int, clock: int, patience: float) -> float:
    """Return the score with unanswered decisions counted as reports that have come; infinite if there are neither.

    One lucky report must not have an arm pulled until the next one comes. So they count at the mean of the reports and
    of a share of a zero, the share that is unanswered. With a report there, at most LEAP for each and one more count.
    Where reports fade, unanswered decisions count for less, the smaller their share is: they would not fade.
    """
    known, unanswered = state.counts[arm] / heavy, open_decisions(state, arm, clock, patience)
    if unanswered <= 0.0 and known <= 0.0:
        return math.inf
    if known > 0.0:
        unanswered = min(unanswered, LEAP * (known + 1.0))
    zeros = unanswered / (known + unanswered)
    count = known + unanswered * (zeros * zeros if memories.fades(state) else 1.0)
    mean = (state.sums[arm] / heavy + zeros * state.lows[arm]) / (known + zeros)
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
    patience = patience_of(state)
    best = -math.inf
    chosen = 0
    for arm in range(own.arms):
        if state.closed[arm]:
            continue
        value = _score_ahead(state, arm, heavy, level, own.time + own.awaited, own.decisions, patience)
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


@inlined
def _rounded_clock(decisions: int, patience: float) -> int:
    """Return the number of decisions, rounded down to a sixteenth to a 32nd of the patience."""
    step = 1
    while float(32 * step) <= patience:
        step *= 2
    return decisions - decisions % step


@inner
def _highest_of_many(state: Scores) -> int:
    """Return it by scoring the arms that are not what they were when they were last scored."""
    own = state.own[0]
    heavy = memories.weight(state)
    level = indices.level_of(state, _rounded_up(memories.seen_with(state, own.awaited)))
    patience = _rounded_up(patience_of(state))
    time = int(_rounded_up(float(own.time + own.awaited)))
    is_news = own.time != own.ahead_seen
    own.ahead_seen = own.time
    clock = _rounded_clock(own.decisions, patience)
    is_stale = level != own.ahead_level or heavy != own.ahead_weight or time != own.ahead_time
    is_stale = is_stale or clock != own.ahead_clock or patience != own.ahead_patience
    if is_stale or (own.mixed and is_news):  # masks of reports' own may change with no count and no sum
        own.ahead_level = level
        own.ahead_weight = heavy
        own.ahead_time = time
        own.ahead_clock = clock
        own.ahead_patience = patience
        return _highest_scored_anew(state)
    if is_news:
        for arm in range(own.arms):
            if state.ahead_counts[arm] != state.counts[arm] or state.ahead_sums[arm] != state.sums[arm]:
                tournament.place(state.ahead_values, state.ahead_winners, arm, _scored_anew(state, arm))
    for arm in range(own.arms):
        if state.ahead_unanswered[arm] != (-1.0 if state.closed[arm] else state.unanswered[arm]):
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
        state.ahead_unanswered[arm] = -1.0
        return -math.inf
    state.ahead_unanswered[arm] = state.unanswered[arm]
    patience = own.ahead_patience
    return _score_ahead(state, arm, own.ahead_weight, own.ahead_level, own.ahead_time, own.ahead_clock, patience)


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
