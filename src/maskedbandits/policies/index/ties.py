"""Arms that are alike: one of them stands for all, so that a step does not look at every one of a thousand equals.

Two arms with the same mean and the same number of observations have the same score until one of them is pulled, and
the lower arm is chosen. So the other can wait in its shadow, out of the tournament. Where the number differs the arm
with fewer observations has the higher score, if bounds have no cap that makes them equal; where the mean itself is at
the cap all are equal, whatever their number.

Who waits for whom is a pairing heap (Fredman, Sedgewick, Sleator & Tarjan 1986, The pairing heap: a new form of
self-adjusting heap, Algorithmica 1): an arm has followers, each of which may have followers. When an arm is pulled its
followers are joined in pairs until one leads all others, in amortised logarithmic time.
"""

from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import Ints, array, record, variable
from maskedbandits.policies import indices
from maskedbandits.policies.index import watch
from maskedbandits.policies.index.state import Axes
from maskedbandits.policies.indices import STEEP

NONE = -1


def _others() -> Any:
    """Declare for every arm another one, or NONE."""
    return array(
        lambda scalars: scalars.arms, least=NONE, most=lambda scalars: scalars.arms - 1, scratch=True, added=NONE
    )


@record
class Ties(Axes):
    """Who waits in whose shadow."""

    waiting: int = variable(0, most=lambda scalars: scalars.arms - 1, scratch=True)  # how many do
    leaders: Ints = _others()  # whom an arm waits for
    followers: Ints = _others()  # the first of its own
    nexts: Ints = _others()  # among those of its leader
    befores: Ints = _others()


@inner
def forget_all(state: Ties) -> None:
    """Let nobody wait."""
    state.scalars[0].waiting = 0
    for arm in range(state.scalars[0].arms):
        state.followers[arm] = NONE
        _set_free(state, arm)


@inlined
def is_behind(state: Ties, arm: int, other: int) -> bool:
    """Tell whether an arm is behind another until that one is pulled."""
    if state.scalars[0].mixed or state.first_node[arm] != state.first_node[other]:
        return False
    mean = state.sums[arm] / state.counts[arm]
    if mean != state.sums[other] / state.counts[other] or watch.since(state, arm) != watch.since(state, other):
        return False
    highest = indices.highest(state)
    comparable = state.counts[arm] == state.counts[other] or mean >= highest or highest >= STEEP
    return comparable and is_ahead(state, other, arm)


@inlined
def is_ahead(state: Ties, arm: int, other: int) -> bool:
    """Tell whether of two arms with one mean the first has the higher score, or the same and is the lower arm."""
    count, other_count = state.counts[arm], state.counts[other]
    if count == other_count or state.sums[arm] / count >= indices.highest(state):
        return arm < other
    return count < other_count


@inner
def wait(state: Ties, arm: int, leader: int) -> None:
    """Let an arm wait in the shadow of another."""
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
    """Let one of two arms wait for the other; return the other."""
    if is_ahead(state, other, arm):
        arm, other = other, arm
    wait(state, other, arm)
    return arm


@inner
def _joined(state: Ties, first: int) -> int:
    """Let all of a row of followers wait for one of them; return that one, who is free."""
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
    _set_free(state, leader)
    return leader


@inlined
def _set_free(state: Ties, arm: int) -> None:
    state.leaders[arm] = NONE
    state.nexts[arm] = NONE
    state.befores[arm] = NONE


@inner
def leave(state: Ties, arm: int) -> int:
    """Take an arm that was observed out of its group; return who now leads those that it led, or NONE."""
    heir = NONE
    if state.followers[arm] != NONE:
        heir = _joined(state, state.followers[arm])
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
    _set_free(state, arm)
    state.scalars[0].waiting -= 1
    if heir != NONE:
        wait(state, heir, leader)
    return NONE


def contradiction(state: Ties) -> str:
    """Return where a saved order of those that wait contradicts itself."""
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
