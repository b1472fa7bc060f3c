"""How fast the simulator and the live policies are, as ratios measured in one run on one core.

Times on shared machines wander, so every round measures everything once, one after the other, in seconds of this
process; a ratio is formed within a round, and the median over the rounds is printed with its range.

    make bench                       # or: python -m bench.speed [--rounds N] [--json] [--no-peers]
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from bench import cold, peers
from bench.goals import GOALS, Goal
from maskedbandits import Problem, RandomizedResponse, make_policy, theory
from maskedbandits._numba.state import Layout
from maskedbandits.math import rng
from maskedbandits.policies import detectors, kernels
from maskedbandits.policies.detectors import glr
from maskedbandits.policies.kernels import Tally, World
from maskedbandits.simulation.runs import MAX_MEMO_ENTRIES

HORIZON = 2_000_000
WINDOW = theory.paper_window(HORIZON, 1)
PEERS_PROBLEM = math.inf  # the other libraries know no privacy: compare on rewards that are not masked

Rates = dict[str, float]  # seconds per step, by what was measured


def timed(action: Callable[[], object]) -> float:
    """Return the seconds of this process that an action takes."""
    started = time.process_time()
    action()
    return time.process_time() - started


def simulated(
    arms: int,
    window: int | None,
    steps: int,
    ramp: int = 0,
    epsilon: float = PEERS_PROBLEM,
    name: str = "sw-klucb-cf",
    **parameters: Any,
) -> float:
    """Return seconds per step of the simulator, after ``ramp`` steps that are not timed."""
    if window is not None:
        parameters["window"] = window
    response = RandomizedResponse.from_epsilon(epsilon)
    problem = Problem(peers.means(arms), [0], ramp + steps, response)
    policy = make_policy(name, arms=arms, corruption=response, **parameters)
    state = policy.for_simulation(problem.horizon, MAX_MEMO_ENTRIES)
    world = World(*problem.rows(masked=True))
    pulls, wasted, recent, over_time = np.zeros((4, arms), dtype=np.int64)
    tally = Tally(
        np.zeros(3, dtype=np.int64),
        np.zeros(1),
        np.zeros(1),
        pulls,
        wasted,
        recent,
        over_time[None, :],
        np.zeros(2, dtype=np.int64),
    )
    checkpoints = np.array([problem.horizon])
    start, advance = policy.entries.compile_simulator(kernels.advance, world, checkpoints, tally, 0)
    state.rng[:] = rng.seed_words(0)
    start(state)
    advance(state, world, checkpoints, tally, ramp)
    return timed(lambda: advance(state, world, checkpoints, tally, ramp + steps)) / steps


@numba.njit(error_model="numpy")
def _bare_loop(
    words: NDArray[np.uint64],
    means: NDArray[np.float64],
    ring_arms: NDArray[np.int64],
    ring_feedbacks: NDArray[np.float64],
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    values: NDArray[np.float64],
    steps: int,
) -> None:
    """Draw a random number, turn the ring, find the highest value: what no window policy can do without.

    The value of the arm pulled sinks by a random amount, so that all arms are pulled alike and in no order that the
    processor could foresee, as they are by a policy that explores.
    """
    slot = 0
    for _ in range(steps):
        arm = 0
        for other in range(1, values.size):
            if values[other] > values[arm]:
                arm = other
        draw = rng.uniform(words)
        feedback = 1.0 if draw < means[arm] else 0.0
        gone = ring_arms[slot]
        counts[gone] -= 1.0
        sums[gone] -= ring_feedbacks[slot]
        ring_arms[slot] = arm
        ring_feedbacks[slot] = feedback
        counts[arm] += 1.0
        sums[arm] += feedback
        values[arm] -= draw
        slot = slot + 1 if slot + 1 < ring_arms.size else 0


def bare_loop(arms: int, window: int, steps: int) -> float:
    """Return seconds per step of the bare loop."""
    words = rng.seed_words(0)
    arrays = (
        np.array(peers.means(arms)),
        np.zeros(window, dtype=np.int64),
        np.zeros(window),
        np.zeros(arms),
        np.zeros(arms),
        np.random.default_rng(0).random(arms),
    )
    _bare_loop(words, *arrays, window)
    return timed(lambda: _bare_loop(words, *arrays, steps)) / steps


def live(name: str, arms: int, ramp: int, steps: int, **parameters: Any) -> float:
    """Return seconds per pair of choose and observe, called from Python; the same loop as the peer's."""
    response = RandomizedResponse.from_epsilon(PEERS_PROBLEM)
    policy = make_policy(name, arms=arms, corruption=response, **parameters)
    policy.entries.load()
    means = peers.means(arms)
    uniforms = np.random.default_rng(0).random(ramp + steps).tolist()

    def play(draws: list[float]) -> None:
        for draw in draws:
            arm = policy.choose()
            policy.observe(arm, 1.0 if draw < means[arm] else 0.0)

    play(uniforms[:ramp])
    return timed(lambda: play(uniforms[ramp:])) / steps


def ours() -> Rates:
    """Measure what is ours, once."""
    rates = {
        "bare loop": bare_loop(10, WINDOW, HORIZON),
        "sw-klucb-cf": simulated(10, WINDOW, HORIZON),
        "live": live("sw-klucb-cf", 10, WINDOW, 200_000, window=WINDOW),
        "live auto": live("auto", 10, WINDOW, 100_000),
    }
    for end, epsilon in (("", PEERS_PROBLEM), (", eps = 1", 1.0), (", eps = 0.5", 0.5)):
        for name, arms, window in (
            ("window 10^3", 10, 1_000),
            ("window 10^5", 10, 100_000),
            ("10,000 arms", 10_000, 100_000),
        ):
            rates[name + end] = simulated(arms, window, HORIZON // 2, ramp=200_000, epsilon=epsilon)
    return rates | other_policies() | detection()


def other_policies() -> Rates:
    """Measure other points of the axes, once; a window or a discount remembers about as much as the paper's window."""
    gamma = 1 - 1 / WINDOW
    return {
        "glr-klucb-cf": simulated(10, None, 100_000, name="glr-klucb-cf"),
        "sw-ucb-cf": simulated(10, WINDOW, HORIZON // 4, name="sw-ucb-cf"),
        "sw-ts-cf": simulated(10, WINDOW, HORIZON // 8, name="sw-ts-cf"),
        "d-klucb-cf": simulated(10, None, HORIZON // 8, name="d-klucb-cf", gamma=gamma),
        "d-ucb-cf": simulated(10, None, HORIZON // 8, name="d-ucb-cf", gamma=gamma),
        "d-ts-cf": simulated(10, None, HORIZON // 8, name="d-ts-cf", gamma=gamma),
    }


def detection() -> Rates:
    """Measure the exact likelihood-ratio test: an observation of an arm that has a thousand, and a million."""
    bits = (np.random.default_rng(0).random(1_001_000) < 0.5).astype(np.float64)
    rates = {}
    for name, seen, repeats in (("test at n = 10^3", 1_000, 100), ("test at n = 10^6", 1_000_000, 1)):
        seconds = 0.0
        for repeat in range(repeats):
            state = ALONE.build({"arms": 1}, {key: what.default for key, what in ALONE.params.items()})
            types = [numba.typeof(each) for each in (state, bits)]  # type: ignore[no-untyped-call]
            show: Any = _show.compile(tuple(types))  # as a policy calls its code
            _forget(state)
            show(state, bits[:seen])
            seconds += timed(partial(show, state, bits[seen - repeat : seen - repeat + 1_000]))
        rates[name] = seconds / (1_000 * repeats)
    return rates


ALONE = Layout("alone_glr", [glr.Detector], __name__, detector=glr)  # the test of one arm, without a policy
SEEN = 1e4  # steps, of which the root makes the level 0.01


@numba.njit(error_model="numpy")
def _forget(state: Any) -> None:
    detectors.restart(state, 0)


@numba.njit(error_model="numpy")
def _show(state: Any, bits: NDArray[np.float64]) -> None:
    """Show observations to a detector."""
    for bit in bits:
        detectors.detects(state, 0, bit, SEEN)


def theirs() -> Rates:
    """Measure the peers, once; CPU seconds as for ours."""
    plan = [
        (peers.SMPYBANDITS, "sw", 20_000),
        (peers.SMPYBANDITS, "glr", 1_000),
        (peers.SMPYBANDITS, "glr-lazy", 2_000),
        (peers.PYMAB, "sw", 400_000),
        (peers.PYMAB, "live", 100_000),
        (peers.PYMAB, "live-handle", 100_000),
    ]
    return {
        f"{peer.name} {what}": peers.measure(peer, what, steps=steps, window=WINDOW).cpu_seconds_per_step
        for peer, what, steps in plan
    }


def main() -> None:
    """Measure, print, and say which goals are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    options = parser.parse_args()
    starts = cold.starts()
    ours()  # compiled and warm from here on
    rounds: list[Rates] = []
    for number in range(options.rounds):
        if not options.json:
            print(f"round {number + 1} of {options.rounds} ...", file=sys.stderr, flush=True)
        rounds.append({**ours(), **({} if options.no_peers else theirs())})
    rows = [(goal, [one[goal.slow] / one[goal.fast] for one in rounds]) for goal in GOALS if goal.slow in rounds[0]]
    if options.json:
        goals = [{**asdict(goal), "ratios": ratios} for goal, ratios in rows]
        first = [asdict(start) for start in starts]
        print(json.dumps({"window": WINDOW, "rounds": rounds, "goals": goals, "starts": first}, indent=2))
        return
    _print_rates(rounds)
    _print_goals(rows)
    print_starts(starts)


def _print_rates(rounds: list[Rates]) -> None:
    print(f"\nK = 10, T = {HORIZON:,}, window {WINDOW} (the paper's) unless said otherwise, one core,")
    print("means 0.9 and nine times 0.8, as the other libraries play it: no privacy unless said otherwise")
    print(f"\n{'measured':32} {'ns a step':>12} {'steps a second':>16}")
    for name in rounds[0]:
        seconds = statistics.median(one[name] for one in rounds)
        print(f"{name:32} {seconds * 1e9:12,.1f} {1 / seconds:16,.0f}")


def _print_goals(rows: list[tuple[Goal, list[float]]]) -> None:
    print(f"\n{'ratio (median of the rounds)':48} {'is':>10} {'range':>20} {'goal':>10}")
    for goal, ratios in rows:
        middle = statistics.median(ratios)
        digits = 0 if middle > 100 else 2
        spread = f"{min(ratios):,.{digits}f} to {max(ratios):,.{digits}f}"
        wanted = f"{'>=' if goal.at_least else '<='} {goal.bound:g}"
        verdict = "met" if goal.met(middle) else "missed"
        if math.isfinite(middle):
            print(f"{goal.title:48} {middle:10,.{digits}f} {spread:>20} {wanted:>10}  {verdict}")


def print_starts(starts: list[cold.Start]) -> None:
    """Print the CPU time of cold starts beside their goals."""
    print(f"\n{'from nothing compiled':58} {'CPU seconds':>12} {'goal':>8}")
    for start in starts:
        verdict = "met" if start.seconds <= start.goal else "missed"
        print(f"{start.title:58} {start.seconds:12.1f} {f'<= {start.goal:g}':>8}  {verdict}")


if __name__ == "__main__":
    main()
