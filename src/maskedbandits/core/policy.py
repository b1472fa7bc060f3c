"""A policy: the three things it does with its state: start, choose, observe.

The same functions serve a live policy, one call at a time, and the simulator's loop. A policy is a memory
(``memory.py``), an index (``index.py``, and how it stays cheap: ``scores.py``) and what makes it forget at once
(``restart.py``).
"""

import math

from maskedbandits.core import beta, index, memory, restart, scores
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.lots import Words
from maskedbandits.core.state import (
    ARMS,
    EPOCH,
    EXPLORATION,
    EXPLORE_ARM,
    EXPLORE_AT,
    FRACTIONAL,
    GROWING,
    INDEX,
    MEMORY,
    MIXED,
    NOT_NEGATIVE,
    PULLED,
    RING,
    SETTLED,
    SINCE,
    SLOT,
    TIME,
    WEIGHT,
    WINDOW,
    Floats,
    Ints,
    State,
    unpack,
)


@inlined
def choose(state: State) -> int:
    """Return the arm to pull next, of a policy that draws nothing at random."""
    if state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]:
        return state.head[EXPLORE_ARM] & NOT_NEGATIVE
    if state.head[GROWING] and state.values[1] < math.inf:
        return scores.search(state)
    return state.winners[1] & NOT_NEGATIVE


@compiled
def _draw(state: State, words: Words) -> int:
    """Return the arm with the highest draw from the posterior of its mean: Thompson sampling."""
    if state.real[EXPLORATION] > 0.0 and state.head[TIME] >= state.head[EXPLORE_AT]:
        return state.head[EXPLORE_ARM]
    best = -math.inf
    chosen = 0
    fading = 1.0 / state.real[WEIGHT]
    for arm in range(state.head[ARMS]):
        count = state.counts[arm] * fading
        total = min(max(state.sums[arm] * fading, 0.0), count)
        if state.head[MIXED] and count <= 0.0:
            return arm  # without an observation it has no corruption either
        value = scores.mean_of(state, arm, beta.draw(words, 1.0 + total, 1.0 + count - total))
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def decide(state: State, words: Words) -> int:
    """Return the arm to pull next, of any policy."""
    if state.head[INDEX] == index.THOMPSON:
        return _draw(state, words) & NOT_NEGATIVE
    return choose(state)


@inlined
def observe(state: State, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    if state.head[MEMORY] == memory.DISCOUNTED:
        memory.age(state)
    feedback = 1.0 - feedback if state.flips[arm] else feedback
    _take_in(state, arm, feedback, feedback)


@compiled
def observe_own(state: State, arm: int, feedback: float, low: float, span: float, shown: float) -> None:
    """Take in a feedback with a corruption of its own: flipped, if need be, so that it increases from low by span.

    A detector is shown another number instead, or nothing if that is NaN.
    """
    if state.head[MEMORY] == memory.DISCOUNTED:
        memory.age(state)
    full = state.head[RING] > 0 and state.head[TIME] - state.head[SINCE] >= state.head[RING]
    memory.push_own(state, state.head[SLOT], full, arm, low, span)
    _take_in(state, arm, feedback, shown)


@inlined
def _take_in(state: State, arm: int, feedback: float, shown: float) -> None:
    if state.head[SETTLED] and (feedback == 0.0 or feedback == 1.0):
        _slide(state, arm, feedback)
    else:
        _weigh_in(state, arm, feedback, shown)


@inlined
def _slide(state: State, arm: int, feedback: float) -> None:
    """Take in a bit when a plain window is full: what ``_weigh_in`` would do, and nothing that it would not."""
    head = state.head
    slot = head[SLOT] & NOT_NEGATIVE
    head[TIME] += 1
    head[SLOT] = slot + 1 if slot + 1 < head[RING] else 0
    if state.ring_arms[slot] == arm and state.ring_feedbacks[slot] == feedback:
        return  # the same comes as goes
    evicted = memory.push(state, slot, True, arm, feedback)
    if evicted != arm:
        scores.replace(state, evicted)
    scores.replace(state, arm)


@compiled
def _weigh_in(state: State, arm: int, feedback: float, shown: float) -> None:
    """Take in any feedback in any state, and show a detector what is to be shown."""
    head = state.head
    if feedback != 0.0 and feedback != 1.0:
        head[FRACTIONAL] = 1
        head[SETTLED] = 0
    slot = head[SLOT] & NOT_NEGATIVE
    full = head[RING] > 0 and head[TIME] - head[SINCE] >= head[RING]
    head[TIME] += 1
    head[PULLED] = arm
    if head[RING] > 0:
        head[SLOT] = slot + 1 if slot + 1 < head[RING] else 0
    watchful = restart.is_watchful(state)
    evicted = memory.push(state, slot, full, arm, feedback)
    if not watchful or not restart.look_out(state, arm, shown):
        _settle(state, arm, evicted, full)


@inlined
def _settle(state: State, arm: int, evicted: int, full: bool) -> None:
    """Bring the scores up to date after an observation."""
    head = state.head
    inexact = full and head[SLOT] == 0 and (head[FRACTIONAL] or head[MIXED])
    if inexact:
        memory.recount(state)
    if head[INDEX] == index.THOMPSON:
        return
    scores.let_time_pass(state)
    if inexact:
        scores.rescore_some(state, 0, head[ARMS] - 1)
        return
    if evicted >= 0 and evicted != arm:
        scores.rescore_some(state, evicted, evicted)  # not inlined: that would take long to compile
    scores.rescore(state, arm)
    if head[GROWING] and (head[TIME] >= head[EPOCH] or head[TIME] - head[SINCE] >= head[WINDOW]):
        scores.begin_epoch(state, restart.is_watchful(state))


@compiled
def write_scores(state: State, out: Floats) -> None:
    """Write down what is compared at this moment; for Thompson sampling, the means of the posteriors."""
    for arm in range(state.head[ARMS]):
        if state.head[INDEX] == index.THOMPSON:
            count = state.counts[arm] / state.real[WEIGHT]
            total = state.sums[arm] / state.real[WEIGHT]
            if state.head[MIXED] and count <= 0.0:
                out[arm] = math.inf
            else:
                out[arm] = scores.mean_of(state, arm, (1.0 + total) / (2.0 + count))
        else:
            out[arm] = scores.score(state, arm)


# What a live policy calls: two arrays come in, and are unpacked here rather than by the interpreter.


@compiled
def start_packed(ints: Ints, floats: Floats) -> None:
    """See restart.start."""
    restart.start(unpack(ints, floats))


@compiled
def choose_packed(ints: Ints, floats: Floats) -> int:
    """See choose."""
    return choose(unpack(ints, floats))


@compiled
def decide_packed(ints: Ints, floats: Floats, words: Words) -> int:
    """See decide."""
    return decide(unpack(ints, floats), words)


@compiled
def observe_packed(ints: Ints, floats: Floats, arm: int, feedback: float) -> None:
    """See observe."""
    observe(unpack(ints, floats), arm, feedback)


@compiled
def observe_own_packed(
    ints: Ints, floats: Floats, arm: int, feedback: float, low: float, span: float, shown: float
) -> None:
    """See observe_own."""
    observe_own(unpack(ints, floats), arm, feedback, low, span, shown)


@compiled
def scores_packed(ints: Ints, floats: Floats, out: Floats) -> None:
    """See write_scores."""
    write_scores(unpack(ints, floats), out)
