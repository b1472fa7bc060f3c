"""The generalised likelihood-ratio test (GLR) for a change of the mean of an arm's feedback.

With ``S_s`` the sum of the first s of n observations, mu = S_n / n
and d the Bernoulli divergence, the evidence for a change after observation s, and the test, are

    G_n(s) = s d(S_s / s, mu) + (n-s) d((S_n - S_s) / (n-s), mu),      alarm when max_s G_n(s) >= log(3 n^1.5 / delta).

This is the test of Besson, Kaufmann, Maillard & Seznec 2022 (Efficient change-point detection for tackling
piecewise-stationary bandits, JMLR 23), with the leading term of the threshold that they prove to keep false alarms
below delta (it does by itself in every stationary stream we measured). Here it is exact, without a scan of all s:

* *Few splits.* ``G_n`` is convex in the point (s, S_s), as each term is the perspective of a convex function, so its
  maximum is at a vertex of the convex hull of the points (0, 0), ..., (n, S_n). A point inside the hull stays inside.
  So the vertices of the lower and of the upper hull are kept as two stacks (the monotone chain): constant amortised
  time per observation, and about log n vertices each on random feedback (Romano, Eckley, Fearnhead & Rigaill 2023,
  Fast online changepoint detection via functional pruning CUSUM statistics, JMLR 24; Ward, Romano, Eckley & Fearnhead
  2024, A constant-per-iteration likelihood ratio test for online changepoint detection for exponential family models,
  Statistics and Computing 34).
* *Few logarithms.* From ``d(p, q) <= (p-q)^2 / (q (1-q))`` follows
  ``G_n(s) <= (S_s - s mu)^2 n / (s (n-s) mu (1-mu))``. Only where this passes half the threshold is G_n(s) computed.
* *Few evaluations.* Write G_n(s) = l(1..s) + l(s+1..n) - l(1..n) with l the maximal log-likelihood of a stretch. More
data
  never raise l, and l(1..n+k) is at least the log-likelihood at the *old* mean mu. So after k more observations

      max_s G_{n+k}(s) <= max_s G_n(s) + sum of (-x log mu - (1-x) log(1-mu)) over the new x,

  and until that sum has used up the distance to the threshold (which grows with n) nothing needs to be evaluated.
  If delta has risen meanwhile, the statistic is evaluated at once.

Sums of bits are exact below 2^53, and the hulls exact while n^2 is. Hulls of a contrived stream can have n^(2/3)
vertices, and a smooth drift without noise n. A full stack drops its least prominent vertex. Then fewer splits are
examined, so every alarm is one of the full test, and almost none is missed.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import compiled, inlined, inner
from maskedbandits._numba.state import Floats, Ints, array, param, record
from maskedbandits.policies import validation
from maskedbandits.policies.restarts.detected import Restarts
from maskedbandits.policies.state import NOT_NEGATIVE

MAX_POINTS = 192  # of a hull: random feedback needs about 20 in 10^6 observations
HULL_SIZE = 2 * MAX_POINTS  # numbers of one hull: (s, S_s) of each point
MAX_COUNT = float(1 << 53)  # observations that floats count exactly
MARGIN = 1e-6  # evaluate a little early, to be safe from rounding
TINY = 1e-200  # counts up to this are 0
HUGE = 1e300  # the cost of a feedback that never occurred


@record
class Detector(Restarts):
    """Two hulls of every arm, and when to evaluate them."""

    delta: float = param(
        1.0,
        validation.between(1e-300, 1.0),
        "confidence parameter of the test: less means fewer false alarms, and later detection",
    )
    follow_up: float = param(
        3.0,
        validation.between(0, math.inf),
        "evidence after which exploration of an idle arm is repeated at once; 0 for never",
    )
    lengths: Floats = array(
        lambda scalars: scalars.arms, least=0.0, most=MAX_COUNT
    )  # n, observations since the restart
    totals: Floats = array(lambda scalars: scalars.arms, least=0.0, most=MAX_COUNT)  # S_n
    lower_sizes: Ints = array(lambda scalars: scalars.arms, least=1, most=MAX_POINTS, added=1)
    upper_sizes: Ints = array(lambda scalars: scalars.arms, least=1, most=MAX_POINTS, added=1)
    budgets: Floats = array(lambda scalars: scalars.arms)  # the cost until the next evaluation,
    costs_of_one: Floats = array(lambda scalars: scalars.arms)  # of a feedback of 1,
    costs_of_zero: Floats = array(lambda scalars: scalars.arms)  # or of 0,
    levels: Floats = array(lambda scalars: scalars.arms)  # valid while delta is at most that of the last evaluation
    lower: Floats = array(lambda scalars: scalars.arms * HULL_SIZE)  # vertices (s, S_s)
    upper: Floats = array(lambda scalars: scalars.arms * HULL_SIZE)


def contradiction(state: Detector, parameters: Mapping[str, Any]) -> str:
    """Return how saved hulls contradict themselves, or an empty text."""
    return "a detector is not in order" if (state.totals > state.lengths).any() else ""


@inner
def restart(state: Detector, arm: int) -> None:
    """Forget every observation of an arm; both stacks start with the origin, which is never popped."""
    state.lengths[arm] = 0.0
    state.totals[arm] = 0.0
    state.lower_sizes[arm] = 1
    state.upper_sizes[arm] = 1
    state.budgets[arm] = 0.0
    state.costs_of_one[arm] = 0.0
    state.costs_of_zero[arm] = 0.0
    state.levels[arm] = 0.0


@inner
def detects(state: Detector, arm: int, feedback: float, time: float) -> bool:
    """Add a point to both hulls, and evaluate them if the statistic may have passed the threshold."""
    delta = state.scalars[0].delta / math.sqrt(time)
    n = state.lengths[arm] + 1.0
    total = state.totals[arm] + feedback
    state.lengths[arm] = n
    state.totals[arm] = total
    begin, end = arm * HULL_SIZE, (arm + 1) * HULL_SIZE
    state.lower_sizes[arm] = push(state.lower[begin:end], state.lower_sizes[arm], 1.0, n, total)
    state.upper_sizes[arm] = push(state.upper[begin:end], state.upper_sizes[arm], -1.0, n, total)
    budget = state.budgets[arm] - feedback * state.costs_of_one[arm] - (1.0 - feedback) * state.costs_of_zero[arm]
    state.budgets[arm] = budget
    if budget > MARGIN and delta <= state.levels[arm]:
        return False
    return _evaluate(state, arm, delta)


@inner
def is_worth_another_look(state: Detector, arm: int) -> bool:
    """Return whether a forced pull raised the evidence of a change."""
    scalars = state.scalars[0]
    if scalars.follow_up <= 0.0:
        return False
    before = scalars.evidence
    scalars.evidence = statistic(state, arm)
    return scalars.evidence > max(scalars.follow_up, before)


@inner
def statistic(state: Detector, arm: int) -> float:
    """Return max_s G_n(s)."""
    return _highest(state, arm, 0.0)


@compiled
def _drop(points: Floats, size: int, n: float) -> int:
    """Drop the least prominent vertex, in standard deviations; return the number left."""
    least = math.inf
    choice = 1
    for vertex in range(1, size - 1):
        at = 2 * vertex
        wide = points[at + 2] - points[at - 2]
        high = points[at + 3] - points[at - 1]
        height = (points[at + 1] - points[at - 1]) - high * (points[at] - points[at - 2]) / wide
        prominence = height * height / (points[at] * (n - points[at]))
        if prominence < least:
            least = prominence
            choice = vertex
    for place in range(2 * choice, 2 * size - 2):
        points[place] = points[place + 2]
    return size - 1


@inlined
def push(points: Floats, size: int, side: float, n: float, total: float) -> int:
    """Push a point on the stack of the lower (side 1) or the upper (-1) hull; return its new size."""
    while size >= 2:
        top = 2 * size & NOT_NEGATIVE
        before_n = points[top - 4]
        before_total = points[top - 3]
        turn = (points[top - 1] - before_total) * (n - before_n) - (total - before_total) * (points[top - 2] - before_n)
        if side * turn < 0.0:
            break
        size -= 1  # on the line or inside
    if 2 * size == points.size:
        size = _drop(points, size, n)
    top = 2 * size & NOT_NEGATIVE
    points[top] = n
    points[top + 1] = total
    return size + 1


@inner
def _evaluate(state: Detector, arm: int, delta: float) -> bool:
    """Compare the statistic with the threshold, and set the budget until the next evaluation."""
    n = state.lengths[arm]
    ones = state.totals[arm]
    zeros = n - ones
    threshold = math.log(3.0 * n * math.sqrt(n) / delta)
    highest = _highest(state, arm, 0.5 * threshold)
    state.budgets[arm] = threshold - highest
    state.costs_of_one[arm] = math.log(n / ones) if ones > TINY else HUGE
    state.costs_of_zero[arm] = math.log(n / zeros) if zeros > TINY else HUGE
    state.levels[arm] = delta
    return highest >= threshold


@inner
def _highest(state: Detector, arm: int, cut: float) -> float:
    """Return an upper bound on max_s G_n(s), exact above the cut."""
    n = state.lengths[arm]
    total = state.totals[arm]
    if min(total, n - total) <= TINY:
        return 0.0  # all observations are equal
    begin, end = arm * HULL_SIZE, (arm + 1) * HULL_SIZE
    best = _highest_of_hull(state.lower[begin:end], state.lower_sizes[arm], n, total, cut, 0.0)
    return _highest_of_hull(state.upper[begin:end], state.upper_sizes[arm], n, total, cut, best)


@compiled
def _highest_of_hull(points: Floats, size: int, n: float, total: float, cut: float, best: float) -> float:
    """Return the maximum of ``best`` and of the vertices strictly between (0, 0) and (n, S_n)."""
    mean = total / n
    scale = n / (mean * ((n - total) / n))
    for vertex in range(1, size - 1):
        s = points[2 * vertex]
        gap = points[2 * vertex + 1] - s * mean
        value = gap * gap * scale / (s * (n - s))
        if value > best:
            if value > cut:
                value = _evidence(s, points[2 * vertex + 1], n, total)
            best = max(best, value)
    return best


@compiled
def _evidence(s: float, before: float, n: float, total: float) -> float:
    """Return G_n(s), where S_s = before, from four counts and their expectations under the common mean."""
    after = total - before
    rest = n - s
    gap = (before * n - s * total) / n
    ones = total / n
    zeros = (n - total) / n
    value = _surprise(before, s * ones, gap) + _surprise(s - before, s * zeros, -gap)
    value += _surprise(after, rest * ones, -gap) + _surprise(rest - after, rest * zeros, gap)
    return max(value, 0.0)


@inlined
def _surprise(count: float, expected: float, gap: float) -> float:
    """Return count log(count / expected), from gap = count - expected where that keeps more digits."""
    if count <= TINY:
        return 0.0
    if gap < -0.5 * expected:
        return count * math.log(count / expected)
    return count * math.log1p(gap / expected)
