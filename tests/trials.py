"""Settings for tests of kernels: number of examples, compiler, and generators of numpy."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from hypothesis import settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def examples(count: int) -> settings:
    """Return settings with so many examples, or few in the profile for interpreted kernels."""
    return settings(max_examples=min(count, 5) if os.environ.get("HYPOTHESIS_PROFILE") == "few" else count)


def generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """Return a generator of numpy that draws the same numbers as the one of policies."""
    return np.random.Generator(np.random.SFC64(seed))


def outside(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled wrapper of a kernel that only compiled code can call."""
    return numba.njit(lambda *arguments: kernel(*arguments), error_model="numpy")  # type: ignore[no-any-return]
