"""The kernels' formulas for arrays, run by the interpreter: a bound is worked out once, and not worth compiling for."""

from collections.abc import Callable
from typing import Any

import numpy as np

from maskedbandits.math import confidence, kl


def _interpreted(kernel: Callable[..., float]) -> Any:
    return np.vectorize(getattr(kernel, "py_func", kernel), otypes=[np.float64])  # it has none with the compiler off


divergence = _interpreted(kl.divergence)
exploration = _interpreted(confidence.exploration)
