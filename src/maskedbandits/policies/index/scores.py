"""The scores of the arms, and how to find the highest without computing all.

Scores form a tournament (``math/max_tree.py``). Once a window is full, the level f(w) is constant. Then a score depends
only on what is remembered of its arm, so only the pulled arm and the evicted arm change, and the root is the choice.

While the level grows, or counts fade under a discount, every score grows at every step. All are functions of the arm's
mean p, which is constant while the arm is not pulled, and of ``x = level / N``: u(p, x) with ``d(p, u) = x``, or
``p + sqrt(xi x)``. Both increase and are concave in x. So from a point x0 at which u was computed,

    u(p, x) <= u(p, x0) + (x - x0) u'(p, x0),        u' = u (1-u) / (u-p) for KL, xi / (2 sqrt(xi x0)) for UCB:

a tangent, which needs no logarithm and is almost exact for a while. The tournament holds *ceilings*: the tangents at
the end of the present epoch, which no score exceeds before. A choice searches it for the highest score now. It looks
only below nodes whose ceiling exceeds the best score found, and there only at arms whose tangent now does. Of equal
arms it looks at one (``ties.py``).
"""

import math
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import Floats, Ints, array, record, size, variable
from maskedbandits.math import max_tree
from maskedbandits.policies import indices, memories, restarts
from maskedbandits.policies.index import ties
from maskedbandits.policies.index.state import mean_of
from maskedbandits.policies.index.ties import Ties
from maskedbandits.policies.indices import STEEP
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import NOT_NEGATIVE

SLACK = 1e-11  # for rounding: a tangent must not fall below its bound
MANY_LOOKS = 16  # arms that a search looks at before it lets others wait, and lowers ceilings
STALE = 1.01  # growth of the spread from which on lowering a ceiling pays
STACK_SIZE = 128  # twice the depth of any tree
FEW = 64  # while reports are pending, more arms than this keep a second tournament (``pending_scores.py``)


def _second_arms(scalars: Any) -> int:
    """Return the number of arms in the second tournament."""
    return int(scalars.arms) if scalars.arms > FEW else 0


def _second_nodes(scalars: Any) -> int:
    """Return the number of nodes of the second tournament."""
    return 2 * int(scalars.leaves) if scalars.arms > FEW else 0


@record
class Scores(Ties):
    """A tournament over the arms, and their tangents."""

    leaves: int = size(1)
    growing: int = variable(1, most=1)  # 1 while scores grow with time
    epoch: int = variable(0, most=FOREVER)  # when the ceilings must be raised
    level: float = variable(0.0)  # f of the observations of all arms
    level_ahead: float = variable(0.0)  # at the end of the epoch
    winners: Ints = array(
        lambda scalars: 2 * scalars.leaves, least=0, most=lambda scalars: scalars.leaves - 1, scratch=True
    )
    values: Floats = array(lambda scalars: 2 * scalars.leaves, scratch=True)
    stack: Ints = array(lambda scalars: STACK_SIZE, scratch=True)  # of the search
    anchors: Floats = array(
        lambda scalars: scalars.arms, scratch=True
    )  # the spread at which each tangent was computed,
    bounds: Floats = array(lambda scalars: scalars.arms, scratch=True)  # the bound there,
    slopes: Floats = array(lambda scalars: scalars.arms, scratch=True)  # and its slope
    # The second tournament, of scores with pending reports, and the inputs of each score:
    ahead_level: float = variable(0.0, scratch=True)
    ahead_weight: float = variable(0.0, scratch=True)  # 0 before the first
    ahead_time: int = variable(0, most=FOREVER, scratch=True)
    ahead_seen: int = variable(0, most=FOREVER, scratch=True)
    ahead_clock: int = variable(0, most=FOREVER, scratch=True)  # decisions, rounded
    ahead_late: float = variable(0.0, scratch=True)
    ahead_patience: float = variable(0.0, scratch=True)
    ahead_winners: Ints = array(_second_nodes, least=0, most=lambda scalars: scalars.leaves - 1, scratch=True)
    ahead_values: Floats = array(_second_nodes, scratch=True)
    ahead_unanswered: Floats = array(_second_arms, scratch=True)
    ahead_counts: Floats = array(_second_arms, scratch=True)
    ahead_sums: Floats = array(_second_arms, scratch=True)


@inner
def forget_all(state: Scores) -> None:
    """Make every score infinite: no arm has observations."""
    scalars = state.scalars[0]
    scalars.growing = indices.grows(state) or memories.fades(state)
    scalars.epoch = scalars.time
    scalars.level = 0.0
    scalars.level_ahead = 0.0
    scalars.ahead_weight = 0.0
    max_tree.fill(state.values, state.winners, scalars.arms, math.inf)
    ties.forget_all(state)
    if scalars.retired > 0:
        for arm in range(scalars.arms):
            if state.closed[arm]:
                _take_out(state, arm)


@inlined
def highest_arm(state: Scores) -> int:
    """Return the arm with the highest score now, the lowest such arm."""
    if state.scalars[0].growing and state.values[1] < math.inf:
        return search(state)
    return state.winners[1] & NOT_NEGATIVE


@inlined
def update_scores(state: Scores, arm: int, evicted: int, is_resummed: bool) -> None:
    """Update the scores after an observation of an arm; all of them if the sums were recomputed."""
    scalars = state.scalars[0]
    _update_level(state)
    if is_resummed:
        _rescore_all(state)
        return
    if evicted >= 0 and evicted != arm:
        _place_apart(state, evicted)  # no arm waits where observations are evicted: scores do not grow
    if scalars.waiting > 0:
        _leave_ties(state, arm)
    _place(state, arm)
    if scalars.growing and (scalars.time >= scalars.epoch or memories.is_full(state)):
        _begin_epoch(state)


@inlined
def _update_level(state: Scores) -> None:
    """Update the common level of all arms."""
    scalars = state.scalars[0]
    if scalars.growing and not restarts.is_local(state):
        seen = memories.total_count(state)
        if seen > 0.0:
            scalars.level = indices.common_level(state, seen)


@inlined
def spread_of(state: Scores, arm: int, count: float, level: float, time: int) -> float:
    """Return x = level / N."""
    return indices.level(state, arm, count, level, time) / count


@inlined
def _spread_now(state: Scores, arm: int, fading: float) -> float:
    """Return the spread of an arm now."""
    scalars = state.scalars[0]
    return spread_of(state, arm, state.counts[arm] * fading, scalars.level, scalars.time)


@inner
def score(state: Scores, arm: int) -> float:
    """Return the arm's index now; infinite if nothing is remembered of it."""
    if state.counts[arm] <= 0.0:
        return math.inf
    mean = state.sums[arm] / state.counts[arm]
    spread = _spread_now(state, arm, memories.inverse_weight(state))
    return mean_of(state, arm, indices.bound(state, mean, spread))


@inlined
def _anchor(state: Scores, arm: int, spread: float) -> None:
    """Compute u now, and its tangent."""
    mean = state.sums[arm] / state.counts[arm]
    bound = indices.bound(state, mean, spread)
    bonus = bound - mean
    state.anchors[arm] = spread
    state.bounds[arm] = bound
    state.slopes[arm] = indices.slope(state, bound, bonus) if bonus > 0.0 else STEEP


@inlined
def _tangent(state: Scores, arm: int, spread: float) -> float:
    """Return an upper bound on u at a later time."""
    later = max(spread - state.anchors[arm], 0.0)
    bound = state.bounds[arm] + state.slopes[arm] * later + SLACK
    highest = indices.max_bound(state) + SLACK
    return bound if bound < highest else highest  # also if it is NaN, as after an infinite spread


@inlined
def _ceiling(state: Scores, arm: int, count: float) -> float:
    """Return an upper bound on the arm's score in this epoch, while it is not pulled, given its count at the end."""
    scalars = state.scalars[0]
    spread = spread_of(state, arm, count, scalars.level_ahead, scalars.epoch)
    return mean_of(state, arm, _tangent(state, arm, spread))


@inlined
def _place(state: Scores, arm: int) -> None:
    """Update the arm's score in the tournament."""
    if state.closed[arm]:
        value = -math.inf
    elif state.counts[arm] <= 0.0:
        value = math.inf
    elif state.scalars[0].growing:
        scalars = state.scalars[0]
        _anchor(state, arm, spread_of(state, arm, memories.count_now(state, arm), scalars.level, scalars.time))
        value = _ceiling(state, arm, memories.count_at_epoch(state, arm))
    else:
        value = score(state, arm)
    max_tree.set_score(state.values, state.winners, arm, value)


@inner
def _place_apart(state: Scores, arm: int) -> None:
    """Do the same where it happens rarely; not inlined, because that takes long to compile."""
    _place(state, arm)


@inner
def _take_out(state: Scores, arm: int) -> None:
    """Take an arm out of the tournament."""
    max_tree.set_score(state.values, state.winners, arm, -math.inf)


@inner
def _leave_ties(state: Scores, arm: int) -> None:
    """Separate an observed arm from those it was tied with."""
    heir = ties.leave(state, arm)
    if heir != ties.NONE:
        _place_apart(state, heir)


@inner
def _rescore_all(state: Scores) -> None:
    """Update the scores of all arms."""
    ties.forget_all(state)
    for arm in range(state.scalars[0].arms):
        _place_apart(state, arm)


@inner
def _begin_epoch(state: Scores) -> None:
    """Raise the ceilings for an epoch, or stop growing once a window is full."""
    scalars = state.scalars[0]
    if memories.is_full(state):
        scalars.growing = 0
        memories.settle(state, indices.has_memo(state) and not restarts.is_active(state))
        _rescore_all(state)
        return
    steps = memories.epoch(state)
    scalars.epoch = scalars.time + steps
    scalars.level_ahead = indices.common_level(state, memories.total_count_after(state, steps))
    fading = memories.epoch_fade(state) / memories.weight(state)
    for arm in range(scalars.arms):
        if state.counts[arm] > 0.0 and state.leaders[arm] == ties.NONE and not state.closed[arm]:
            max_tree.set_score(state.values, state.winners, arm, _ceiling(state, arm, state.counts[arm] * fading))


@inlined
def _beats_ceilings(state: Scores, arm: int, value: float) -> bool:
    """Return whether a score exceeds the ceilings of all other arms."""
    node = state.scalars[0].leaves + arm
    highest = -math.inf
    while node > 1:
        highest = max(highest, state.values[node ^ 1])
        node >>= 1
    return value > highest


@inner
def search(state: Scores) -> int:
    """Return the arm with the highest score now, the lowest such arm, by branch and bound on the ceilings."""
    scalars = state.scalars[0]
    leaves = scalars.leaves
    fading = memories.inverse_weight(state)
    chosen = scalars.pulled
    best = mean_of(state, chosen, state.bounds[chosen]) if not state.closed[chosen] else -math.inf  # just computed
    if _beats_ceilings(state, chosen, best):
        return chosen
    state.stack[0] = 1
    depth = 1
    looks = 0
    while depth > 0:
        depth -= 1
        node = state.stack[depth]
        if state.values[node] < best:
            continue
        if node < leaves:
            better = 2 * node if state.values[2 * node] >= state.values[2 * node + 1] else 2 * node + 1
            state.stack[depth] = better ^ 1  # visited last, when the best score is high
            state.stack[depth + 1] = better
            depth += 2
            continue
        arm = node - leaves
        looks += 1
        if looks > MANY_LOOKS and ties.is_behind(state, arm, chosen):
            ties.wait(state, arm, chosen)
            _take_out(state, arm)
            continue
        spread = _spread_now(state, arm, fading)
        if spread > state.anchors[arm]:
            if mean_of(state, arm, _tangent(state, arm, spread)) < best:
                if looks > MANY_LOOKS and spread > STALE * state.anchors[arm]:
                    _place_apart(state, arm)  # so that later searches of this epoch skip it
                continue
            _anchor(state, arm, spread)
        value = mean_of(state, arm, state.bounds[arm])
        if value > best or (value == best and arm < chosen):
            best = value
            chosen = arm
    return chosen


def retire(state: Scores, arm: int) -> None:
    """Take a retired arm out of the tournament, and let no arm wait for it."""
    if state.scalars[0].waiting > 0:
        interpret(_leave_ties)(state, arm)
    interpret(_take_out)(state, arm)
    state.scalars[0].ahead_weight = 0.0


def widen(state: Scores, new: Scores) -> None:
    """Add an arm to the tournament; if it is full, it becomes the left half of a larger one."""
    leaves, arm = int(state.scalars[0].leaves), int(state.scalars[0].arms)
    if new.scalars[0].leaves > leaves:
        new.values[:] = -math.inf
        new.winners[:] = 0
        new.winners[2 * leaves :] = np.arange(2 * leaves)
        for level in (1 << depth for depth in range(leaves.bit_length())):
            new.values[2 * level : 3 * level] = state.values[level : 2 * level]
            new.winners[2 * level : 3 * level] = state.winners[level : 2 * level]
    interpret(max_tree.set_score)(new.values, new.winners, arm, math.inf)
    new.scalars[0].ahead_weight = 0.0
