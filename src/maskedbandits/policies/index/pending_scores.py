"""The highest score found by looking at every arm: while reports are pending, and among some arms alone.

While reports are pending every arm is scored as if its unanswered decisions (``policies/pending.py``) had been answered
and left its mean as it is. The more are unanswered the lower is the score, so a burst of decisions goes to several arms
as one after the other would.

The scores of many arms are in a tournament of their own. A decision or a report changes the score of its arm. What
changes for all arms is rounded, so that it changes seldom: the number of reports that count or are pending to seven
binary digits, the delay of reports to three, and the time that unanswered decisions have waited to a share of the
patience. Until one of them changes,
each arm is compared with what it was when it was scored, which takes half a nanosecond, and scored again if it changed.
Counts and sums change with the time alone: as long as no report comes, only unanswered decisions are compared.
"""

import math

from maskedbandits._numba.jit import inlined, inner
from maskedbandits.math import max_tree
from maskedbandits.policies import indices, memories
from maskedbandits.policies.index.scores import FEW, Scores, score, spread_of
from maskedbandits.policies.index.state import mean_of
from maskedbandits.policies.pending import lateness, open_decisions

DIGITS = 7  # binary digits of numbers that are rounded,
DIGITS_OF_DELAY = 3  # and of the delay, which is learned from every lone decision
BLOCK = 64  # arms that are compared at once
LEAP = 16.0  # unanswered decisions of an arm for each report of it, and one more, that count at most


@inlined
def patience_of(state: Scores) -> float:
    """Return after how many decisions without a pull an arm's unanswered ones count half."""
    return max(1.0, memories.seen_with(state, state.scalars[0].awaited))


@inlined
def _score_ahead(
    state: Scores, arm: int, heavy: float, level: float, time: int, clock: int, late: float, patience: float
) -> float:
    """Return the score with unanswered decisions counted as reports that have come; infinite if there are neither.

    One lucky report must not have an arm pulled until the next one comes. So they count at the mean of the reports and
    of a share of a zero, the share that is unanswered. With a report there, at most LEAP for each and one more count.
    Where reports fade, unanswered decisions count for less, the smaller their share is: they would not fade.
    """
    known, unanswered = state.counts[arm] / heavy, open_decisions(state, arm, clock, late, patience)
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
    if state.scalars[0].arms > FEW:
        return _highest_of_many(state)
    return _highest_of_few(state)


@inner
def _highest_of_few(state: Scores) -> int:
    """Return it by scoring every arm that is open."""
    scalars = state.scalars[0]
    heavy = memories.weight(state)
    level = indices.level_of(state, memories.seen_with(state, scalars.awaited))
    late, patience = lateness(state), patience_of(state)
    best = -math.inf
    chosen = 0
    for arm in range(scalars.arms):
        if state.closed[arm]:
            continue
        value = _score_ahead(
            state, arm, heavy, level, scalars.time + scalars.awaited, scalars.decisions, late, patience
        )
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def _rounded_up(number: float, digits: int) -> float:
    """Return the next number of so many binary digits."""
    step = 1.0
    while number > (1 << digits) * step:
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
    scalars = state.scalars[0]
    heavy = memories.weight(state)
    level = indices.level_of(state, _rounded_up(memories.seen_with(state, scalars.awaited), DIGITS))
    patience = _rounded_up(patience_of(state), DIGITS)
    late = _rounded_up(lateness(state), DIGITS_OF_DELAY)
    time = int(_rounded_up(float(scalars.time + scalars.awaited), DIGITS))
    is_news = scalars.time != scalars.ahead_seen
    scalars.ahead_seen = scalars.time
    clock = _rounded_clock(scalars.decisions, patience)
    is_stale = level != scalars.ahead_level or heavy != scalars.ahead_weight or time != scalars.ahead_time
    is_stale = (
        is_stale or clock != scalars.ahead_clock or patience != scalars.ahead_patience or late != scalars.ahead_late
    )
    if is_stale or (scalars.mixed and is_news):  # masks of reports' own may change with no count and no sum
        scalars.ahead_level = level
        scalars.ahead_weight = heavy
        scalars.ahead_time = time
        scalars.ahead_clock = clock
        scalars.ahead_late = late
        scalars.ahead_patience = patience
        for first in range(0, scalars.leaves, BLOCK):
            _score_block(state, first, True)
        max_tree.play_all(state.ahead_values, state.ahead_winners)
    else:
        for first in range(0, scalars.arms, BLOCK):
            if _has_changed(state, first, is_news):
                _score_block(state, first, False)
    return state.ahead_winners[1]


@inlined
def _has_changed(state: Scores, first: int, is_news: bool) -> bool:
    """Tell whether an arm of a block is not what it was when it was last scored; a loop for vector instructions."""
    last = min(first + BLOCK, state.scalars[0].arms)
    changes = 0
    for arm in range(first, last):
        changes += state.ahead_unanswered[arm] != state.unanswered[arm]
    if is_news:
        for arm in range(first, last):
            changes += state.ahead_counts[arm] != state.counts[arm]
            changes += state.ahead_sums[arm] != state.sums[arm]
    return changes > 0


@inner
def _score_block(state: Scores, first: int, every: bool) -> None:
    """Score every arm of a block, or those that changed, and note what their scores were computed from."""
    scalars = state.scalars[0]
    for arm in range(first, min(first + BLOCK, scalars.leaves)):
        value = -math.inf
        if arm < scalars.arms:
            is_same = state.ahead_unanswered[arm] == state.unanswered[arm]
            is_same = is_same and state.ahead_counts[arm] == state.counts[arm]
            if not every and is_same and state.ahead_sums[arm] == state.sums[arm]:
                continue
            state.ahead_unanswered[arm] = state.unanswered[arm]
            state.ahead_counts[arm] = state.counts[arm]
            state.ahead_sums[arm] = state.sums[arm]
            if not state.closed[arm]:
                value = _score_ahead(
                    state,
                    arm,
                    scalars.ahead_weight,
                    scalars.ahead_level,
                    scalars.ahead_time,
                    scalars.ahead_clock,
                    scalars.ahead_late,
                    scalars.ahead_patience,
                )
        if every:
            state.ahead_values[scalars.leaves + arm] = value
            state.ahead_winners[scalars.leaves + arm] = arm
        elif arm < scalars.arms:
            max_tree.place(state.ahead_values, state.ahead_winners, arm, value)


@inner
def highest_open(state: Scores) -> int:
    """Return the arm of the highest score among those that are open at this moment, whatever the tournament says."""
    scalars = state.scalars[0]
    if scalars.awaited > 0:
        return _highest_of_few(state)  # which arms are open changes from call to call
    best = -math.inf
    chosen = 0
    for arm in range(scalars.arms):
        if state.closed[arm]:
            continue
        value = score(state, arm)
        if value > best:
            best = value
            chosen = arm
    return chosen
