"""Debiased feedback as gains; nothing of the package is imported."""

from collections.abc import Callable

Gain = Callable[[int, float], float]


def gains(matrices: list[tuple[float, float]]) -> Gain:
    """Debiased feedback over the range that it has over all arms, for arms with randomised responses (p00, p11)."""

    def debiased(arm: int, feedback: float) -> float:
        p00, p11 = matrices[arm]
        return (feedback - (1 - p00)) / (p00 + p11 - 1)

    ends = [debiased(arm, feedback) for arm in range(len(matrices)) for feedback in (0.0, 1.0)]
    return lambda arm, feedback: (debiased(arm, feedback) - min(ends)) / (max(ends) - min(ends))


def width(matrices: list[tuple[float, float]]) -> float:
    """How far debiased feedbacks reach."""
    ends = [(feedback - (1 - p00)) / (p00 + p11 - 1) for p00, p11 in matrices for feedback in (0.0, 1.0)]
    return max(ends) - min(ends)
