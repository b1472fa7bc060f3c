"""A policy: its state, and the three things it does: start, choose, observe.

The state lives in two flat arrays, one of integers and one of floats, because handing many arrays over from the
interpreter costs more than a step; ``unpack`` lays named views over them. The same functions serve a live policy, one
call at a time, and the simulator's loop.

**How choosing stays cheap.** Scores stand in a tournament (``core/tree.py``). Once the window is full the level f(w) is
constant: the score of an arm depends on what is remembered of it alone, so only the arm pulled and the arm pushed out
change, and the root is the choice. While the level still grows, every score grows at every step. Then the tournament
holds *ceilings*: scores at the level of the end of the present epoch, which no score passes before. Choosing searches
the tree for the highest score of this moment and looks only below nodes whose ceiling is above the best found; an epoch
is short enough (a 64th of the time) that this is an arm or two.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core import corruption, index, memory, tree
from maskedbandits.core.compiled import compiled, inlined

# Places in the head of the integers
ARMS, WINDOW, RING, LEAVES, MEMO, NODES, TIME, SLOT, GROWING, EPOCH, FRACTIONAL = range(11)
INT_HEAD = 16
# Places in the head of the floats
C, LEVEL = range(2)
FLOAT_HEAD = 8

FOREVER = 1 << 62  # the window of a policy that forgets nothing
NOT_NEGATIVE = FOREVER - 1  # a mask that tells the compiler that an index is none of Python's negative ones
STACK = 128  # twice the depth of any tree


class State(NamedTuple):
    """Named views over the two arrays; see ``layout`` for their lengths."""

    head: NDArray[np.int64]
    real: NDArray[np.float64]
    counts: NDArray[np.float64]  # (K,) observations that count
    sums: NDArray[np.float64]  # (K,) their feedbacks, flipped where g decreases
    ring_arms: NDArray[np.int64]  # (window,), or empty where nothing is forgotten
    ring_feedbacks: NDArray[np.float64]
    winners: NDArray[np.int64]  # the tournament
    values: NDArray[np.float64]
    stack: NDArray[np.int64]  # scratch of the search
    flips: NDArray[np.int64]  # (K,) 1 where g decreases
    first_node: NDArray[np.int64]  # (K,) the arm's polyline among the nodes
    last_node: NDArray[np.int64]
    node_means: NDArray[np.float64]
    node_feedbacks: NDArray[np.float64]
    lows: NDArray[np.float64]  # (K,) its first feedback
    rates: NDArray[np.float64]  # (K,) one over its secant slope
    memo_keys: NDArray[np.int64]  # (M,) what bounds are known already at the final level
    memo_bounds: NDArray[np.float64]


class Layout(NamedTuple):
    """How long the two arrays are."""

    ints: int
    floats: int
    leaves: int


def layout(arms: int, ring: int, nodes: int, memo: int) -> Layout:
    """Return the lengths of the two arrays of a state."""
    leaves = 1 << max(arms - 1, 0).bit_length()
    ints = INT_HEAD + ring + 2 * leaves + STACK + 3 * arms + memo
    floats = FLOAT_HEAD + 4 * arms + ring + 2 * leaves + 2 * nodes + memo
    return Layout(ints, floats, leaves)


@inlined
def unpack(ints: NDArray[np.int64], floats: NDArray[np.float64]) -> State:
    """Lay the views over the arrays."""
    arms = ints[ARMS]
    ring = ints[RING]
    leaves = ints[LEAVES]
    nodes = ints[NODES]
    i1 = INT_HEAD + ring
    i2 = i1 + 2 * leaves
    i3 = i2 + STACK
    f1 = FLOAT_HEAD + arms
    f2 = f1 + arms
    f3 = f2 + ring
    f4 = f3 + 2 * leaves
    f5 = f4 + nodes
    f6 = f5 + nodes
    return State(
        head=ints[:INT_HEAD],
        real=floats[:FLOAT_HEAD],
        counts=floats[FLOAT_HEAD:f1],
        sums=floats[f1:f2],
        ring_arms=ints[INT_HEAD:i1],
        ring_feedbacks=floats[f2:f3],
        winners=ints[i1:i2],
        values=floats[f3:f4],
        stack=ints[i2:i3],
        flips=ints[i3 : i3 + arms],
        first_node=ints[i3 + arms : i3 + 2 * arms],
        last_node=ints[i3 + 2 * arms : i3 + 3 * arms],
        node_means=floats[f4:f5],
        node_feedbacks=floats[f5:f6],
        memo_keys=ints[i3 + 3 * arms : i3 + 3 * arms + ints[MEMO]],
        lows=floats[f6 : f6 + arms],
        rates=floats[f6 + arms : f6 + 2 * arms],
        memo_bounds=floats[f6 + 2 * arms : f6 + 2 * arms + ints[MEMO]],
    )


def views(ints: NDArray[np.int64], floats: NDArray[np.float64]) -> State:
    """Lay the views over the arrays, for the interpreter: the compiled unpack can hand no view back to it."""
    return getattr(unpack, "py_func", unpack)(ints, floats)


@compiled
def start(state: State) -> None:
    """Forget everything: every arm is unseen, and its score infinite."""
    state.head[TIME] = 0
    state.head[SLOT] = 0
    state.head[GROWING] = 1
    state.head[EPOCH] = 0
    state.head[FRACTIONAL] = 0
    state.counts[:] = 0.0
    state.sums[:] = 0.0
    state.memo_keys[:] = -1
    leaves = state.head[LEAVES]
    state.values[:] = -math.inf
    for leaf in range(leaves):
        state.winners[leaves + leaf] = leaf
    for arm in range(state.head[ARMS]):
        tree.place(state.values, state.winners, arm, math.inf)


@inlined
def level_at(state: State, time: int) -> float:
    """Return f(t ^ w)."""
    return index.exploration(max(1.0, float(min(time, state.head[WINDOW]))), state.real[C])


@inlined
def _mean_of(state: State, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    first = state.first_node[arm]
    last = state.last_node[arm]
    if last == first + 1:  # a straight line, as randomised response is
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return corruption.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@inlined
def score(state: State, arm: int, level: float) -> float:
    """Return the arm's index at a level; infinite if nothing of it is remembered."""
    if state.counts[arm] <= 0.0:
        return math.inf
    return _mean_of(state, arm, index.kl_bound(state.counts[arm], state.sums[arm], level))


@inlined
def _rescore(state: State, arm: int) -> None:
    """Bring the arm's place in the tournament up to date."""
    count = state.counts[arm]
    level = state.real[LEVEL]
    if count <= 0.0:
        value = math.inf
    elif state.head[GROWING] or state.head[FRACTIONAL]:
        value = score(state, arm, level)
    else:
        bound = index.remembered_kl_bound(count, state.sums[arm], level, state.memo_keys, state.memo_bounds)
        value = _mean_of(state, arm, bound)
    tree.place(state.values, state.winners, arm, value)


@compiled
def _rescore_all(state: State) -> None:
    for arm in range(state.head[ARMS]):
        _rescore(state, arm)


@compiled
def _begin_epoch(state: State) -> None:
    """Raise the ceilings for a while, or settle for good once the window is full."""
    time = state.head[TIME]
    if time >= state.head[WINDOW]:
        state.head[GROWING] = 0
        state.real[LEVEL] = level_at(state, time)
    else:
        state.head[EPOCH] = time + time // 64 + state.head[ARMS]
        state.real[LEVEL] = level_at(state, state.head[EPOCH])
    _rescore_all(state)


@inlined
def _search(state: State) -> int:
    """Return the arm of the highest score of this moment, the lowest such arm, by branch and bound on the ceilings."""
    level = level_at(state, state.head[TIME])
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
            value = score(state, arm, level)
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
    """Return the arm to pull next."""
    if state.head[GROWING] and state.values[1] < math.inf:
        return _search(state)
    return state.winners[1] & NOT_NEGATIVE


@inlined
def observe(state: State, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    head = state.head
    if state.flips[arm]:
        feedback = 1.0 - feedback
    if feedback != 0.0 and feedback != 1.0:
        head[FRACTIONAL] = 1
    slot = head[SLOT] & NOT_NEGATIVE
    full = head[RING] > 0 and head[TIME] >= head[RING]
    head[TIME] += 1
    if head[RING] > 0:
        head[SLOT] = slot + 1 if slot + 1 < head[RING] else 0
    if full and state.ring_arms[slot] == arm and state.ring_feedbacks[slot] == feedback:
        return  # the same comes as goes
    evicted = memory.push(state.counts, state.sums, state.ring_arms, state.ring_feedbacks, slot, full, arm, feedback)
    if head[GROWING] and (head[TIME] >= head[EPOCH] or head[TIME] >= head[WINDOW]):
        _begin_epoch(state)
    elif full and head[SLOT] == 0 and head[FRACTIONAL]:
        memory.recount(state.sums, state.ring_arms, state.ring_feedbacks)
        _rescore_all(state)
    else:
        if evicted >= 0 and evicted != arm:
            _rescore(state, evicted)
        _rescore(state, arm)


@compiled
def scores(state: State, out: NDArray[np.float64]) -> None:
    """Write down the exact scores of this moment."""
    level = level_at(state, state.head[TIME])
    for arm in range(state.head[ARMS]):
        out[arm] = score(state, arm, level)


# What a live policy calls: two arrays come in, and are unpacked here rather than by the interpreter.


@compiled
def start_packed(ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
    """See start."""
    start(unpack(ints, floats))


@compiled
def choose_packed(ints: NDArray[np.int64], floats: NDArray[np.float64]) -> int:
    """See choose."""
    return choose(unpack(ints, floats))


@compiled
def observe_packed(ints: NDArray[np.int64], floats: NDArray[np.float64], arm: int, feedback: float) -> None:
    """See observe."""
    observe(unpack(ints, floats), arm, feedback)


@compiled
def scores_packed(ints: NDArray[np.int64], floats: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """See scores."""
    scores(unpack(ints, floats), out)
