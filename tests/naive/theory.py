"""Slow, obvious twins of the bounds in theory.py; imports nothing of ours."""

import math


def divergence(p: float, q: float) -> float:
    total = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a > 0:
            total += math.inf if b == 0 else a * math.log(a / b)
    return total


def exploration(x: float, c: float) -> float:
    return math.log(x) + c * math.log(max(1.0, math.log(x)))


def published_pulls(horizon: int, segments: int, window: int, pairs: list[tuple[float, float]]) -> float:
    """Eq. (BoundNumberOfPlays), for an arm with these feedback means (x, y) where it is suboptimal."""
    f = math.log(window) + 3 * math.log(math.log(window))
    bound = (segments + 4) * window + 4 * math.e * horizon / (window * math.log(window)) + 5
    for x, y in pairs:
        d = divergence(x, y)
        step = 1e-6
        derivative = (divergence(x + step, y) - divergence(x - step, y)) / (2 * step)
        bound += f / d
        bound += math.sqrt(2 * math.pi) * math.sqrt(derivative**2 / d**3) * math.sqrt(f)
        bound += 2 * (derivative / d) ** 2
    return bound


def miss(n: int, c: float) -> float:
    if n == 0:
        return 0.0
    f = exploration(n, c)
    return min(1.0, math.e * max(1, math.ceil(f * math.log(n))) * math.exp(-f))


def furthest_mean(x: float, y: float, budget: float) -> float | None:
    """The r closest to y with d(r, y) >= budget, by bisection; None if not even x is that far from y."""
    if divergence(x, y) < budget:
        return None
    if y in (0.0, 1.0):
        return y
    far, near = x, y
    for _ in range(200):
        middle = (far + near) / 2
        if divergence(middle, y) >= budget:
            far = middle
        else:
            near = middle
    return far


def corrected_pulls(x: float, y: float, length: int, first: bool, window: int, c: float) -> float:
    """Try every number m of pulls in a window, each with its best r; walk over the steps one at a time."""
    clean = length if first else max(0, length - window)
    mixed = 0 if first else min(window, length)
    missed = sum(miss(min(t, window) if first else window, c) for t in range(clean))
    level = exploration(min(window, length), c)
    best = float(clean)
    for m in range(1, window + 1):
        r = furthest_mean(x, y, level / m)
        if r is not None:
            few = sum(min(m, clean - block) for block in range(0, clean, window + 1))
            best = min(best, few + clean * math.exp(-m * divergence(r, x)))
    return min(float(length), mixed + missed + best)


def missed(lengths: list[int], window: int, c: float) -> list[float]:
    """By segment, the chances that the best arm misses, summed over the steps whose window holds no change."""
    first = sum(miss(min(t, window), c) for t in range(lengths[0]))
    return [first, *(max(0, length - window) * miss(window, c) for length in lengths[1:])]


def regret_with_gaps(gaps: list[list[float]], lengths: list[int], slope: float, window: int, c: float) -> float:
    """The corollary for given gaps: those of the suboptimal arms of every segment, none where all arms are best."""
    level = exploration(min(window, sum(lengths)), c)
    total = 0.0
    for i, (row, length, misses) in enumerate(zip(gaps, lengths, missed(lengths, window, c), strict=True)):
        total += max(row, default=0.0) * (misses + (window if i > 0 else 0))
        for gap in row:
            total += 2 * level / (slope**2 * window) * length / gap + gap * 2 * length / window
            total += 2 * level / (slope**2 * gap) + 2 * gap if i == 0 else 0.0
    return total


def regret_with_any_gaps(horizon: int, segments: int, arms: int, slope: float, window: int, c: float) -> float:
    """The corollary for any gaps."""
    level = exploration(min(window, horizon), c)
    total = (segments - 1) * window + (arms - 1) * (2 * horizon / window + 2)
    total += (horizon + window / 2) * math.sqrt(2 * (arms - 1) * level / window) / slope
    return min(horizon, total + missed([horizon], window, c)[0])


def dearest_regret(gaps: list[list[float]], lengths: list[int], slope: float, window: int, c: float) -> float:
    """What the theorem lets a policy lose at most, with r in the middle: a step pulls one arm, the dearest first."""
    total = 0.0
    for i, (row, length, misses) in enumerate(zip(gaps, lengths, missed(lengths, window, c), strict=True)):
        clean = length if i == 0 else max(0, length - window)
        total += max(row, default=0.0) * (length - clean + misses)
        level, left = exploration(min(window, length), c), float(clean)
        for gap in sorted(row, reverse=True):
            m = math.ceil(2 * level / (slope * gap) ** 2)
            few = sum(min(m, clean - block) for block in range(0, clean, window + 1))
            pulls = min(left, few + clean * math.exp(-m * (slope * gap) ** 2 / 2))
            total, left = total + gap * pulls, left - pulls
    return total
