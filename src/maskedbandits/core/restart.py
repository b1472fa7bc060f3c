"""What makes a policy forget at once: times that were planned, alarms of a detector; and the looks that alarms need.

A detector (``change.py``) watches every arm. It can see no change of an arm that is never pulled, so every now and then
the arm that was not pulled for longest is looked at, whatever its score.
"""

import math

from maskedbandits.core import change, index, memory, tree
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.state import (
    ALARMS,
    ARMS,
    BOX,
    DELTA,
    DETECTION,
    DETECTOR,
    EPOCH,
    EVIDENCE,
    EXPLORATION,
    EXPLORE_ARM,
    EXPLORE_AT,
    FADE,
    FOLLOW_UP,
    FOLLOWING,
    FRACTIONAL,
    GROWING,
    HORIZON,
    INDEX,
    LEAVES,
    LEVEL,
    LEVEL_AHEAD,
    LOCAL,
    MEMORY,
    PLANNED_AT,
    PRIOR_CHANGES,
    RESTART,
    SEEN,
    SETTLED,
    SINCE,
    SLOT,
    TIME,
    WEIGHT,
    State,
)

NEVER, PLANNED, DOUBLING = range(3)  # restarts, beside those that a detector asks for
FIRST_PHASE = 1000  # steps until the first restart of the doubling schedule (Besson & Kaufmann 2018)


@compiled
def start(state: State) -> None:
    """Forget everything, also the time."""
    state.head[TIME] = 0
    state.head[FOLLOWING] = 0
    state.head[ALARMS] = 0
    state.head[FRACTIONAL] = 0
    state.memo_keys[:] = -1
    leaves = state.head[LEAVES]
    for leaf in range(leaves):
        state.winners[leaves + leaf] = leaf
    everything(state)


@compiled
def everything(state: State) -> None:
    """Forget every observation: every arm is unseen, and its score infinite."""
    time = state.head[TIME]
    state.head[SINCE] = time
    state.head[SLOT] = 0
    state.head[GROWING] = state.head[INDEX] != index.KL_PLUS or state.head[MEMORY] == memory.DISCOUNTED
    state.head[SETTLED] = 0
    state.head[EPOCH] = time
    state.head[EXPLORE_AT] = time + 2 * state.head[ARMS]
    state.head[EXPLORE_ARM] = 0
    state.head[PLANNED_AT] = time
    state.real[EVIDENCE] = 0.0
    state.real[WEIGHT] = 1.0
    state.real[LEVEL] = 0.0
    state.real[LEVEL_AHEAD] = 0.0
    state.real[SEEN] = 0.0
    state.real[FADE] = 1.0
    if state.head[RESTART] == DOUBLING:  # the trick: each phase is played as if the horizon were its end
        state.real[HORIZON] = float(max(FIRST_PHASE, time))
    state.counts[:] = 0.0
    state.sums[:] = 0.0
    state.low_sums[:] = 0.0
    state.span_sums[:] = 0.0
    state.since[:] = time
    state.last[:] = time
    state.values[:] = -math.inf
    for arm in range(state.head[ARMS]):
        tree.place(state.values, state.winners, arm, math.inf)
        _restart_detector(state, arm)


@compiled
def _restart_detector(state: State, arm: int) -> None:
    if state.head[DETECTOR]:
        size = state.head[BOX]
        change.restart(state.head[DETECTOR], state.boxes[arm * size : (arm + 1) * size])


@compiled
def _one_arm(state: State, arm: int) -> None:
    """Forget one arm."""
    state.counts[arm] = 0.0
    state.sums[arm] = 0.0
    state.low_sums[arm : arm + 1] = 0.0  # empty unless reports have a corruption of their own
    state.span_sums[arm : arm + 1] = 0.0
    state.since[arm] = state.head[TIME]
    _restart_detector(state, arm)


@inlined
def is_watchful(state: State) -> bool:
    """Tell whether there is more to a step than to remember: restarts, a detector, forced looks."""
    alert = state.head[RESTART] != NEVER or state.head[DETECTOR] != change.NOTHING
    return alert or state.real[EXPLORATION] > 0.0


@compiled
def look_out(state: State, arm: int, feedback: float) -> bool:
    """Restart if it is time, plan looks; tell whether everything was forgotten."""
    state.last[arm] = state.head[TIME]
    forgotten = False
    if state.head[RESTART] != NEVER and _is_due(state):
        state.head[FOLLOWING] += 1
        everything(state)
        forgotten = True
    elif state.head[DETECTOR] != change.NOTHING and _detect(state, arm, feedback):
        forgotten = not state.head[LOCAL]
    # what a look was planned for is done once its arm is pulled: by the look itself, or before that was due
    due = state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]
    pulled = state.last[state.head[EXPLORE_ARM]] > state.head[PLANNED_AT]
    if due and pulled and not _worth_another_look(state, arm):
        _plan_look(state)
    return forgotten


@compiled
def _is_due(state: State) -> bool:
    """Tell whether a restart was planned for this time."""
    time = state.head[TIME]
    if state.head[RESTART] == DOUBLING:
        return time == FIRST_PHASE << state.head[FOLLOWING]
    return state.head[FOLLOWING] < state.plan.size and time == state.plan[state.head[FOLLOWING]]


@inlined
def _detect(state: State, arm: int, feedback: float) -> bool:
    """Show the feedback to the arm's detector; on an alarm forget the arm, or all of them."""
    if math.isnan(feedback):
        return False
    size = state.head[BOX]
    time = float(state.head[TIME]) if state.real[HORIZON] <= 0.0 else state.real[HORIZON]
    delta = state.real[DELTA] / math.sqrt(time)
    box = state.boxes[arm * size : (arm + 1) * size]
    if not change.observe(state.head[DETECTOR], box, feedback, delta, state.real[DETECTION:]):
        return False
    state.head[ALARMS] += 1
    if state.head[LOCAL]:
        _one_arm(state, arm)
    else:
        everything(state)
    return True


@compiled
def _plan_look(state: State) -> None:
    """Fix when to look at the arm that was not pulled for longest.

    With r changes a step, looks at a rate of about sqrt(K r) cost as much as changes of arms that are not looked at do;
    r is what the alarms so far make of it. An arm that is pulled often enough anyway is due later.
    """
    time = state.head[TIME]
    arms = state.head[ARMS]
    stalest = 0
    for arm in range(1, arms):
        if state.last[arm] < state.last[stalest]:
            stalest = arm
    changes = (state.head[ALARMS] + state.real[PRIOR_CHANGES]) / time
    rate = min(0.5, state.real[EXPLORATION] * math.sqrt(arms * changes))
    pause = int(min(1.0 / rate, 1e15)) if rate > 0.0 else 1 << 50
    state.head[EXPLORE_ARM] = stalest
    state.head[EXPLORE_AT] = max(time + pause, state.last[stalest] + arms * pause)
    state.head[PLANNED_AT] = time
    state.real[EVIDENCE] = 0.0


@compiled
def _worth_another_look(state: State, arm: int) -> bool:
    """Tell whether a look at an arm raised the evidence of a change: then look again at once, not much later."""
    follow_up = state.real[FOLLOW_UP]
    if follow_up <= 0.0 or arm != state.head[EXPLORE_ARM]:
        return False
    size = state.head[BOX]
    before = state.real[EVIDENCE]
    state.real[EVIDENCE] = change.glr_statistic(state.boxes[arm * size : (arm + 1) * size])
    return state.real[EVIDENCE] > max(follow_up, before)
