"""Helpers for tests of the randomisers: epsilons to try, and statistical tolerances."""

import math
from fractions import Fraction

from hypothesis import strategies as st

from maskedbandits.privacy import as_epsilon

GRID = ["0", "1e-30", "1e-19", "1e-9", "0.001", "0.01", "0.1", "1/3", "0.5", "1", "1.5", "2", "22/7"]
GRID += ["5", "8", "12", "15.999999999", "16"]
epsilons = st.fractions(0, 16) | st.floats(0, 16).map(as_epsilon)
shares = st.fractions(Fraction(1, 1000), Fraction(999, 1000))


def slack(count: int) -> float:
    """Return the deviation of a mean of numbers in [0, 1] that is exceeded once in ten million times."""
    return math.sqrt(math.log(2e7) / (2 * count))
