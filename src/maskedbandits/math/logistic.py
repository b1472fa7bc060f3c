"""The logistic function, alone and after randomised response: ``(1 - p00) sigma(-z) + p11 sigma(z)``."""

import math

from maskedbandits._numba.jit import inlined

FAR = 30.0  # beyond it a reward has a probability of 1 - 1e-13, and the slope would vanish


@inlined
def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z)), to the last digits also where it is tiny."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    raised = math.exp(z)
    return raised / (1.0 + raised)


@inlined
def masked_sigmoid(z: float, p00: float, p11: float) -> tuple[float, float, float]:
    """Return the probabilities of a one and of a zero after the mask, and the slope of the first in z."""
    near = min(max(z, -FAR), FAR)
    up, down = sigmoid(near), sigmoid(-near)
    one = (1.0 - p00) * down + p11 * up
    zero = p00 * down + (1.0 - p11) * up
    return one, zero, (p00 + p11 - 1.0) * up * down
