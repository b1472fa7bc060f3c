"""Ties: one of several equal arms represents all, so that a step does not look at each of a thousand equals.

Two arms with the same mean and the same number of observations have the same score until one of them is pulled, and the
lower arm is chosen. So the other can wait, out of the tournament. If the numbers differ, the arm with fewer
observations has the higher score, unless bounds have a limit that makes them equal. If the mean itself is at the limit,
all arms are equal whatever their number of observations.

The waiting arms form a pairing heap (Fredman, Sedgewick, Sleator & Tarjan 1986, The pairing heap: a new form of
self-adjusting heap, Algorithmica 1): an arm has followers, each of which may have followers. When an arm is pulled, its
followers are joined in pairs until one leads all others, in amortised logarithmic time.
"""

from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import Ints, array, record, variable
from maskedbandits.policies import indices, restarts
from maskedbandits.policies.index.state import Axes
from maskedbandits.policies.indices import STEEP

NONE = -1


def _others() -> Any:
    """Declare another arm, or NONE, for every arm."""
    return array(
        lambda scalars: scalars.arms, least=NONE, most=lambda scalars: scalars.arms - 1, scratch=True, added=NONE
    )


@record
class Ties(Axes):
    """Which arm waits for which."""

    waiting: int = variable(0, most=lambda scalars: scalars.arms - 1, scratch=True)  # number of waiting arms
    leaders: Ints = _others()  # the arm that an arm waits for
    followers: Ints = _others()  # the first arm that waits for it
    nexts: Ints = _others()  # siblings among the followers of one leader
    befores: Ints = _others()


@inner
def forget_all(state: Ties) -> None:
    """Release all arms."""
    state.scalars[0].waiting = 0
    for arm in range(state.scalars[0].arms):
        state.followers[arm] = NONE
        _release(state, arm)


@inlined
def is_behind(state: Ties, arm: int, other: int) -> bool:
    """Return whether an arm scores below another, or ties with a lower arm, until that one is pulled."""
    if state.scalars[0].mixed or state.first_node[arm] != state.first_node[other]:
        return False
    mean = state.sums[arm] / state.counts[arm]
    if mean != state.sums[other] / state.counts[other] or restarts.since(state, arm) != restarts.since(state, other):
        return False
    highest = indices.max_bound(state)
    comparable = state.counts[arm] == state.counts[other] or mean >= highest or highest >= STEEP
    return comparable and is_ahead(state, other, arm)


@inlined
def is_ahead(state: Ties, arm: int, other: int) -> bool:
    """Return whether the first of two arms with one mean has the higher score, or ties as the lower arm."""
    count, other_count = state.counts[arm], state.counts[other]
    if count == other_count or state.sums[arm] / count >= indices.max_bound(state):
        return arm < other
    return count < other_count


@inner
def wait(state: Ties, arm: int, leader: int) -> None:
    """Let an arm wait for another."""
    first = state.followers[leader]
    if first != NONE:
        state.befores[first] = arm
    state.leaders[arm] = leader
    state.nexts[arm] = first
    state.befores[arm] = NONE
    state.followers[leader] = arm
    state.scalars[0].waiting += 1


@inner
def _join(state: Ties, arm: int, other: int) -> int:
    """Let one of two arms wait for the other; return the leader."""
    if is_ahead(state, other, arm):
        arm, other = other, arm
    wait(state, other, arm)
    return arm


@inner
def _join_all(state: Ties, first: int) -> int:
    """Let all followers in a list wait for one of them; return that one, released."""
    nexts = state.nexts
    pairs = NONE
    while first != NONE:
        arm, other = first, nexts[first]
        first = NONE
        state.scalars[0].waiting -= 1
        if other != NONE:
            first = nexts[other]
            state.scalars[0].waiting -= 1
            arm = _join(state, arm, other)
        nexts[arm] = pairs
        pairs = arm
    leader, rest = pairs, nexts[pairs]
    while rest != NONE:
        following = nexts[rest]
        leader = _join(state, leader, rest)
        rest = following
    _release(state, leader)
    return leader


@inlined
def _release(state: Ties, arm: int) -> None:
    """Let an arm wait no longer."""
    state.leaders[arm] = NONE
    state.nexts[arm] = NONE
    state.befores[arm] = NONE


@inner
def leave(state: Ties, arm: int) -> int:
    """Take an observed arm out of its heap; return the new leader of its followers, or NONE."""
    heir = NONE
    if state.followers[arm] != NONE:
        heir = _join_all(state, state.followers[arm])
        state.followers[arm] = NONE
    leader = state.leaders[arm]
    if leader == NONE:
        return heir
    before, following = state.befores[arm], state.nexts[arm]
    if following != NONE:
        state.befores[following] = before
    if before != NONE:
        state.nexts[before] = following
    else:
        state.followers[leader] = following
    _release(state, arm)
    state.scalars[0].waiting -= 1
    if heir != NONE:
        wait(state, heir, leader)
    return NONE


def contradiction(state: Ties) -> str:
    """Return how a saved order of waiting arms contradicts itself, or an empty text."""
    comes_before = interpret(is_ahead)
    seen = 0
    for leader in (state.followers != NONE).nonzero()[0]:
        before, arm = NONE, state.followers[leader]
        while arm != NONE:
            seen += 1
            linked = state.leaders[arm] == leader and state.befores[arm] == before
            if not linked or seen > state.scalars[0].waiting or min(state.counts[leader], state.counts[arm]) <= 0.0:
                return "its ties are not in order"
            if not comes_before(state, leader, arm):
                return "its ties are not in order"
            before, arm = arm, state.nexts[arm]
    free = state.leaders == NONE
    if np.any(state.closed[~free]) or np.any(state.closed[state.followers != NONE]):
        return "an arm that is retired has ties"
    linked = (state.nexts[free] != NONE).any() or (state.befores[free] != NONE).any()
    if linked or seen != state.scalars[0].waiting or free.size - free.sum() != seen:
        return "its ties are not in order"
    return ""
