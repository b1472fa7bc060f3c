"""A slow, obvious reference for evidence.py: likelihood ratios averaged by quadrature; imports nothing of ours."""

import mpmath


def evidence_above(count: float, total: float, mean: float) -> float:
    """The logarithm of the average over q in (mean, 1) of the likelihood of q over that of the mean."""
    with mpmath.workdps(30):
        m, rest = mpmath.mpf(mean), mpmath.mpf(count) - mpmath.mpf(total)

        def ratio(q: mpmath.mpf) -> mpmath.mpf:
            return (q / m) ** total * ((1 - q) / (1 - m)) ** rest

        peak = min(max(total / count, mean), 1.0)
        points = sorted({mean, 1.0, *(min(1.0, max(mean, peak + step)) for step in (-0.05, 0.0, 0.05))})
        return float(mpmath.log(mpmath.quad(ratio, points) / (1 - m)))
