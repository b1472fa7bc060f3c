"""What the planner measures, again: slow and obvious."""

import math
import statistics

from scipy import stats


def interval(samples: list[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, by Student's t."""
    half = stats.t.ppf(0.975, len(samples) - 1) * statistics.stdev(samples) / math.sqrt(len(samples))
    return statistics.mean(samples) - half, statistics.mean(samples) + half


def may_be(ratio: float, parts: list[float], wholes: list[float]) -> bool:
    """Whether a ratio of two means is not refuted: what is left after it may be 0."""
    low, high = interval([part - ratio * whole for part, whole in zip(parts, wholes, strict=True)])
    return low <= 0 <= high


def settled_after(right: list[bool], stretch: int) -> float:
    """Person by person: when a stretch ends in which nine of ten were shown the best arm."""
    for start in range(0, len(right) - stretch + 1, stretch):
        if 10 * sum(right[start : start + stretch]) >= 9 * stretch:
            return start + stretch
    return math.inf


def half_within(times: list[float]) -> float:
    """The shortest of the times that at least half of them do not exceed."""
    return min(time for time in times if 2 * sum(other <= time for other in times) >= len(times))


def pays_from(shares: dict[int, float]) -> float | None:
    """The audience from which on at most half is lost, not rounded: halve the bracket until it is small."""
    fine = [audience for audience in shares if all(shares[other] <= 0.5 for other in shares if other >= audience)]
    if not fine:
        return None
    large = min(fine)
    smaller = [audience for audience in shares if audience < large]
    if not smaller:
        return large
    small = max(smaller)
    low, high = 0.0, 1.0  # how far from the smaller to the larger audience, on a log scale
    for _ in range(60):
        middle = (low + high) / 2
        lost = (1 - middle) * shares[small] + middle * shares[large]
        low, high = (middle, high) if lost > 0.5 else (low, middle)
    return math.exp((1 - high) * math.log(small) + high * math.log(large))


def advised(upper_ends: dict[float, float], tolerance: float) -> float | None:
    """The smallest epsilon such that it and all larger ones are within."""
    fine = [
        epsilon
        for epsilon in upper_ends
        if all(upper_ends[other] <= tolerance for other in upper_ends if other >= epsilon)
    ]
    return min(fine, default=None)
