"""Whether the mean of one arm's feedback, numbers in [0, 1], has changed since the detector's last restart.

**The generalised likelihood-ratio test (GLR).** With ``S_s`` the sum of the first s of n observations, mu = S_n / n
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
* *Few looks.* Write G_n(s) = l(1..s) + l(s+1..n) - l(1..n) with l the maximal log-likelihood of a stretch. More data
  never raise l, and l(1..n+k) is at least the log-likelihood at the *old* mean mu. So after k more observations

      max_s G_{n+k}(s) <= max_s G_n(s) + sum of (-x log mu - (1-x) log(1-mu)) over the new x,

  and until that sum has used up the distance from the threshold (which grows with n) there is nothing to look at.
  Should delta have risen meanwhile, a look is taken at once.

Sums of bits are exact below 2^53, and the hulls exact while n^2 is. Hulls of a contrived stream can have n^(2/3)
vertices, and a smooth drift without noise n: a stack that is full drops the vertex that stands out least. Then fewer
splits are examined, so no alarm is raised that the full test would not raise, and next to none is missed.

**Baselines.** With drift e and threshold h, two-sided:

* CUSUM (Liu, Lee & Shroff 2018, A change-detection based framework for piecewise-stationary multi-armed bandits, AAAI):
  the first M samples give a mean m; then ``g = max(0, g + x - m - e)`` and its mirror; alarm when either is >= h.
* Page-Hinkley: the same from the first sample on, with the running mean (of x too) in place of m.
* Two windows (Cao, Wen, Kveton & Xie 2019, Nearly optimal adaptive procedure with change detection for
  piecewise-stationary bandit, AISTATS): alarm when the sums of the last w/2 and of the w/2 before differ by > h.
"""

import math

import numpy as np

from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.state import NOT_NEGATIVE, Floats

NOTHING, GLR, CUSUM, PAGE_HINKLEY, TWO_WINDOWS = range(5)
HULL = 192  # points for which a hull has room: random feedback needs about 20 in 10^6 observations

# Places in the parameters: of CUSUM all three, of Page-Hinkley the first two, of two windows the second
DRIFT, THRESHOLD, SAMPLES = range(3)

# Places in the head of a box; the room (points of a hull, or observations in the ring) survives a restart
ROOM, COUNT, TOTAL = range(3)
LOWER, UPPER, BUDGET, COST_OF_ONE, COST_OF_ZERO, DELTA = range(3, 9)  # GLR
RISE, FALL = range(3, 5)  # CUSUM and Page-Hinkley
RECENT, OLDER, SLOT = range(3, 6)  # two windows
HEAD = 10

MARGIN = 1e-6  # looks are taken a little early, which hides the rounding of bounds
TINY = 1e-200  # a count this small is none
HUGE = 1e300  # the cost of what the past excludes


def box_size(kind: int, parameter: int = HULL) -> int:
    """Return the length of one arm's box; the parameter is the points of a hull for GLR, w for two windows."""
    if kind == NOTHING:
        return 0
    if kind == GLR:
        return HEAD + 4 * max(parameter, 8)
    if kind == TWO_WINDOWS:
        return HEAD + 2 * (max(parameter, 2) // 2)
    return HEAD


def configure(kind: int, box: Floats, parameter: int = HULL) -> None:
    """Prepare a fresh box of ``box_size(kind, parameter)``; a hull has room for 8 points at least, and w is even."""
    box[:] = 0.0
    if kind == GLR:
        box[ROOM] = max(parameter, 8)
    if kind == TWO_WINDOWS:
        box[ROOM] = 2 * (max(parameter, 2) // 2)
    restart(kind, box)


def is_sound(kind: int, box: Floats) -> bool:
    """Tell whether a box from elsewhere, of the right room, can be trusted: some of its numbers are used as places."""
    if kind == NOTHING:
        return True
    counts_and_sums = bool(0.0 <= box[TOTAL] <= box[COUNT] < 1 << 53)
    if kind == GLR:
        places, lowest, highest = box[[LOWER, UPPER]], 1.0, box[ROOM]
    elif kind == TWO_WINDOWS:
        places, lowest, highest = box[[SLOT]], 0.0, box[ROOM] - 1.0
    else:
        places, lowest, highest = box[[COUNT]], 0.0, math.inf
    in_place = np.all((places >= lowest) & (places <= highest) & (places == np.floor(places)))
    return bool(counts_and_sums and in_place and not np.any(np.isnan(box)))


@compiled
def restart(kind: int, box: Floats) -> None:
    """Forget every observation."""
    if kind == NOTHING:
        return
    box[ROOM + 1 : HEAD] = 0.0
    if kind == GLR:
        box[LOWER] = 1.0  # both stacks begin with the origin, which is never popped
        box[UPPER] = 1.0
    if kind == TWO_WINDOWS:
        box[HEAD:] = 0.0


@compiled
def observe(kind: int, box: Floats, feedback: float, delta: float, parameters: Floats) -> bool:
    """Take in one observation, and tell whether a change is detected; delta, in (0, 1], is the level of GLR alone."""
    if kind == GLR:
        return _observe_glr(box, feedback, delta)
    if kind == CUSUM:
        return _observe_cusum(box, feedback, parameters)
    if kind == PAGE_HINKLEY:
        return _observe_page_hinkley(box, feedback, parameters)
    if kind == TWO_WINDOWS:
        return _observe_two_windows(box, feedback, parameters)
    return False


@compiled
def glr_statistic(box: Floats) -> float:
    """Return max_s G_n(s)."""
    return _highest(box, 0.0)


@compiled
def _drop(points: Floats, size: int, n: float) -> int:
    """Drop the vertex that stands out least over its neighbours, in standard deviations; return how many stay."""
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
def _push(points: Floats, size: int, room: int, side: float, n: float, total: float) -> int:
    """Put a point on a stack of vertices, of the lower (side 1) or the upper (-1) hull; return the stack's new size."""
    while size >= 2:
        top = 2 * size & NOT_NEGATIVE
        before_n = points[top - 4]
        before_total = points[top - 3]
        turn = (points[top - 1] - before_total) * (n - before_n) - (total - before_total) * (points[top - 2] - before_n)
        if side * turn < 0.0:
            break
        size -= 1  # on the line or inside
    if size == room:
        size = _drop(points, size, n)
    top = 2 * size & NOT_NEGATIVE
    points[top] = n
    points[top + 1] = total
    return size + 1


@inlined
def _observe_glr(box: Floats, feedback: float, delta: float) -> bool:
    """Add a point to both hulls, and look at them if the statistic can have passed the threshold."""
    n = box[COUNT] + 1.0
    total = box[TOTAL] + feedback
    room = int(box[ROOM])
    middle = HEAD + 2 * room
    box[COUNT] = n
    box[TOTAL] = total
    box[LOWER] = _push(box[HEAD:middle], int(box[LOWER]), room, 1.0, n, total)
    box[UPPER] = _push(box[middle:], int(box[UPPER]), room, -1.0, n, total)
    budget = box[BUDGET] - feedback * box[COST_OF_ONE] - (1.0 - feedback) * box[COST_OF_ZERO]
    box[BUDGET] = budget
    if budget > MARGIN and delta <= box[DELTA]:
        return False
    return _look(box, delta)


@compiled
def _look(box: Floats, delta: float) -> bool:
    """Compare the statistic with the threshold, and budget for the observations before the next look."""
    n = box[COUNT]
    ones = box[TOTAL]
    zeros = n - ones
    threshold = math.log(3.0 * n * math.sqrt(n) / delta)
    highest = _highest(box, 0.5 * threshold)
    box[BUDGET] = threshold - highest
    box[COST_OF_ONE] = math.log(n / ones) if ones > TINY else HUGE
    box[COST_OF_ZERO] = math.log(n / zeros) if zeros > TINY else HUGE
    box[DELTA] = delta
    return highest >= threshold


@compiled
def _highest(box: Floats, cut: float) -> float:
    """Return a bound on max_s G_n(s), which is exact if it is above the cut."""
    room = int(box[ROOM])
    middle = HEAD + 2 * room
    if min(box[TOTAL], box[COUNT] - box[TOTAL]) <= TINY:
        return 0.0  # all observations are equal
    best = _highest_of_hull(box[HEAD:middle], int(box[LOWER]), box[COUNT], box[TOTAL], cut, 0.0)
    return _highest_of_hull(box[middle:], int(box[UPPER]), box[COUNT], box[TOTAL], cut, best)


@compiled
def _highest_of_hull(points: Floats, size: int, n: float, total: float, cut: float, best: float) -> float:
    """Return the highest of best and the vertices between the first, (0, 0), and the last, (n, S_n)."""
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
    """Return G_n(s), where S_s = before: four counts, each against what the common mean lets expect."""
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


@inlined
def _observe_cusum(box: Floats, feedback: float, parameters: Floats) -> bool:
    """Learn a mean from the first samples, then add up the deviations from it."""
    box[COUNT] += 1.0
    if box[COUNT] <= parameters[SAMPLES]:
        box[TOTAL] += feedback
        return False
    return _drift(box, feedback - box[TOTAL] / max(parameters[SAMPLES], 1.0), parameters)


@inlined
def _observe_page_hinkley(box: Floats, feedback: float, parameters: Floats) -> bool:
    """Add up the deviations from the running mean."""
    box[COUNT] += 1.0
    box[TOTAL] += feedback
    return _drift(box, feedback - box[TOTAL] / box[COUNT], parameters)


@inlined
def _drift(box: Floats, deviation: float, parameters: Floats) -> bool:
    """Add a deviation up on both sides, and tell whether either passes the threshold."""
    box[RISE] = max(0.0, box[RISE] + deviation - parameters[DRIFT])
    box[FALL] = max(0.0, box[FALL] - deviation - parameters[DRIFT])
    return max(box[RISE], box[FALL]) >= parameters[THRESHOLD]


@inlined
def _observe_two_windows(box: Floats, feedback: float, parameters: Floats) -> bool:
    """Compare the sums of the two halves of a ring."""
    window = int(box[ROOM])
    half = window // 2
    slot = int(box[SLOT])
    ring = box[HEAD:]
    passing = ring[slot - half if slot >= half else slot + half]  # from the recent half to the older one
    box[RECENT] += feedback - passing
    box[OLDER] += passing - ring[slot]
    ring[slot] = feedback
    box[SLOT] = slot + 1.0
    if slot + 1 == window:  # add up anew: adding and taking away fractions leaves a rounding error behind
        box[SLOT] = 0.0
        box[OLDER] = 0.0
        box[RECENT] = 0.0
        for place in range(half):
            box[OLDER] += ring[place]
            box[RECENT] += ring[half + place]
    box[COUNT] = min(box[COUNT] + 1.0, float(window))
    return box[COUNT] == window and abs(box[RECENT] - box[OLDER]) > parameters[THRESHOLD]
