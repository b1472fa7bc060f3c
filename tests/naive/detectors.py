"""Slow, obvious change detectors, straight from their papers; nothing of the package is imported.

Each takes a whole stream and looks at its end alone; ``first_alarm`` runs one over the beginnings of a stream.
"""

import itertools
import math
from collections.abc import Callable, Sequence

Stream = Sequence[float]


def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence between Bernoulli distributions, p a mean of some of what q is the mean of."""
    p = min(max(p, 0.0), 1.0)  # a difference of sums may be rounded out of [0, 1]
    left = p * math.log(p / q) if p > 0 else 0.0
    right = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return left + right


def glr_statistic(stream: Stream) -> float:
    """max over every split s of s d(mean before, mean) + (n - s) d(mean after, mean)."""
    n, sums = len(stream), list(itertools.accumulate(stream))
    mean = sums[-1] / n
    if not 0 < mean < 1:
        return 0.0
    return max(
        (
            s * divergence(sums[s - 1] / s, mean) + (n - s) * divergence((sums[-1] - sums[s - 1]) / (n - s), mean)
            for s in range(1, n)
        ),
        default=0.0,
    )


def glr_threshold(n: int, delta: float) -> float:
    """log(3 n^1.5 / delta)."""
    return math.log(3 * n**1.5 / delta)


def glr(stream: Stream, delta: float) -> bool:
    """Besson et al. 2022."""
    return glr_statistic(stream) >= glr_threshold(len(stream), delta)


def cusum(stream: Stream, drift: float, threshold: float, samples: int) -> bool:
    """Liu et al. 2018, Algorithm 2: the largest sum of deviations up to now, over every beginning."""
    mean = sum(stream[:samples]) / samples
    return _largest_tail([x - mean - drift for x in stream[samples:]]) >= threshold or (
        _largest_tail([mean - x - drift for x in stream[samples:]]) >= threshold
    )


def page_hinkley(stream: Stream, drift: float, threshold: float) -> bool:
    """m_n - min m_k for m_n = sum of (x - mean until then - drift), and its mirror."""
    means = [sum(stream[:n]) / n for n in range(1, len(stream) + 1)]
    pairs = list(zip(stream, means, strict=True))
    rise = [0.0, *itertools.accumulate(x - mean - drift for x, mean in pairs)]
    fall = [0.0, *itertools.accumulate(mean - x - drift for x, mean in pairs)]
    return max(rise[-1] - min(rise), fall[-1] - min(fall)) >= threshold


def two_windows(stream: Stream, window: int, threshold: float) -> bool:
    """Cao et al. 2019, Algorithm 1."""
    half = window // 2
    return len(stream) >= window and abs(sum(stream[-half:]) - sum(stream[-window:-half])) > threshold


def _largest_tail(deviations: Stream) -> float:
    return max((sum(deviations[k:]) for k in range(len(deviations))), default=0.0)


def first_alarm(stream: Stream, detects: Callable[[Stream], bool]) -> int:
    """How many observations until the first alarm; 0 if there is none."""
    return next((n for n in range(1, len(stream) + 1) if detects(stream[:n])), 0)
