"""A policy: the three things it does with its state: start, choose, observe.

The same functions serve a live policy, one call at a time, and the simulator's loop. A policy is a memory
(``memory.py``), an index (``index.py``) and what makes it forget at once: restarts at given times, or when a detector
(``change.py``) sounds the alarm.

**How choosing stays cheap.** Scores stand in a tournament (``tree.py``). Once a window is full the level f(w) is
constant: the score of an arm depends on what is remembered of it alone, so only the arm pulled and the arm pushed out
change, and the root is the choice. While the level grows, or counts fade under a discount, every score grows at every
step. Then the tournament holds *ceilings*: scores of the end of the present epoch, which no score passes before.
Choosing searches the tree for the highest score of this moment and looks only below nodes whose ceiling is above the
best found; an epoch is short enough that this is an arm or two.
"""

import math

import numpy as np

from maskedbandits.core import beta, change, corruption, index, memory, tree
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
    FOLLOW_UP,
    FOLLOWING,
    FRACTIONAL,
    GAMMA,
    GROWING,
    HORIZON,
    INDEX,
    LEAVES,
    LEVEL,
    LOCAL,
    MEMORY,
    MIXED,
    NOT_NEGATIVE,
    PLANNED_AT,
    PRIOR_CHANGES,
    RESTART,
    RING,
    SETTLED,
    SINCE,
    SLOT,
    TIME,
    WEIGHT,
    WINDOW,
    XI,
    C,
    Floats,
    Ints,
    State,
    unpack,
)

NEVER, PLANNED, DOUBLING = range(3)  # restarts, beside those that a detector asks for
FIRST_PHASE = 1000  # steps until the first restart of the doubling schedule


@compiled
def start(state: State) -> None:
    """Forget everything, also the time."""
    state.head[TIME] = 0
    state.head[FOLLOWING] = 0
    state.head[ALARMS] = 0
    state.head[EXPLORE_ARM] = 0
    state.real[EVIDENCE] = 0.0
    state.head[PLANNED_AT] = 0
    state.head[FRACTIONAL] = 0
    state.memo_keys[:] = -1
    leaves = state.head[LEAVES]
    for leaf in range(leaves):
        state.winners[leaves + leaf] = leaf
    restart(state)


@compiled
def restart(state: State) -> None:
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
def _restart_arm(state: State, arm: int) -> None:
    """Forget one arm."""
    state.counts[arm] = 0.0
    state.sums[arm] = 0.0
    state.since[arm] = state.head[TIME]
    _restart_detector(state, arm)


@inlined
def _level(state: State, arm: int, time: int) -> float:
    """Return f of the number of observations that count, of all arms together."""
    if state.head[MEMORY] == memory.DISCOUNTED:
        gamma = state.real[GAMMA]
        seen = math.expm1(math.log(gamma) * float(time - state.since[arm])) / (gamma - 1.0)
    else:
        seen = float(min(time - state.since[arm], state.head[WINDOW]))
    return index.exploration(max(1.0, seen), state.real[C])


@inlined
def _mean_of(state: State, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    if state.head[MIXED]:  # the mean of affine functions is affine
        count = state.counts[arm]
        return (feedback_mean - state.low_sums[arm] / count) / (state.span_sums[arm] / count)
    first = state.first_node[arm]
    last = state.last_node[arm]
    if last == first + 1:  # a straight line, as randomised response is
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return corruption.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@compiled
def score(state: State, arm: int, time: int) -> float:
    """Return the arm's index at a time from now on if it is not pulled till then; infinite if nothing is remembered."""
    count = state.counts[arm]
    total = state.sums[arm]
    if count <= 0.0:
        return math.inf
    if state.head[MEMORY] == memory.DISCOUNTED:
        faded = state.real[GAMMA] ** float(time - state.head[TIME]) / state.real[WEIGHT]
        count *= faded
        total *= faded
    kind = state.head[INDEX]
    if kind == index.KL_PLUS:
        level = index.plus_level(count, float(state.head[ARMS]), state.real[HORIZON])
    else:
        level = _level(state, arm, time)
    if kind == index.UCB:
        bound = index.ucb_bound(count, total, level, state.real[XI])
    else:
        bound = index.kl_bound(count, total, level)
    return _mean_of(state, arm, bound)


@inlined
def _rescore(state: State, arm: int) -> None:
    """Bring the arm's place in the tournament up to date."""
    head = state.head
    count = state.counts[arm]
    if count <= 0.0:
        value = math.inf
    elif head[GROWING]:
        value = score(state, arm, head[EPOCH])
    elif head[INDEX] == index.UCB:
        bound = index.ucb_bound(count, state.sums[arm], state.real[LEVEL], state.real[XI])
        value = _mean_of(state, arm, bound)
    else:
        value = score(state, arm, head[TIME])
    tree.place(state.values, state.winners, arm, value)


@compiled
def _rescore_all(state: State) -> None:
    for arm in range(state.head[ARMS]):
        _rescore(state, arm)


@compiled
def _begin_epoch(state: State) -> None:
    """Raise the ceilings for a while, or settle for good once a window is full."""
    time = state.head[TIME]
    played = time - state.head[SINCE]
    if state.head[MEMORY] == memory.DISCOUNTED:
        state.head[EPOCH] = time + max(1, int(0.02 / (1.0 - state.real[GAMMA])))
    elif played >= state.head[WINDOW]:
        state.head[GROWING] = 0
        state.real[LEVEL] = _level(state, 0, time)
        plain = state.head[INDEX] == index.KL and not state.head[FRACTIONAL] and not state.head[MIXED]
        state.head[SETTLED] = plain and state.head[RING] > 0 and not _watchful(state)
    else:
        state.head[EPOCH] = time + played // 64 + state.head[ARMS]
    _rescore_all(state)


@compiled
def _search(state: State) -> int:
    """Return the arm of the highest score of this moment, the lowest such arm, by branch and bound on the ceilings."""
    time = state.head[TIME]
    leaves = state.head[LEAVES]
    best = -math.inf
    chosen = 0
    state.stack[0] = 1
    depth = 1
    while depth > 0:
        depth -= 1
        node = state.stack[depth]
        if state.values[node] < best:
            continue
        if node >= leaves:
            arm = node - leaves
            value = score(state, arm, time)
            if value > best or (value == best and arm < chosen):
                best = value
                chosen = arm
            continue
        better = 2 * node if state.values[2 * node] >= state.values[2 * node + 1] else 2 * node + 1
        state.stack[depth] = better ^ 1  # looked at last, when the best is known to be high
        state.stack[depth + 1] = better
        depth += 2
    return chosen


@inlined
def choose(state: State) -> int:
    """Return the arm to pull next, of a policy that draws nothing at random."""
    if state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]:
        return state.head[EXPLORE_ARM] & NOT_NEGATIVE
    if state.head[GROWING] and state.values[1] < math.inf:
        return _search(state)
    return state.winners[1] & NOT_NEGATIVE


@compiled
def _draw(state: State, rng: np.random.Generator) -> int:
    """Return the arm with the highest draw from the posterior of its mean: Thompson sampling."""
    if state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]:
        return state.head[EXPLORE_ARM]
    best = -math.inf
    chosen = 0
    for arm in range(state.head[ARMS]):
        count = state.counts[arm] / state.real[WEIGHT]
        total = min(max(state.sums[arm] / state.real[WEIGHT], 0.0), count)
        if state.head[MIXED] and count <= 0.0:
            return arm  # without an observation it has no corruption either
        value = _mean_of(state, arm, beta.draw(rng, 1.0 + total, 1.0 + count - total))
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def decide(state: State, rng: np.random.Generator) -> int:
    """Return the arm to pull next, of any policy."""
    if state.head[INDEX] == index.THOMPSON:
        return _draw(state, rng) & NOT_NEGATIVE
    return choose(state)


@compiled
def _plan_exploration(state: State) -> None:
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
def _detect(state: State, arm: int, feedback: float) -> bool:
    """Show the feedback to the arm's detector; on an alarm forget the arm, or all of them."""
    size = state.head[BOX]
    time = float(state.head[TIME]) if state.real[HORIZON] <= 0.0 else state.real[HORIZON]
    delta = state.real[DELTA] / math.sqrt(time)
    box = state.boxes[arm * size : (arm + 1) * size]
    if not change.observe(state.head[DETECTOR], box, feedback, delta, state.real[DETECTION:]):
        return False
    state.head[ALARMS] += 1
    if state.head[LOCAL]:
        _restart_arm(state, arm)
    else:
        restart(state)
    return True


@compiled
def _restart_is_due(state: State) -> bool:
    """Tell whether a restart was planned for this time."""
    time = state.head[TIME]
    if state.head[RESTART] == DOUBLING:
        return time == FIRST_PHASE << state.head[FOLLOWING]
    return state.head[FOLLOWING] < state.plan.size and time == state.plan[state.head[FOLLOWING]]


@inlined
def observe(state: State, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    if state.head[MEMORY] == memory.DISCOUNTED:
        memory.age(state)
    _take_in(state, arm, 1.0 - feedback if state.flips[arm] else feedback)


@compiled
def observe_own(state: State, arm: int, feedback: float, low: float, span: float) -> None:
    """Take in a feedback with a corruption of its own: flipped, if need be, so that it increases from low by span."""
    if state.head[MEMORY] == memory.DISCOUNTED:
        memory.age(state)
    full = state.head[RING] > 0 and state.head[TIME] - state.head[SINCE] >= state.head[RING]
    memory.push_own(state, state.head[SLOT], full, arm, low, span)
    _take_in(state, arm, feedback)


@inlined
def _watchful(state: State) -> bool:
    """Tell whether there is more to a step than to remember: restarts, a detector, forced exploration."""
    alert = state.head[RESTART] != NEVER or state.head[DETECTOR] != change.NOTHING
    return alert or state.real[EXPLORATION] > 0.0


@inlined
def _slide(state: State, arm: int, feedback: float) -> None:
    """Take in a bit when a plain window is full: what ``_take_in`` would do, and nothing that it would not."""
    head = state.head
    slot = head[SLOT] & NOT_NEGATIVE
    head[TIME] += 1
    head[SLOT] = slot + 1 if slot + 1 < head[RING] else 0
    if state.ring_arms[slot] == arm and state.ring_feedbacks[slot] == feedback:
        return  # the same comes as goes
    evicted = memory.push(state, slot, True, arm, feedback)
    if evicted != arm:
        _replace(state, evicted)
    _replace(state, arm)


@inlined
def _replace(state: State, arm: int) -> None:
    """Bring the arm's place in the tournament up to date, at a constant level."""
    value = math.inf
    if state.counts[arm] > 0.0:
        bound = index.remembered_kl_bound(
            state.counts[arm], state.sums[arm], state.real[LEVEL], state.memo_keys, state.memo_bounds
        )
        value = _mean_of(state, arm, bound)
    tree.place(state.values, state.winners, arm, value)


@inlined
def _take_in(state: State, arm: int, feedback: float) -> None:
    head = state.head
    if head[SETTLED] and (feedback == 0.0 or feedback == 1.0):
        _slide(state, arm, feedback)
    else:
        _weigh_in(state, arm, feedback)


@compiled
def _weigh_in(state: State, arm: int, feedback: float) -> None:
    """Take in any feedback in any state."""
    head = state.head
    if feedback != 0.0 and feedback != 1.0:
        head[FRACTIONAL] = 1
        head[SETTLED] = 0
    slot = head[SLOT] & NOT_NEGATIVE
    full = head[RING] > 0 and head[TIME] - head[SINCE] >= head[RING]
    head[TIME] += 1
    if head[RING] > 0:
        head[SLOT] = slot + 1 if slot + 1 < head[RING] else 0
    watchful = _watchful(state)
    evicted = memory.push(state, slot, full, arm, feedback)
    if not watchful or not _look_out(state, arm, feedback):
        _settle(state, arm, evicted, full)


@compiled
def _look_out(state: State, arm: int, feedback: float) -> bool:
    """Restart if it is time, plan exploration; tell whether everything was forgotten."""
    state.last[arm] = state.head[TIME]
    forgotten = False
    if state.head[RESTART] != NEVER and _restart_is_due(state):
        state.head[FOLLOWING] += 1
        restart(state)
        forgotten = True
    elif state.head[DETECTOR] != change.NOTHING and _detect(state, arm, feedback):
        forgotten = not state.head[LOCAL]
    # what a look was planned for is done once its arm is pulled: by the look itself, or before that was due
    due = state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]
    pulled = state.last[state.head[EXPLORE_ARM]] > state.head[PLANNED_AT]
    if due and pulled and not _worth_another_look(state, arm):
        _plan_exploration(state)
    return forgotten


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


@inlined
def _settle(state: State, arm: int, evicted: int, full: bool) -> None:
    """Bring the scores up to date after an observation."""
    head = state.head
    inexact = full and head[SLOT] == 0 and (head[FRACTIONAL] or head[MIXED])
    if head[INDEX] == index.THOMPSON:
        if inexact:
            memory.recount(state)
    elif head[GROWING] and (head[TIME] >= head[EPOCH] or head[TIME] - head[SINCE] >= head[WINDOW]):
        _begin_epoch(state)
    elif inexact:
        memory.recount(state)
        _rescore_all(state)
    else:
        if evicted >= 0 and evicted != arm:
            _rescore(state, evicted)
        _rescore(state, arm)


@compiled
def scores(state: State, out: Floats) -> None:
    """Write down what is compared at this moment; for Thompson sampling, the means of the posteriors."""
    for arm in range(state.head[ARMS]):
        if state.head[INDEX] == index.THOMPSON:
            count = state.counts[arm] / state.real[WEIGHT]
            total = state.sums[arm] / state.real[WEIGHT]
            if state.head[MIXED] and count <= 0.0:
                out[arm] = math.inf
            else:
                out[arm] = _mean_of(state, arm, (1.0 + total) / (2.0 + count))
        else:
            out[arm] = score(state, arm, state.head[TIME])


# What a live policy calls: two arrays come in, and are unpacked here rather than by the interpreter.


@compiled
def start_packed(ints: Ints, floats: Floats) -> None:
    """See start."""
    start(unpack(ints, floats))


@compiled
def choose_packed(ints: Ints, floats: Floats) -> int:
    """See choose."""
    return choose(unpack(ints, floats))


@compiled
def decide_packed(ints: Ints, floats: Floats, rng: np.random.Generator) -> int:
    """See decide."""
    return decide(unpack(ints, floats), rng)


@compiled
def observe_packed(ints: Ints, floats: Floats, arm: int, feedback: float) -> None:
    """See observe."""
    observe(unpack(ints, floats), arm, feedback)


@compiled
def observe_own_packed(ints: Ints, floats: Floats, arm: int, feedback: float, low: float, span: float) -> None:
    """See observe_own."""
    observe_own(unpack(ints, floats), arm, feedback, low, span)


@compiled
def scores_packed(ints: Ints, floats: Floats, out: Floats) -> None:
    """See scores."""
    scores(unpack(ints, floats), out)
