"""Settings for tests of kernels: number of examples, compiler, and generators of numpy."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from hypothesis import settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def examples(count: int) -> settings:
    """Return settings with a number of examples, of which a quicker profile tries a part, but at least five."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "quick")
    if profile == "full":
        return settings(max_examples=count)
    most = settings.get_profile(profile).max_examples
    return settings(max_examples=min(count, most, max(5, count * most // 100)))


def generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """Return a generator of numpy that draws the same numbers as the one of policies."""
    return np.random.Generator(np.random.SFC64(seed))


def outside(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled wrapper of a kernel that only compiled code can call."""
    return numba.njit(lambda *arguments: kernel(*arguments), error_model="numpy")  # type: ignore[no-any-return]
