"""How tests try kernels: how many examples, with the compiler or without, and with numpy's own lots beside ours."""

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from hypothesis import settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def examples(count: int) -> settings:
    """So many examples, or few if few are asked for: with the compiler off."""
    return settings(max_examples=min(count, 5) if os.environ.get("HYPOTHESIS_PROFILE") == "few" else count)


def generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """Return numpy's own generator of the kind that policies have: from the same seed both draw the same."""
    return np.random.Generator(np.random.SFC64(seed))


def outside(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a way to call, as machine code, a kernel that compiled code alone can call."""
    return numba.njit(lambda *arguments: kernel(*arguments), error_model="numpy")  # type: ignore[no-any-return]
