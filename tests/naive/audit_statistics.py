"""Slow, obvious twin of the bounds of an audit; imports nothing of ours."""

import mpmath


def binomial_tail(hits: int, trials: int, share: float) -> float:
    """The probability of so many hits or more."""
    with mpmath.workdps(60):
        q = mpmath.mpf(share)
        terms = (mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(hits, trials + 1))
        return float(mpmath.fsum(terms))


def lowest_share(hits: int, trials: int, level: float) -> float:
    """Clopper and Pearson's lower bound: the share at which so many hits or more have just this probability."""
    if hits == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(hits, trials, middle) < level:
            low = middle
        else:
            high = middle
    return low
