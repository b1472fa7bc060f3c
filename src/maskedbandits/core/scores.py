"""The scores of the arms, and the highest of them without computing all.

Scores stand in a tournament (``tree.py``). Once a window is full the level f(w) is constant: an arm's score depends on
what is remembered of it alone, so only the arm pulled and the arm pushed out change, and the root is the choice.

While the level grows, or counts fade under a discount, every score grows at every step. All are functions of the arm's
mean p, which stays while it is not pulled, and of ``x = level / N``: u(p, x) with ``d(p, u) = x``, or
``p + sqrt(xi x)``. Both increase and are concave in x. So from a moment x0 on at which u was computed,

    u(p, x) <= u(p, x0) + (x - x0) u'(p, x0),        u' = u (1-u) / (u-p) for KL, xi / (2 sqrt(xi x0)) for UCB:

a tangent, which costs no logarithm and is as good as exact for a while. The tournament holds *ceilings*: the tangents
at the end of the present epoch, which no score passes before. Choosing searches it for the highest score of this
moment, looks only below nodes whose ceiling is above the best found, and there only at arms whose tangent of this
moment is.
"""

import math

from maskedbandits.core import corruption, index, memory, tree
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.state import (
    ARMS,
    EPOCH,
    FADE,
    FRACTIONAL,
    GAMMA,
    GROWING,
    HORIZON,
    INDEX,
    LEAVES,
    LEVEL,
    LEVEL_AHEAD,
    LOCAL,
    MEMORY,
    MIXED,
    PULLED,
    RING,
    SEEN,
    SETTLED,
    SINCE,
    TIME,
    WEIGHT,
    WINDOW,
    XI,
    C,
    State,
)

STEEP = 1e100  # a tangent that is no help
SLACK = 1e-11  # hides the rounding of bounds: a tangent must not sink below what it bounds


@inlined
def mean_of(state: State, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    if state.head[MIXED]:  # the mean of affine functions is affine
        count = state.counts[arm]
        return (feedback_mean - state.low_sums[arm] / count) / (state.span_sums[arm] / count)
    first = state.first_node[arm]
    last = state.last_node[arm]
    if last == first + 1:  # a straight line, as randomised response is
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return corruption.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@inlined
def _level_of(state: State, seen: float) -> float:
    """Return f of the number of observations that count, of all arms together."""
    return index.exploration(max(1.0, seen), state.real[C])


@inlined
def let_time_pass(state: State) -> None:
    """Bring the level of all arms together up to date, after an observation."""
    real = state.real
    if state.head[MEMORY] == memory.DISCOUNTED:
        seen = real[GAMMA] * real[SEEN] + 1.0
        if seen - real[SEEN] > 1e-15 * seen:  # it rises to 1 / (1 - gamma), and stays there
            real[SEEN] = seen
            real[LEVEL] = _level_of(state, seen)
    elif state.head[GROWING] and not state.head[LOCAL]:
        real[LEVEL] = _level_of(state, float(min(state.head[TIME] - state.head[SINCE], state.head[WINDOW])))


@inlined
def _spread(state: State, arm: int, count: float, level: float, time: int) -> float:
    """Return x = level / N; with restarts of single arms each has a level of its own."""
    if state.head[INDEX] == index.KL_PLUS:
        level = index.plus_level(count, float(state.head[ARMS]), state.real[HORIZON])
    elif state.head[LOCAL]:
        level = _level_of(state, float(time - state.since[arm]))
    return level / count


@inlined
def _spread_now(state: State, arm: int, fading: float) -> float:
    return _spread(state, arm, state.counts[arm] * fading, state.real[LEVEL], state.head[TIME])


@compiled
def _bound(kind: int, mean: float, spread: float, xi: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean."""
    if kind == index.UCB:
        return index.ucb_bound(mean, spread, xi)
    return index.kl_bound(mean, spread)


@compiled
def _slope(kind: int, bound: float, bonus: float, xi: float) -> float:
    """Return u', how steeply the bound rises with the spread."""
    if bonus <= 0.0:
        return STEEP
    if kind == index.UCB:
        return 0.5 * xi / bonus
    return bound * (1.0 - bound) / bonus


@compiled
def score(state: State, arm: int) -> float:
    """Return the arm's index at this moment; infinite if nothing is remembered of it."""
    if state.counts[arm] <= 0.0:
        return math.inf
    mean = state.sums[arm] / state.counts[arm]
    spread = _spread_now(state, arm, 1.0 / state.real[WEIGHT])
    return mean_of(state, arm, _bound(state.head[INDEX], mean, spread, state.real[XI]))


@inlined
def _anchor(state: State, arm: int, spread: float) -> None:
    """Compute u at this moment, and lay its tangent."""
    mean = state.sums[arm] / state.counts[arm]
    bound = _bound(state.head[INDEX], mean, spread, state.real[XI])
    state.anchors[arm] = spread
    state.bounds[arm] = bound
    state.slopes[arm] = _slope(state.head[INDEX], bound, bound - mean, state.real[XI])


@inlined
def _tangent(state: State, arm: int, spread: float) -> float:
    """Return a bound on u at a later moment."""
    later = max(spread - state.anchors[arm], 0.0)
    bound = state.bounds[arm] + state.slopes[arm] * later + SLACK
    return min(bound, STEEP if state.head[INDEX] == index.UCB else 1.0 + SLACK)


@inlined
def _ceiling(state: State, arm: int, fading: float) -> float:
    """Return what the arm's score does not pass in this epoch, if it is not pulled."""
    spread = _spread(state, arm, state.counts[arm] * fading, state.real[LEVEL_AHEAD], state.head[EPOCH])
    return mean_of(state, arm, _tangent(state, arm, spread))


@inlined
def rescore(state: State, arm: int) -> None:
    """Bring the arm's place in the tournament up to date."""
    if state.counts[arm] <= 0.0:
        value = math.inf
    elif state.head[GROWING]:
        fading = 1.0 / state.real[WEIGHT]
        _anchor(state, arm, _spread_now(state, arm, fading))
        value = _ceiling(state, arm, fading * state.real[FADE])
    else:
        value = score(state, arm)
    tree.place(state.values, state.winners, arm, value)


@compiled
def rescore_some(state: State, first: int, last: int) -> None:
    """Bring the places of some arms up to date, the last included."""
    for arm in range(first, last + 1):
        rescore(state, arm)


@compiled
def begin_epoch(state: State, watchful: bool) -> None:
    """Raise the ceilings for a while, or settle for good once a window is full."""
    head = state.head
    played = head[TIME] - head[SINCE]
    if head[MEMORY] != memory.DISCOUNTED and played >= head[WINDOW]:
        head[GROWING] = 0
        plain = head[INDEX] == index.KL and not head[FRACTIONAL] and not head[MIXED]
        head[SETTLED] = plain and head[RING] > 0 and not watchful
        rescore_some(state, 0, head[ARMS] - 1)
        return
    _plan_epoch(state, played)
    fading = state.real[FADE] / state.real[WEIGHT]
    for arm in range(head[ARMS]):
        if state.counts[arm] > 0.0:
            tree.place(state.values, state.winners, arm, _ceiling(state, arm, fading))


@compiled
def _plan_epoch(state: State, played: int) -> None:
    """Fix the end of an epoch, and the level that it will have then."""
    real = state.real
    if state.head[MEMORY] == memory.DISCOUNTED:
        steps = max(state.head[ARMS], int(0.005 / (1.0 - real[GAMMA])))
        real[FADE] = real[GAMMA] ** float(steps)
        most = 1.0 / (1.0 - real[GAMMA])
        seen = most - (most - real[SEEN]) * real[FADE]
    else:
        steps = played // 64 + state.head[ARMS]
        seen = float(min(played + steps, state.head[WINDOW]))
    state.head[EPOCH] = state.head[TIME] + steps
    real[LEVEL_AHEAD] = _level_of(state, seen)


@inlined
def _beats_ceilings(state: State, arm: int, value: float) -> bool:
    """Tell whether a score is above the ceilings of all other arms."""
    node = state.head[LEAVES] + arm
    highest = -math.inf
    while node > 1:
        highest = max(highest, state.values[node ^ 1])
        node >>= 1
    return value > highest


@compiled
def search(state: State) -> int:
    """Return the arm of the highest score of this moment, the lowest such arm, by branch and bound on the ceilings."""
    leaves = state.head[LEAVES]
    fading = 1.0 / state.real[WEIGHT]
    chosen = state.head[PULLED]
    best = mean_of(state, chosen, state.bounds[chosen])  # just computed
    if _beats_ceilings(state, chosen, best):
        return chosen
    state.stack[0] = 1
    depth = 1
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
        spread = _spread_now(state, arm, fading)
        if spread > state.anchors[arm]:
            if mean_of(state, arm, _tangent(state, arm, spread)) < best:
                continue
            _anchor(state, arm, spread)
        value = mean_of(state, arm, state.bounds[arm])
        if value > best or (value == best and arm < chosen):
            best = value
            chosen = arm
    return chosen


@inlined
def replace(state: State, arm: int) -> None:
    """Bring the arm's place in the tournament up to date, at a constant level."""
    value = math.inf
    if state.counts[arm] > 0.0:
        bound = index.remembered_kl_bound(
            state.counts[arm], state.sums[arm], state.real[LEVEL], state.memo_keys, state.memo_bounds
        )
        value = mean_of(state, arm, bound)
    tree.place(state.values, state.winners, arm, value)
