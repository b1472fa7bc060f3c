"""Bounds on the suboptimal pulls and the regret of SW-KLUCB-CF: the paper's as printed, and those that can be proved.

Let arm ``a`` be suboptimal in segment ``i`` of length ``T_i``. On the feedback scale its mean is ``x = g_a(mu_a)``. The
mean that would make it as good as the best arm is ``y = g_a(mu*)``. After ``t`` steps, with a window ``w`` that holds
no change, the policy pulls ``a`` only in one of three cases:

- The best arm's index misses, that is, lies below ``mu*``. With ``n = t ^ w``, this has a probability of at most
  ``miss(n) = e ceil(f(n) log n) exp(-f(n))``.
- Fewer than ``m`` pulls of the arm are in the window. This happens at most ``m`` times in any ``w + 1`` steps.
- At least ``m`` are, and their mean has reached ``r``. This has a probability of at most ``exp(-m d(r, x))``.

This holds for every ``r`` between ``x`` and ``y`` and every ``m`` with ``m d(r, y) >= f(w)``. The bound is the smallest
over these pairs. Every pair is proved, so a search that stops early costs tightness and not validity. For the ``w``
steps after a change the bound counts every step. ``docs/theory.md`` has the proof, and the line at which the published
one fails.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int, check_number
from maskedbandits.math import confidence, kl
from maskedbandits.problems import Log, Problem

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CANDIDATES = 128  # values of r between x and y; ten times as many lower the bound by at most 1 %


def _vectorize(kernel: Callable[..., float]) -> Any:
    """Return the formula of a kernel for arrays; one bound is not worth compiling for, so it is interpreted."""
    return np.vectorize(getattr(kernel, "py_func", kernel), otypes=[np.float64])  # no py_func if compiling is off


divergence = _vectorize(kl.divergence)
exploration = _vectorize(confidence.exploration)


def published_bound(problem: Problem, window: int) -> FloatArray:
    """Return the published bound on the pulls of each arm while suboptimal.

    It has every term of the paper's appendix, and it is *not* a bound: measured pulls exceed it. The sums run over the
    segments in which the arm is suboptimal. For an arm that never is, the function returns 0, although the printed
    terms in w and T remain.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    window : int
        Window w in steps, at least the number of arms.

    Returns
    -------
    ndarray, shape (K,)
        The printed expression for each arm.

    Raises
    ------
    UserError
        If the window is shorter than the number of arms, or the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> published_bound(problem, 5000).round().tolist()
    [30182.0, 30182.0]

    """
    window = _check_window(problem, window)
    pairs = list_suboptimal(problem)
    level = float(exploration(window, 3.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = divergence(pairs.x, pairs.y)
        # d' is the derivative in the first argument (Cappe et al. 2013, Appendix A.2). At y = 0 or 1 it is
        # infinite and so is d: their ratio tends to 1 / |y - x|. At x = 0 or 1 only d' is infinite.
        ratio = np.abs(logit(pairs.x) - logit(pairs.y)) / distance
        ratio = np.where(np.isinf(distance), 1.0 / np.abs(pairs.y - pairs.x), ratio)
        learning = level / distance + np.sqrt(2.0 * math.pi * level / distance) * ratio + 2.0 * ratio**2
    learning[(pairs.x == 0.0) | (pairs.x == 1.0)] = math.inf
    waste = 4.0 * math.e * problem.horizon / (window * math.log(window)) if window > 1 else math.inf
    bound = (problem.segments + 4) * window + waste + 5.0 + _sum_per_arm(problem, pairs, learning)
    return np.where(np.isin(np.arange(problem.arms), pairs.arm), bound, 0.0)


def corrected_bound(problem: Problem, window: int, c: float = 3.0) -> FloatArray:
    """Return a proved bound on the expected pulls of each arm while suboptimal.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    window : int
        Window w in steps, at least the number of arms.
    c : float, default 3.0
        Factor of log log in the exploration function.

    Returns
    -------
    ndarray, shape (K,)
        The bound for each arm.

    Raises
    ------
    UserError
        If the window is shorter than the number of arms, or the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> corrected_bound(problem, 5000).round().tolist()
    [6040.0, 1168.0]

    """
    window, c = _check_window(problem, window), check_number("c", c, 0.0)
    pairs = list_suboptimal(problem)
    mixed, missed = _bound_per_segment(problem, window, c)
    pulls = (mixed + missed)[pairs.segment] + _bound_explored(pairs, window, c)
    return _sum_per_arm(problem, pairs, np.minimum(pulls, pairs.length))


def corrected_regret_bound(problem: Problem, window: int, c: float = 3.0, *, capped: bool = True) -> float:
    """Return a proved bound on the expected regret.

    It is smaller than the sum of gap times ``corrected_bound``. A step pulls one arm, so a step soon after a change, or
    with a miss of the best arm's index, is counted once, at the largest gap.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    window : int
        Window w in steps, at least the number of arms.
    c : float, default 3.0
        Factor of log log in the exploration function.
    capped : bool, default True
        Whether to cap the regret of each segment at its largest gap in every step.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    UserError
        If the window is shorter than the number of arms, or the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> round(corrected_regret_bound(problem, 5000))
    3604

    """
    window, c = _check_window(problem, window), check_number("c", c, 0.0)
    regret = _bound_segment_regret(problem, list_suboptimal(problem), window, c)
    limit = find_largest_gaps(problem) * problem.lengths if capped else math.inf
    return float(np.minimum(regret, limit).sum())


def corrected_window(problem: Problem, c: float = 3.0) -> int:
    """Return the window in [K, T] with the smallest corrected regret bound, not capped.

    It uses the means. For a log it is in rows: the window for the expected number of plays, times the rows for each
    play.

    A capped bound would not do. Where privacy is too strong for any guarantee, all windows tie at the cap. Otherwise
    the smallest capped bound gives up hard segments to gain a little in easy ones. The bound counts whole windows, so
    it is slightly jagged in w: three grids are searched, each within the best cells of the one before.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    c : float, default 3.0
        Factor of log log in the exploration function.

    Returns
    -------
    int
        The window in steps, or in rows of a log.

    Raises
    ------
    UserError
        If the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> corrected_window(problem)
    3125

    """
    check_problem(problem)
    c, rows = check_number("c", c, 0.0), problem.rows_per_play
    problem = problem.as_played()
    pairs = list_suboptimal(problem)
    low, best, high = problem.arms, problem.horizon, problem.horizon
    for _ in range(3 if pairs.arm.size else 0):
        grid = np.unique(np.rint(np.geomspace(low, high, 64)).astype(np.int64))
        regret = [_bound_segment_regret(problem, pairs, int(window), c).sum() for window in grid]
        k = int(np.argmin(regret))
        low, best, high = (int(grid[np.clip(j, 0, grid.size - 1)]) for j in (k - 1, k, k + 1))
    return best * rows


def lower_bound(problem: Problem) -> float:
    """Return the asymptotic lower bound on regret: gap * log(T_i) / d(x, y) over segments and arms.

    No policy that learns in every stationary problem has a smaller leading term in each segment, even if it knows the
    change times. It does not hold for short horizons: measured regret may be below it.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    UserError
        If the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> round(lower_bound(problem), 1)
    27.2

    """
    pairs = list_suboptimal(problem)
    several = pairs.length > 1  # one step teaches nothing: log 1 = 0, also where d(x, y) rounds to 0
    with np.errstate(divide="ignore", invalid="ignore"):
        regret = pairs.gap * np.log(pairs.length) / divergence(pairs.x, pairs.y)
    return float(regret[several].sum())


class Pairs(NamedTuple):
    """The pairs (segment, arm) with the arm suboptimal: a row each, and a column for each candidate r."""

    segment: IntArray
    arm: IntArray
    gap: FloatArray
    length: FloatArray
    x: FloatArray
    y: FloatArray
    away: FloatArray  # d(r, x): how surprising it is that the mean of the arm's feedback reached r
    towards: FloatArray  # d(r, y): how far r still is from y


def check_problem(problem: object) -> None:
    """Refuse anything but a problem."""
    if not isinstance(problem, Problem):
        raise WrongValueError("problem", problem, "a Problem")


def check_provable(problem: Problem) -> None:
    """Refuse problems that the proofs do not cover: logs, and feedback with noise."""
    check_problem(problem)
    if isinstance(problem, Log):
        raise UserError(
            "bounds are proved for problems whose steps are all played, not for a log: use problem.as_played(), whose "
            "steps are the expected plays"
        )
    if problem.is_noisy:
        raise UserError("bounds require feedback in [0, 1]: give a problem with a RandomizedResponse")


def list_suboptimal(problem: Problem) -> Pairs:
    """Return the pairs of segments and suboptimal arms of a problem."""
    check_provable(problem)
    if problem.liars > 0.0:
        raise UserError(f"liars = {problem.liars:g}: bounds require honest reports; give a problem without liars")
    gaps = problem.gaps
    segment, arm = np.nonzero(gaps > 0.0)
    best = problem.best[segment]
    level = [problem.corruption[a](mean) for a, mean in zip(arm, best, strict=True)]
    x, y = np.clip([problem.feedback_means[segment, arm], level], 0.0, 1.0)  # rounding may lead just outside
    r = x[:, None] + (y - x)[:, None] * np.linspace(0.0, 1.0, CANDIDATES + 1)[1:]
    r[:, -1] = y
    towards = divergence(r, y[:, None])
    # From y = 0 or 1 every other mean is infinitely far: r = y itself takes one pull, not infinitely many.
    towards[(y == 0.0) | (y == 1.0), -1] = math.inf
    length = problem.lengths[segment].astype(np.float64)
    return Pairs(segment, arm, gaps[segment, arm], length, x, y, divergence(r, x[:, None]), towards)


def _bound_explored(pairs: Pairs, window: int, c: float) -> FloatArray:
    """Bound each pair's pulls on steps with no change in the window and no miss of the best arm's index."""
    span = np.minimum(window, pairs.length)
    clean = np.where(pairs.segment == 0, pairs.length, pairs.length - span)[:, None]
    level = exploration(span, c)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.ceil(level / pairs.towards)
        # At a given r one pull more in a block of B steps pays while it saves a step: B (q^m - q^(m+1)) > 1.
        worth = np.ceil(np.log(np.minimum(window + 1, clean) * -np.expm1(-pairs.away)) / pairs.away)
    # In a segment of one step both may be 0 / 0: nothing is needed, and fmax passes over NaN.
    m = np.minimum(np.fmax(1.0, np.fmax(needed, worth)), window + 1.0)
    unlucky = np.where(m <= window, clean * np.exp(-m * pairs.away), 0.0)  # no window holds w + 1 pulls
    blocks, rest = np.divmod(clean, window + 1.0)
    pulls: FloatArray = (blocks * m + np.minimum(rest, m) + unlucky).min(axis=1)
    return np.minimum(pulls, clean[:, 0])


def _bound_per_segment(problem: Problem, window: int, c: float) -> tuple[FloatArray, FloatArray]:
    """Return, per segment, the steps with a mixed window, and the later ones with a miss."""
    mixed = np.minimum(window, problem.lengths).astype(np.float64)
    mixed[0] = 0.0  # before the first change there is nothing to mix
    missed = np.maximum(problem.lengths - window, 0) * _bound_miss(window, window, c)
    missed[0] = bound_misses_from_start(problem.horizon, int(problem.lengths[0]), window, c)
    return mixed, missed


def bound_misses_from_start(horizon: int, steps: int, window: int, c: float) -> float:
    """Bound the misses of the best arm's index in the first steps of a problem, before any change."""
    edges, total = sum_misses(horizon, c)
    growing = float(total[np.searchsorted(edges, min(window, steps))])
    return growing + max(steps - window, 0) * float(_bound_miss(window, window, c))


def _bound_miss(first: ArrayLike, last: ArrayLike, c: float) -> FloatArray:
    """Bound the probability that the best arm's index misses after t steps, first <= t <= last.

    This is Lemma 2 of Cappe et al. (2013). The number of slices in its proof is at least 1, also at t = 1, where the
    printed expression is 0.
    """
    slices = np.maximum(1.0, np.ceil(exploration(last, c) * np.log(last)))
    return np.asarray(np.minimum(1.0, math.e * slices * np.exp(-exploration(first, c))))


@lru_cache(maxsize=8)
def sum_misses(horizon: int, c: float) -> tuple[IntArray, FloatArray]:
    """Return edges and, for each edge n, the sum of miss(t) over 1 <= t < n.

    Neighbouring edges are integers at first. Later each step between two edges counts as the worst of them. This adds
    less than 1 %, and a long horizon costs no more time than a short one.
    """
    edges = np.unique(np.rint(np.geomspace(1, horizon + 1, 8192)).astype(np.int64))
    steps = np.diff(edges) * _bound_miss(edges[:-1], edges[1:] - 1, c)
    return edges, np.concatenate([[0.0], np.cumsum(steps)])


def _bound_segment_regret(problem: Problem, pairs: Pairs, window: int, c: float) -> FloatArray:
    """Bound the regret of each segment."""
    mixed, missed = _bound_per_segment(problem, window, c)
    explored = np.bincount(pairs.segment, pairs.gap * _bound_explored(pairs, window, c), problem.segments)
    regret: FloatArray = find_largest_gaps(problem) * (mixed + missed) + explored
    return regret


def find_largest_gaps(problem: Problem) -> FloatArray:
    """Return the largest cost of a step in each segment."""
    return np.asarray(problem.gaps.max(axis=1))


def _sum_per_arm(problem: Problem, pairs: Pairs, value: FloatArray) -> FloatArray:
    """Sum values of pairs by arm."""
    total: FloatArray = np.bincount(pairs.arm, weights=value, minlength=problem.arms).astype(np.float64)
    return total


def _check_window(problem: Problem, window: int) -> int:
    """Check and return a window, and the problem before."""
    check_problem(problem)
    window = check_int("window", window, 1, LARGEST)
    if window < problem.arms:
        raise UserError(f"window = {window} is smaller than the number of arms: give at least {problem.arms}")
    return window
