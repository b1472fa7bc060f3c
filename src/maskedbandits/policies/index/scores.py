"""The scores of the arms, and the highest of them without computing all.

Scores stand in a tournament (``math/max_tree.py``). Once a window is full the level f(w) is constant: an arm's score
depends on what is remembered of it alone, so only the arm pulled and the arm pushed out change, and the root is the
choice.

While the level grows, or counts fade under a discount, every score grows at every step. All are functions of the arm's
mean p, which stays while it is not pulled, and of ``x = level / N``: u(p, x) with ``d(p, u) = x``, or
``p + sqrt(xi x)``. Both increase and are concave in x. So from a moment x0 on at which u was computed,

    u(p, x) <= u(p, x0) + (x - x0) u'(p, x0),        u' = u (1-u) / (u-p) for KL, xi / (2 sqrt(xi x0)) for UCB:

a tangent, which costs no logarithm and is as good as exact for a while. The tournament holds *ceilings*: the tangents
at the end of the present epoch, which no score passes before. Choosing searches it for the highest score of this
moment, looks only below nodes whose ceiling is above the best found, and there only at arms whose tangent of this
moment is. Of arms that are alike it looks at one (``ties.py``).
"""

import math
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner, interpret
from maskedbandits._numba.state import Floats, Ints, array, record, size, variable
from maskedbandits.math import max_tree
from maskedbandits.policies import indices, memories
from maskedbandits.policies.index import ties, watch
from maskedbandits.policies.index.state import mean_of
from maskedbandits.policies.index.ties import Ties
from maskedbandits.policies.indices import STEEP
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import NOT_NEGATIVE

SLACK = 1e-11  # hides the rounding of bounds: a tangent must not sink below what it bounds
MANY = 16  # arms that a search looks at before it lets others wait, and lowers ceilings,
STALE = 1.01  # which pays where the spread has grown since the tangent was laid
STACK = 128  # twice the depth of any tree
FEW = 64  # while reports are pending, more arms than this keep a second tournament (``pending_scores.py``)


def _in_the_second(scalars: Any) -> int:
    return int(scalars.arms) if scalars.arms > FEW else 0


def _matches(scalars: Any) -> int:
    return 2 * int(scalars.leaves) if scalars.arms > FEW else 0


@record
class Scores(Ties):
    """A tournament over the arms, and their tangents."""

    leaves: int = size(1)
    growing: int = variable(1, most=1)  # 1 while scores grow with time
    epoch: int = variable(0, most=FOREVER)  # when the ceilings must be raised again
    level: float = variable(0.0)  # f of what all arms have together
    level_ahead: float = variable(0.0)  # at the end of the epoch
    winners: Ints = array(
        lambda scalars: 2 * scalars.leaves, least=0, most=lambda scalars: scalars.leaves - 1, scratch=True
    )
    values: Floats = array(lambda scalars: 2 * scalars.leaves, scratch=True)
    stack: Ints = array(lambda scalars: STACK, scratch=True)  # of the search
    anchors: Floats = array(lambda scalars: scalars.arms, scratch=True)  # where the arms' tangents were laid,
    bounds: Floats = array(lambda scalars: scalars.arms, scratch=True)  # what was bounded there,
    slopes: Floats = array(lambda scalars: scalars.arms, scratch=True)  # and how steeply it rose
    # The second tournament, of scores with the reports that are awaited, and what each was computed from:
    ahead_level: float = variable(0.0, scratch=True)
    ahead_weight: float = variable(0.0, scratch=True)  # 0 while none was computed
    ahead_time: int = variable(0, most=FOREVER, scratch=True)
    ahead_seen: int = variable(0, most=FOREVER, scratch=True)
    ahead_clock: int = variable(0, most=FOREVER, scratch=True)  # decisions, rounded
    ahead_late: float = variable(0.0, scratch=True)
    ahead_patience: float = variable(0.0, scratch=True)
    ahead_winners: Ints = array(_matches, least=0, most=lambda scalars: scalars.leaves - 1, scratch=True)
    ahead_values: Floats = array(_matches, scratch=True)
    ahead_unanswered: Floats = array(_in_the_second, scratch=True)
    ahead_counts: Floats = array(_in_the_second, scratch=True)
    ahead_sums: Floats = array(_in_the_second, scratch=True)


@inner
def forget_all(state: Scores) -> None:
    """Make every score infinite: no arm is known."""
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
    """Return the arm of the highest score of this moment, the lowest such arm."""
    if state.scalars[0].growing and state.values[1] < math.inf:
        return search(state)
    return state.winners[1] & NOT_NEGATIVE


@inlined
def bring_up_to_date(state: Scores, arm: int, evicted: int, tidied: bool) -> None:
    """Bring the scores up to date after an observation of an arm; all of them if sums were tidied."""
    scalars = state.scalars[0]
    _let_time_pass(state)
    if tidied:
        _rescore_all(state)
        return
    if evicted >= 0 and evicted != arm:
        _place_apart(state, evicted)  # nobody waits where observations are pushed out: scores do not grow
    if scalars.waiting > 0:
        _part(state, arm)
    _place(state, arm)
    if scalars.growing and (scalars.time >= scalars.epoch or memories.is_full(state)):
        _begin_epoch(state)


@inlined
def _let_time_pass(state: Scores) -> None:
    """Bring the level of all arms together up to date."""
    scalars = state.scalars[0]
    if scalars.growing and not watch.is_local(state):
        seen = memories.seen(state)
        if seen > 0.0:
            scalars.level = indices.level_of(state, seen)


@inlined
def spread_of(state: Scores, arm: int, count: float, level: float, time: int) -> float:
    """Return x = level / N."""
    return indices.level(state, arm, count, level, time) / count


@inlined
def _spread_now(state: Scores, arm: int, fading: float) -> float:
    scalars = state.scalars[0]
    return spread_of(state, arm, state.counts[arm] * fading, scalars.level, scalars.time)


@inner
def score(state: Scores, arm: int) -> float:
    """Return the arm's index at this moment; infinite if nothing is remembered of it."""
    if state.counts[arm] <= 0.0:
        return math.inf
    mean = state.sums[arm] / state.counts[arm]
    spread = _spread_now(state, arm, memories.fading(state))
    return mean_of(state, arm, indices.bound(state, mean, spread))


@inlined
def _anchor(state: Scores, arm: int, spread: float) -> None:
    """Compute u at this moment, and lay its tangent."""
    mean = state.sums[arm] / state.counts[arm]
    bound = indices.bound(state, mean, spread)
    bonus = bound - mean
    state.anchors[arm] = spread
    state.bounds[arm] = bound
    state.slopes[arm] = indices.slope(state, bound, bonus) if bonus > 0.0 else STEEP


@inlined
def _tangent(state: Scores, arm: int, spread: float) -> float:
    """Return a bound on u at a later moment."""
    later = max(spread - state.anchors[arm], 0.0)
    bound = state.bounds[arm] + state.slopes[arm] * later + SLACK
    highest = indices.highest(state) + SLACK
    return bound if bound < highest else highest  # also if it is no number: what has faded has an infinite spread


@inlined
def _ceiling(state: Scores, arm: int, fading: float) -> float:
    """Return what the arm's score does not pass in this epoch, if it is not pulled."""
    scalars = state.scalars[0]
    spread = spread_of(state, arm, state.counts[arm] * fading, scalars.level_ahead, scalars.epoch)
    return mean_of(state, arm, _tangent(state, arm, spread))


@inlined
def _place(state: Scores, arm: int) -> None:
    """Bring the arm's place in the tournament up to date."""
    if state.closed[arm]:
        value = -math.inf
    elif state.counts[arm] <= 0.0:
        value = math.inf
    elif state.scalars[0].growing:
        fading = memories.fading(state)
        _anchor(state, arm, _spread_now(state, arm, fading))
        value = _ceiling(state, arm, fading * memories.fade(state))
    else:
        value = score(state, arm)
    max_tree.place(state.values, state.winners, arm, value)


@inner
def _place_apart(state: Scores, arm: int) -> None:
    """Do the same where it is done seldom: not inlined, as that takes long to compile."""
    _place(state, arm)


@inner
def _take_out(state: Scores, arm: int) -> None:
    """Take an arm out of the tournament."""
    max_tree.place(state.values, state.winners, arm, -math.inf)


@inner
def _part(state: Scores, arm: int) -> None:
    """Part an arm that was observed from those that were like it."""
    heir = ties.leave(state, arm)
    if heir != ties.NONE:
        _place_apart(state, heir)


@inner
def _rescore_all(state: Scores) -> None:
    """Bring the places of all arms up to date."""
    ties.forget_all(state)
    for arm in range(state.scalars[0].arms):
        _place_apart(state, arm)


@inner
def _begin_epoch(state: Scores) -> None:
    """Raise the ceilings for a while, or settle for good once a window is full."""
    scalars = state.scalars[0]
    if memories.is_full(state):
        scalars.growing = 0
        memories.settle(state, indices.is_remembered(state) and not watch.is_watchful(state))
        _rescore_all(state)
        return
    steps = memories.epoch(state)
    scalars.epoch = scalars.time + steps
    scalars.level_ahead = indices.level_of(state, memories.seen_after(state, steps))
    fading = memories.fade(state) / memories.weight(state)
    for arm in range(scalars.arms):
        if state.counts[arm] > 0.0 and state.leaders[arm] == ties.NONE and not state.closed[arm]:
            max_tree.place(state.values, state.winners, arm, _ceiling(state, arm, fading))


@inlined
def _beats_ceilings(state: Scores, arm: int, value: float) -> bool:
    """Tell whether a score is above the ceilings of all other arms."""
    node = state.scalars[0].leaves + arm
    highest = -math.inf
    while node > 1:
        highest = max(highest, state.values[node ^ 1])
        node >>= 1
    return value > highest


@inner
def search(state: Scores) -> int:
    """Return the arm of the highest score of this moment, the lowest such arm, by branch and bound on the ceilings."""
    scalars = state.scalars[0]
    leaves = scalars.leaves
    fading = memories.fading(state)
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
            state.stack[depth] = better ^ 1  # looked at last, when the best is known to be high
            state.stack[depth + 1] = better
            depth += 2
            continue
        arm = node - leaves
        looks += 1
        if looks > MANY and ties.is_behind(state, arm, chosen):
            ties.wait(state, arm, chosen)
            _take_out(state, arm)
            continue
        spread = _spread_now(state, arm, fading)
        if spread > state.anchors[arm]:
            if mean_of(state, arm, _tangent(state, arm, spread)) < best:
                if looks > MANY and spread > STALE * state.anchors[arm]:
                    _place_apart(state, arm)  # so that this epoch's other searches need not look
                continue
            _anchor(state, arm, spread)
        value = mean_of(state, arm, state.bounds[arm])
        if value > best or (value == best and arm < chosen):
            best = value
            chosen = arm
    return chosen


def retire(state: Scores, arm: int) -> None:
    """Take a retired arm out of the tournament, and let nobody wait for it."""
    if state.scalars[0].waiting > 0:
        interpret(_part)(state, arm)
    interpret(_take_out)(state, arm)
    state.scalars[0].ahead_weight = 0.0


def widen(state: Scores, new: Scores) -> None:
    """Let an arm that is added take part in the tournament; if there is no place, the old one is the left half."""
    leaves, arm = int(state.scalars[0].leaves), int(state.scalars[0].arms)
    if new.scalars[0].leaves > leaves:
        new.values[:] = -math.inf
        new.winners[:] = 0
        new.winners[2 * leaves :] = np.arange(2 * leaves)
        for level in (1 << depth for depth in range(leaves.bit_length())):
            new.values[2 * level : 3 * level] = state.values[level : 2 * level]
            new.winners[2 * level : 3 * level] = state.winners[level : 2 * level]
    interpret(max_tree.place)(new.values, new.winners, arm, math.inf)
    new.scalars[0].ahead_weight = 0.0
