"""The highest score found by scoring every arm: while reports are pending, or among some arms only.

While reports are pending, every arm is scored as if its unanswered decisions (``policies/pending.py``) had been
answered without changing its mean. The more decisions are unanswered, the lower is the score. So a burst of decisions
goes to several arms, as decisions one by one would.

The scores of many arms form a tournament of their own. A decision or a report changes the score of its arm. Numbers
that change the scores of all arms are rounded, so that they change rarely: the number of reports that count or are
pending to seven binary digits, the delay of reports to three, and the time that decisions are unanswered to a share of
the patience. Until one of them changes, each arm is compared with the inputs of its last score, which takes half a
nanosecond, and is scored again if they changed. Counts and sums change only when a report arrives. Until then only
unanswered decisions are compared.
"""

import math

from maskedbandits._numba.jit import inlined, inner
from maskedbandits.math import max_tree
from maskedbandits.policies import indices, memories
from maskedbandits.policies.index.scores import FEW, Scores, score, spread_of
from maskedbandits.policies.index.state import mean_of
from maskedbandits.policies.pending import overdue_delay, unanswered_count

DIGITS = 7  # binary digits of rounded numbers
DELAY_DIGITS = 3  # of the delay, which is estimated at every lone decision
BLOCK = 64  # arms compared at once
LEAP = 16.0  # limit of unanswered decisions that count, for each report of the arm and one more


@inlined
def memory_patience(state: Scores) -> float:
    """Return the number of decisions after which an arm's unanswered ones count half."""
    return max(1.0, memories.total_count_with(state, state.scalars[0].pending_total))


@inlined
def _score_ahead(
    state: Scores, arm: int, heavy: float, level: float, time: int, clock: int, late: float, patience: float
) -> float:
    """Return the score with unanswered decisions counted as reports; infinite if there are neither.

    One lucky report must not have an arm pulled until the next report arrives. So unanswered decisions count at the
    mean of the reports and a fraction of a zero, the fraction that is unanswered. At most LEAP of them count for each
    report and one more. Where reports fade, unanswered decisions do not, and count for less the smaller their share.
    """
    known, unanswered = state.counts[arm] / heavy, unanswered_count(state, arm, clock, late, patience)
    if unanswered <= 0.0 and known <= 0.0:
        return math.inf
    if known > 0.0:
        unanswered = min(unanswered, LEAP * (known + 1.0))
    zeros = unanswered / (known + unanswered)
    count = known + unanswered * (zeros * zeros if memories.fades(state) else 1.0)
    mean = (state.sums[arm] / heavy + zeros * state.lows[arm]) / (known + zeros)
    return mean_of(state, arm, indices.bound(state, mean, spread_of(state, arm, count, level, time)))


@inner
def highest_with_pending(state: Scores) -> int:
    """Return the arm with the highest score with pending reports, the lowest such arm."""
    if state.scalars[0].arms > FEW:
        return _highest_of_many(state)
    return _highest_of_few(state)


@inner
def _highest_of_few(state: Scores) -> int:
    """Return that arm by scoring every open arm."""
    scalars = state.scalars[0]
    heavy = memories.weight(state)
    level = indices.common_level(state, memories.total_count_with(state, scalars.pending_total))
    late, patience = overdue_delay(state), memory_patience(state)
    best = -math.inf
    chosen = 0
    for arm in range(scalars.arms):
        if state.closed[arm]:
            continue
        value = _score_ahead(
            state, arm, heavy, level, scalars.time + scalars.pending_total, scalars.decisions, late, patience
        )
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def _round_up(number: float, digits: int) -> float:
    """Round a number up to ``digits`` binary digits."""
    step = 1.0
    while number > (1 << digits) * step:
        step *= 2.0
    return math.ceil(number / step) * step


@inlined
def _round_clock(decisions: int, patience: float) -> int:
    """Round the number of decisions down, to between a 32nd and a sixteenth of the patience."""
    step = 1
    while float(32 * step) <= patience:
        step *= 2
    return decisions - decisions % step


@inner
def _highest_of_many(state: Scores) -> int:
    """Return that arm by scoring only arms whose inputs changed since their last score."""
    scalars = state.scalars[0]
    heavy = memories.weight(state)
    level = indices.common_level(state, _round_up(memories.total_count_with(state, scalars.pending_total), DIGITS))
    patience = _round_up(memory_patience(state), DIGITS)
    late = _round_up(overdue_delay(state), DELAY_DIGITS)
    time = int(_round_up(float(scalars.time + scalars.pending_total), DIGITS))
    is_news = scalars.time != scalars.ahead_seen
    scalars.ahead_seen = scalars.time
    clock = _round_clock(scalars.decisions, patience)
    is_stale = level != scalars.ahead_level or heavy != scalars.ahead_weight or time != scalars.ahead_time
    is_stale = (
        is_stale or clock != scalars.ahead_clock or patience != scalars.ahead_patience or late != scalars.ahead_late
    )
    if is_stale or (scalars.mixed and is_news):  # masks may change without a count or a sum
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
    """Return whether the inputs of an arm in a block have changed; a loop for vector instructions."""
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
    """Score every arm of a block, or those that changed, and store the inputs of their scores."""
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
            max_tree.set_score(state.ahead_values, state.ahead_winners, arm, value)


@inner
def highest_open(state: Scores) -> int:
    """Return the arm with the highest score among those open now, without the tournament."""
    scalars = state.scalars[0]
    if scalars.pending_total > 0:
        return _highest_of_few(state)  # the open arms change from call to call
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
