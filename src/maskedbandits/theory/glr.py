"""A bound on the regret of GLR-KLUCB-CF, and on the delay of its alarms.

It follows Besson, Kaufmann, Maillard and Seznec (2022) for this package's policy, with its threshold, its schedule of
forced exploration, and any corruption. It holds for ``glr-klucb-cf`` with ``follow_up=0`` and all other parameters as
given here. The proof is in ``docs/theory.md``.
"""

import math

import numpy as np

from maskedbandits.errors import UserError, check_number
from maskedbandits.problems import Problem
from maskedbandits.theory.bounds import FloatArray, check_provable, find_largest_gaps, list_suboptimal, sum_misses
from maskedbandits.theory.bounds import exploration as level_after


def glr_delays(problem: Problem, *, delta: float, exploration: float = 0.3, prior_changes: float = 0.01) -> FloatArray:
    """Return the largest delay of the alarm after each change, except with probability delta / T.

    The test needs 4 log(3 T^2 / delta) / c^2 pulls of an arm whose mean feedback changes by c, both before and after
    the change. With randomised response of slope s, c is s times the change of the mean. An arm is pulled at least once
    in 2 K (1 / rate + 1) steps, at the smallest possible rate of forced exploration.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    delta : float
        Parameter of the policy: the probability of a false alarm.
    exploration : float, default 0.3
        Parameter of the policy: the amount of forced exploration.
    prior_changes : float, default 0.01
        Parameter of the policy: the number of changes expected before any is seen.

    Returns
    -------
    ndarray, shape (L - 1,)
        Delay in steps for each change; infinite without forced exploration.

    Raises
    ------
    UserError
        If a parameter is out of range, or the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 50_000], 100_000, RandomizedResponse(0.9, 0.9))
    >>> glr_delays(problem, delta=0.1).shape
    (1,)

    """
    check_provable(problem)
    with np.errstate(divide="ignore"):
        pulls = 4.0 * _compute_threshold(problem, delta) / _measure_changes(problem) ** 2
    rate = min(0.5, _check_effort("exploration", exploration) * math.sqrt(_compute_share(problem, prior_changes)))
    every = 2.0 * problem.arms * (1.0 / rate + 1.0) if rate > 0.0 else math.inf
    return np.ceil(pulls) * every


def glr_regret_bound(
    problem: Problem, *, delta: float, exploration: float = 0.3, prior_changes: float = 0.01, c: float = 3.0
) -> float:
    """Return a bound on the mean regret, for segments long enough for the delays at both ends.

    Parameters
    ----------
    problem : Problem
        The problem, with feedback in [0, 1] and without liars.
    delta : float
        Parameter of the policy: the probability of a false alarm.
    exploration : float, default 0.3
        Parameter of the policy: the amount of forced exploration.
    prior_changes : float, default 0.01
        Parameter of the policy: the number of changes expected before any is seen.
    c : float, default 3.0
        Factor of log log in the exploration function.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    UserError
        If a segment is too short for the proof, or the proof does not cover the problem.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([0.9, 0.4], [0], 100_000, RandomizedResponse(0.9, 0.9))
    >>> glr_regret_bound(problem, delta=1e-5) < 100_000 * 0.5
    True

    """
    delays = glr_delays(problem, delta=delta, exploration=exploration, prior_changes=prior_changes)
    _check_lengths(problem, np.concatenate([[0.0], delays]) + np.concatenate([delays, [0.0]]))
    changes = problem.segments - 1
    dearest = find_largest_gaps(problem)
    false = problem.arms * problem.segments * _bound_false_alarm(problem.horizon, delta)
    wrong = min(1.0, false + changes * delta / problem.horizon) * float(problem.lengths @ dearest)
    looks = float(dearest.max()) * _bound_looks(problem, exploration, prior_changes)
    return float(dearest[1:] @ delays) + looks + wrong + _bound_between_alarms(problem, c)


def _bound_looks(problem: Problem, exploration: float, prior_changes: float) -> float:
    """Bound the number of forced pulls, with one alarm for each change."""
    changes = problem.segments - 1
    planned = 4.3 * exploration * math.sqrt(problem.arms * (changes + prior_changes) * problem.horizon)
    return planned + math.log2(problem.horizon) + problem.segments + 1.0


def _bound_between_alarms(problem: Problem, c: float) -> float:
    """Bound the regret of index play in segments that begin with a restart."""
    pairs = list_suboptimal(problem)
    level = level_after(pairs.length, check_number("c", c, 0.0))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        few = np.maximum(1.0, np.ceil(level / pairs.towards))
        unlucky = np.exp(-few * pairs.away) / -np.expm1(-pairs.away)
    pulls = np.minimum(np.nanmin(few + unlucky, axis=1, initial=math.inf), pairs.length)
    edges, total = sum_misses(problem.horizon, c)
    missed = total[np.searchsorted(edges, problem.lengths + 1)]
    return float(pairs.gap @ pulls) + float(find_largest_gaps(problem) @ np.minimum(missed, problem.lengths))


def _measure_changes(problem: Problem) -> FloatArray:
    """Return the largest move of a feedback mean at each change."""
    return np.asarray(np.abs(np.diff(problem.feedback_means, axis=0)).max(axis=1))


def _compute_threshold(problem: Problem, delta: float) -> float:
    """Return the largest threshold of the test."""
    return math.log(3.0 * problem.horizon**2 / check_number("delta", delta, 1e-300, 1.0))


def _compute_share(problem: Problem, prior_changes: float) -> float:
    """Return the smallest rate of changes that the policy assumes, times the number of arms."""
    return problem.arms * _check_effort("prior_changes", prior_changes) / problem.horizon


def _check_effort(name: str, value: float) -> float:
    """Check and return a parameter that must not be negative."""
    return check_number(name, value, 0.0)


def _bound_false_alarm(horizon: int, delta: float) -> float:
    """Bound the probability that the test of an arm that does not change ever passes.

    This is the sum of 2 (n-1) (1 + 2 b) exp(-b), b = log(3 n^2 / delta), over the numbers n of pulls. The terms
    decrease from n = 2 on, so all terms between two edges count as the first.
    """
    edges = np.unique(np.rint(np.geomspace(2, horizon + 1, 8192)))
    n = edges[:-1]
    threshold = np.log(3.0 * n * n / delta)
    return float(np.sum(np.diff(edges) * 2.0 * (n - 1.0) * (1.0 + 2.0 * threshold) * np.exp(-threshold)))


def _check_lengths(problem: Problem, needed: FloatArray) -> None:
    """Refuse segments that are too short for the proof."""
    short = np.flatnonzero(problem.lengths < needed)
    if short.size:
        raise UserError(
            f"segment {short[0] + 1} has {problem.lengths[short[0]]:,} steps, too few for the proof: it needs "
            f"{needed[short[0]]:,.0f}; raise exploration or prior_changes, or the horizon"
        )
