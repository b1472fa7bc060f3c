"""Pymab's side of the speed benchmark: sliding-window UCB, simulated and live, for `bench.peers.measure`.

- `sw`: one replicate in its Rust core: what `Experiment.run` with `backend="rust"` calls to do the whole loop
  of environment, policy and records, without the checks and copies in Python that follow (these take longer
  than the loop). Timed from the start: take many times the window. The core recounts the window every step.
- `live`: pairs of the documented `select_action(rng=...)` and `update(action=..., reward=...)` from Python.
  The window is full, the policy's state is in Rust.
- `live-handle`: the same pairs on the private Rust object behind the policy, the quickest that Python can do.
"""

import json
from typing import Any

import numpy as np
import pymab
from pymab import _native
from pymab._backend import run_native_experiment
from pymab.policies import SlidingWindowUCBPolicy

from . import PYMAB, arguments, means, measure_seconds, report


def simulate(policy: Any, arm_means: list[float], steps: int) -> Any:
    """Run one replicate in the Rust core."""
    environment = pymab.BanditEnvironment(means=np.array(arm_means), reward_model=pymab.BernoulliReward())
    return run_native_experiment(
        environment=environment,
        policies={"sw": policy},
        horizon=steps,
        n_replicates=1,
        seed=1,
        reward_coupling="independent",
        record_contexts=False,
    )


def play(policy: Any, uniforms: list[float], arm_means: list[float]) -> None:
    """Play one step for every uniform number, which becomes the reward of the arm chosen."""
    select, update, rng = policy.select_action, policy.update, np.random.default_rng(1)
    for uniform in uniforms:
        arm = select(rng=rng)
        update(action=arm, reward=1.0 if uniform < arm_means[arm] else 0.0)


def play_handle(handle: Any, uniforms: list[float], arm_means: list[float]) -> None:
    """Do as `play` on the Rust object, which takes a seed instead of a generator."""
    select, update = handle.select_action, handle.update
    for seed, uniform in enumerate(uniforms):
        arm = select(seed)
        update(arm, 1.0 if uniform < arm_means[arm] else 0.0)


def main() -> None:
    """Measure what the command line names."""
    options = arguments(PYMAB)
    arm_means = means(options.arms)
    policy = SlidingWindowUCBPolicy(n_arms=options.arms, window_size=options.window)
    core = f"Rust core {_native.core_version()}"
    if not _native.native_available():
        raise SystemExit("pymab was installed without its Rust core")

    if options.what == "sw":
        simulate(policy, arm_means, 1000)
        seconds = measure_seconds(lambda: simulate(policy, arm_means, options.steps))
        how = f"SlidingWindowUCBPolicy in the {core}: the native call of Experiment.run"
    else:
        live = options.what == "live"
        player, target = (play, policy) if live else (play_handle, policy._native_handle)
        rng = np.random.default_rng(1)
        player(target, rng.random(options.window).tolist(), arm_means)  # fills the window
        uniforms = rng.random(options.steps).tolist()
        seconds = measure_seconds(lambda: player(target, uniforms, arm_means))
        played = json.loads(policy._native_handle.state_json())["step"]
        if played != options.window + options.steps:
            raise SystemExit(f"pymab's Rust core saw {played} steps of {options.window + options.steps}")
        calls = "select_action + update" if live else "the private handle's select_action + update"
        how = f"SlidingWindowUCBPolicy, {calls}, state in the {core}"
    report(options, seconds, pymab.__version__, how)


if __name__ == "__main__":
    main()
