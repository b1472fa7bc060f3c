"""A slow, obvious reference for confidence.py: likelihood ratios averaged by quadrature; imports nothing of ours."""

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


def evidence_of_stray(stray: float, squares: float, room: float) -> float:
    """The logarithm of the average of exp(l D - l^2 V / 8) over l from a normal distribution of variance 1 / room."""
    with mpmath.workdps(30):

        def ratio(place: mpmath.mpf) -> mpmath.mpf:
            density = mpmath.sqrt(room / (2 * mpmath.pi)) * mpmath.exp(-room * place**2 / 2)
            return density * mpmath.exp(place * stray - place**2 * squares / 8)

        peak, width = stray / (squares / 4 + room), 1 / mpmath.sqrt(squares / 4 + room)
        return float(mpmath.log(mpmath.quad(ratio, [peak + step * width for step in (-40, -10, -3, 0, 3, 10, 40)])))
