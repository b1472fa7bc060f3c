"""SMPyBandits' side of the speed benchmark: sliding-window kl-UCB and GLR-klUCB, for `bench.peers.measure`.

- `sw`: `SWklUCB` in the fastest configuration that pip can install, its divergence compiled by numba. Timed
  after the window has filled. It counts the whole window again for every arm and step.
- `sw-as-installed`: the same as `pip install SMPyBandits` leaves it, the divergence in Python. (The wheel has
  no C version, and it looks for numba's `jit` in a module that numba no longer has.)
- `glr`: the policy of the authors' own experiments (`configuration_nonstationary.py`), Bernoulli GLR with
  deterministic exploration over `klUCB_forGLR`, testing every split at every observation. Timed from the
  start: the cost of a step grows with the observations, so the number of steps belongs to the result.
- `glr-lazy`: the same with the library's defaults, every tenth split at every tenth observation of an arm.
"""

import contextlib
import io
import math
import sys
import types
from importlib.metadata import version
from typing import Any

import numpy as np

from . import SMPYBANDITS, arguments, means, measure_seconds, report


def policies(compiled: bool) -> Any:
    """Import `SMPyBandits.Policies`, its `@jit` functions compiled or not."""
    if compiled:
        import numba

        moved = types.ModuleType("numba.decorators")  # where SMPyBandits expects it
        moved.jit = numba.njit  # type: ignore[attr-defined]
        sys.modules[moved.__name__] = moved
    with contextlib.redirect_stdout(io.StringIO()):  # importing it prints advice
        import SMPyBandits.Policies
        import SMPyBandits.Policies.usenumba
    if compiled is not SMPyBandits.Policies.usenumba.USE_NUMBA:
        sys.exit(f"SMPyBandits was to {'use' if compiled else 'do without'} numba, and does not")
    return SMPyBandits.Policies


def play(policy: Any, uniforms: list[float], arm_means: list[float]) -> None:
    """Play one step for every uniform number, which becomes the reward of the arm chosen."""
    for uniform in uniforms:
        arm = policy.choice()
        policy.getReward(arm, 1.0 if uniform < arm_means[arm] else 0.0)


def main() -> None:
    """Measure what the command line names."""
    options = arguments(SMPYBANDITS)
    compiled = options.what != "sw-as-installed"
    divergence = f"divergence compiled by numba {version('numba')}" if compiled else "divergence in Python"
    library = policies(compiled)
    np.random.seed(1)  # noqa: NPY002 - SMPyBandits breaks ties with the global generator
    K, n = options.arms, options.steps
    arm_means = means(K)
    rng = np.random.default_rng(1)

    if options.what.startswith("sw"):
        policy = library.SWklUCB(K, tau=options.window)
        policy.startGame()
        play(policy, rng.random(options.window).tolist(), arm_means)  # fills the window, and compiles
        how = f"SWklUCB, choice() + getReward(), window full, {divergence}"
    else:

        def start() -> Any:
            every = 10 if options.what == "glr-lazy" else 1
            policy = library.BernoulliGLR_IndexPolicy_WithDeterministicExploration(
                K,
                policy=library.klUCB_forGLR,
                kl=library.kullback.klBern,
                # As the library tunes alpha0 for one segment; left alone it is 1 and explores all the time.
                delta=1 / math.sqrt(n),
                alpha0=0.1 * math.sqrt(K * math.log(n) / n),
                lazy_detect_change_only_x_steps=every,
                lazy_try_value_s_only_x_steps=every,
            )
            policy.startGame()
            return policy

        play(start(), rng.random(20 * K).tolist(), arm_means)  # compiles
        policy = start()
        tests = "every 10th" if options.what == "glr-lazy" else "every"
        name = f"{type(policy).__name__} of klUCB_forGLR"
        how = f"{name}, first {n} steps, test at {tests} split and observation, {divergence}"

    uniforms = rng.random(n).tolist()
    seconds = measure_seconds(lambda: play(policy, uniforms, arm_means))
    report(options, seconds, version("SMPyBandits"), how)


if __name__ == "__main__":
    main()
