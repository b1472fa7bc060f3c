"""Confidence sequences for means, valid at any stopping time, and the exploration levels of index policies.

For N feedbacks in [0, 1] with sum S, whose means (given what came before) are all at most m, and any q above m, the
likelihood ratio ``(q/m)^S ((1-q)/(1-m))^(N-S)`` is a supermartingale: each factor is convex in the feedback, so it is
in the mean at most ``x q/m + (1-x) (1-q)/(1-m)`` with x <= m, which is at most 1. So is its average over q uniform in
(m, 1),

    M = B(S+1, N-S+1) P(Q > m) / ((1-m) m^S (1-m)^(N-S)),        Q ~ Beta(S+1, N-S+1),

which therefore passes 1/delta, ever, with a probability of at most delta (Ville's inequality). M is the evidence that
some mean was above m; mirrored (S and N-S, m and 1-m exchanged) it is the evidence that some mean was below.

Feedbacks with weights w, each known before its feedback: for every number l, ``exp(l D - l^2 V / 8)`` with D = sum of
w (x - its mean) and V = sum of w^2 is a supermartingale (Hoeffding's lemma). Its average over l from a normal
distribution of variance 1/r passes 1/delta exactly when

    |D| > sqrt((V/4 + r) log((V/4 + r) / (r delta^2)))

(Robbins 1970, Statistical methods related to the law of the iterated logarithm, Annals of Mathematical Statistics 41).
"""

import math

from scipy import optimize, special

from maskedbandits._numba.jit import compiled


def evidence_above(count: float, total: float, mean: float) -> float:
    """Return log M, the evidence against "no feedback had a mean above this"; minus infinity where it underflows."""
    rest = count - total
    if count <= 0.0 or mean >= 1.0:
        return 0.0
    if mean <= 0.0:
        return math.inf if total > 0.0 else 0.0
    tail = float(special.betaincc(total + 1.0, rest + 1.0, mean))
    if tail <= 0.0:
        return -math.inf
    alone = float(special.betaln(total + 1.0, rest + 1.0)) + math.log(tail) - math.log1p(-mean)
    return alone - total * math.log(mean) - rest * math.log1p(-mean)


def evidence_below(count: float, total: float, mean: float) -> float:
    """Return the evidence against "no feedback had a mean below this"."""
    return evidence_above(count, count - total, 1.0 - mean)


ROOM = 0.75  # r: an average over means as far apart as those of a uniform distribution, whose variance is 1/12


def radius(squares: float, delta: float) -> float:
    """Return a bound on the distance of a weighted sum from its mean, valid at all times with probability 1 - delta."""
    spread = 0.25 * squares + ROOM
    return math.sqrt(spread * (math.log(spread / ROOM) - 2.0 * math.log(delta)))


def interval(count: float, total: float, delta: float) -> tuple[float, float]:
    """Return an interval that contains the mean at all times with probability 1 - delta.

    If means vary, it overlaps the interval from the lowest to the highest of them.
    """
    return 1.0 - _upper(count, count - total, delta / 2.0), _upper(count, total, delta / 2.0)


def _upper(count: float, total: float, delta: float) -> float:
    """Return the mean above which the evidence is too strong that some mean was below."""
    level = -math.log(delta)
    middle = total / count if count > 0.0 else 1.0
    highest = 1.0 - 1e-15

    def excess(mean: float) -> float:
        return evidence_below(count, total, mean) - level

    if middle >= highest or excess(highest) <= 0.0:
        return 1.0
    return float(optimize.brentq(excess, middle, highest, xtol=1e-12))


@compiled
def exploration(x: float, c: float) -> float:
    """Return f(x) = log x + c log(max(1, log x)), for x >= 1."""
    log = math.log(x)
    return log + c * math.log(max(1.0, log))


@compiled
def plus_level(count: float, arms: float, horizon: float) -> float:
    """Return the level of KL-UCB++, which shrinks with the count instead of growing with time."""
    ratio = horizon / (arms * count)
    log = math.log(max(1.0, ratio))
    return math.log(max(1.0, ratio * (1.0 + log * log)))
