"""Settings for tests of kernels: number of examples, compiler, and generators of numpy."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from hypothesis import settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def examples(count: int) -> settings:
    """Return settings with a number of examples, or with that of a quicker profile."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "quick")
    return settings(max_examples=count if profile == "full" else min(count, settings.get_profile(profile).max_examples))


def generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """Return a generator of numpy that draws the same numbers as the one of policies."""
    return np.random.Generator(np.random.SFC64(seed))


def outside(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled wrapper of a kernel that only compiled code can call."""
    return numba.njit(lambda *arguments: kernel(*arguments), error_model="numpy")  # type: ignore[no-any-return]
