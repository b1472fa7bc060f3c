"""Confidence intervals of means over independent runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_half_width(samples: NDArray[Any], level: float = 0.95) -> NDArray[np.float64]:
    """Return half the width of the interval of each column's mean (Student's t); NaN with a single row."""
    from scipy.special import stdtrit

    count = len(samples)
    if count < 2:
        return np.full(samples.shape[1:], math.nan)
    spread = samples.std(axis=0, ddof=1) / math.sqrt(count)
    return np.asarray(stdtrit(count - 1, 0.5 + level / 2.0) * spread, dtype=np.float64)
