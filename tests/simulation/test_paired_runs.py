"""Paired policies and traces: the same reports for the same arm and step, and the pulls of each run over time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import maskedbandits as mb
from maskedbandits.errors import UserError
from maskedbandits.math import beta, rng
from maskedbandits.problems import Beta, ContextualProblem
from maskedbandits.simulation.runs import WORLD

RR = mb.RandomizedResponse.from_epsilon(1.0)
PROBLEM = mb.Problem([[0.2, 0.7, 0.4], [0.7, 0.2, 0.4]], [0, 300], 600, RR)
NOISY = mb.Problem([0.3, 0.6], [0], 400, mb.LaplaceNoise(1.0), rewards=Beta(3))
LOG = mb.Problem.replay_log(
    np.random.default_rng(1).integers(0, 3, 900), np.random.default_rng(2).integers(0, 2, 900), RR
)
GROUPS = ContextualProblem([[0.9, 0.1], [0.1, 0.9]], [0], 300, corruption=RR)
ROUNDS = mb.Problem.replay(np.random.default_rng(3).random((400, 3)).round(1), RR)


def draw_world(seed: int, run: int) -> list[np.random.Generator]:
    """Return the random numbers of each arm in a run."""
    seeds = [np.random.SeedSequence(seed, spawn_key=(run, WORLD, arm)) for arm in range(3)]
    return [np.random.Generator(np.random.SFC64(each)) for each in seeds]


class Recorder:
    """Plays a fixed pattern, and keeps what it sees."""

    seen: list[dict[int, tuple[int, float]]]

    def __init__(self, pattern: list[int], seen: dict[int, tuple[int, float]]) -> None:
        self.pattern, self.seen_here, self.step = pattern, seen, 0

    def choose(self) -> int:
        self.step += 1
        return self.pattern[(self.step - 1) % len(self.pattern)]

    def observe(self, arm: int, feedback: float) -> None:
        self.seen_here[self.step - 1] = arm, feedback


def record(pattern: list[int], problem: mb.Problem, *, paired: bool) -> list[dict[int, tuple[int, float]]]:
    """Return what a pattern of arms sees in each of two runs, by step."""
    runs: list[dict[int, tuple[int, float]]] = []

    def build(generator: np.random.Generator) -> Recorder:
        generator.random(len(pattern))
        runs.append({})
        return Recorder(pattern, runs[-1])

    mb.simulate(problem, build, runs=2, seed=4, paired=paired)
    return runs


def list_reports(run: dict[int, tuple[int, float]]) -> list[list[float]]:
    """Return the reports of each arm in their order."""
    return [[feedback for arm, feedback in run.values() if arm == wanted] for wanted in range(3)]


def test_each_arm_gives_the_same_reports_in_the_same_order() -> None:
    still = mb.Problem([0.2, 0.7, 0.4], [0], 600, RR)
    one, other = (record(pattern, still, paired=True) for pattern in ([0, 1, 2], [0, 2, 1, 1]))
    for left, right in zip(map(list_reports, one), map(list_reports, other), strict=True):
        for first, second in zip(left, right, strict=True):
            shorter = min(len(first), len(second))
            assert shorter >= 150
            assert first[:shorter] == second[:shorter]
    assert list_reports(one[0]) != list_reports(one[1])
    alone = [record(pattern, still, paired=False)[0] for pattern in ([0, 1, 2], [0, 2, 1, 1])]
    assert list_reports(alone[0])[0][:150] != list_reports(alone[1])[0][:150]


def test_row_of_a_log_has_the_same_report() -> None:
    one, other = (record(pattern, LOG, paired=True) for pattern in ([0, 1, 2], [0, 2, 1, 1]))
    for left, right in zip(one, other, strict=True):
        both = [step for step in left.keys() & right.keys() if left[step][0] == right[step][0]]
        assert len(both) > 40
        assert all(left[step] == right[step] for step in both)


def test_compiled_policy_sees_the_reports_of_the_world() -> None:
    """Its choices are those of a live policy that is given the same reports one by one."""
    played = mb.simulate(PROBLEM, "klucb-cf", runs=2, seed=4, checkpoints=6, paired=True, trace=True)
    assert played.run_pulls is not None
    assert played.switches is not None
    for run in range(2):
        world, live = draw_world(4, run), mb.make_policy("klucb-cf", arms=3, corruption=RR)
        arms = []
        for step in range(600):
            arms.append(live.choose())
            seen = PROBLEM.feedback_means[int(step >= 300), arms[-1]]
            live.observe(arms[-1], float(world[arms[-1]].random() < seen))
        counts = [[arms[: 100 * (index + 1)].count(arm) for arm in range(3)] for index in range(6)]
        assert played.run_pulls[run].tolist() == counts
        assert played.switches[run] == sum(before != after for before, after in pairwise(arms))


def test_python_and_compiled_policies_share_the_world() -> None:
    """With late and lost reports, too: the same choices as those of the same policy in plain Python."""

    class Live:
        def __init__(self, generator: np.random.Generator) -> None:
            self.policy = mb.make_policy("klucb-cf", arms=3, corruption=RR)

        def choose(self) -> int:
            return self.policy.choose()

        def observe(self, arm: int, feedback: float) -> None:
            self.policy.observe(arm, feedback)

    for options in ({}, {"delay": ("geometric", 20.0), "lost": 0.1}, {"delay": [3, 30]}):
        given: dict[str, Any] = {"runs": 2, "seed": 1, "paired": True, **options}
        assert np.array_equal(
            mb.simulate(PROBLEM, "klucb-cf", **given).pulls, mb.simulate(PROBLEM, Live, **given).pulls
        )


def test_paired_differences_vary_less() -> None:
    policies: list[Any] = [("klucb-cf", {"c": 0}), ("klucb-cf", {"c": 1})]
    spread = {}
    for paired in (False, True):
        compared = mb.compare(PROBLEM, policies, runs=200, seed=1, paired=paired)
        _, low, high = compared.differences()[1]
        spread[paired] = high - low
    assert spread[True] < 0.7 * spread[False]


def test_pairs_leave_the_distribution_of_regret() -> None:
    """Means of 400 runs differ by less than 4 standard errors of their difference."""
    alone, paired = (
        mb.simulate(PROBLEM, "ts-cf", runs=400, seed=2, paired=each).regret[:, -1] for each in (False, True)
    )
    error = np.sqrt((alone.var(ddof=1) + paired.var(ddof=1)) / 400)
    assert abs(alone.mean() - paired.mean()) < 4 * error
    assert not np.array_equal(alone, paired)


WORLDS: dict[str, tuple[mb.Problem, dict[str, Any]]] = {
    "means": (PROBLEM, {}),
    "late": (PROBLEM, {"delay": [3, 30], "lost": 0.1}),
    "noise": (NOISY, {}),
    "log": (LOG, {}),
    "rounds": (ROUNDS, {}),
}


@pytest.mark.parametrize("name", WORLDS)
def test_trace_changes_no_number(name: str) -> None:
    problem, options = WORLDS[name]
    policy = "ucb-cf" if problem is NOISY else "ts-cf"
    plain = mb.simulate(problem, policy, runs=3, seed=3, checkpoints=5, **options)
    traced = mb.simulate(problem, policy, runs=3, seed=3, checkpoints=5, trace=True, **options)
    for key in ("regret", "pulls", "suboptimal_pulls", "pulls_over_time"):
        assert np.array_equal(getattr(plain, key), getattr(traced, key))
    assert (plain.run_pulls, plain.switches) == (None, None)
    assert traced.run_pulls is not None
    assert traced.switches is not None
    assert np.array_equal(traced.run_pulls[:, -1], traced.pulls)
    assert np.array_equal(traced.run_pulls.sum(axis=0), traced.pulls_over_time)
    assert np.all(traced.switches > 0)


@pytest.mark.parametrize("name", WORLDS)
def test_pairs_depend_on_seed_and_run_alone(name: str) -> None:
    problem, options = WORLDS[name]
    policy = "ucb-cf" if problem is NOISY else "ts-cf"
    whole = mb.simulate(problem, policy, runs=4, seed=3, paired=True, threads=2, **options)
    second = mb.simulate(problem, policy, runs=2, seed=3, first_run=2, paired=True, threads=1, **options)
    assert np.array_equal(whole.regret[2:], second.regret)


def test_noisy_pull_begins_a_sequence() -> None:
    """The n-th report of an arm is drawn from three words of its sequence, however many numbers it takes."""
    played = mb.simulate(NOISY, "ucb-cf", runs=2, seed=4, paired=True)
    for run in range(2):
        seeds = [np.random.SeedSequence(4, spawn_key=(run, WORLD, arm)) for arm in range(2)]
        worlds, counts = [rng.seed_words(seed) for seed in seeds], [0, 0]
        live = mb.make_policy("ucb-cf", arms=2, corruption=NOISY.corruption, sigma=NOISY.spread.sigma)  # type: ignore[union-attr]
        for _ in range(400):
            arm = live.choose()
            counts[arm] += 1
            step = np.array([*(rng.plain_word(worlds[arm]) for _ in range(3)), np.uint64(1)])
            reward = beta.draw_around(step, float(NOISY.means[0, arm]), 3.0)
            live.observe(arm, reward + rng.laplace(step, 1.0))
        assert played.pulls[run].tolist() == counts


def test_switches_of_python_policies_are_counted() -> None:
    seen: dict[int, tuple[int, float]] = {}
    played = mb.simulate(PROBLEM, lambda generator: Recorder([0, 0, 1], dict(seen)), runs=2, trace=True, checkpoints=2)
    assert played.switches is not None
    assert played.switches.tolist() == [399, 399]  # twice in three steps, but not before the first
    assert played.run_pulls is not None
    assert played.run_pulls[1].tolist() == [[200, 100, 0], [400, 200, 0]]


@pytest.mark.parametrize(
    ("play", "word"),
    [
        (lambda: mb.simulate(GROUPS, "auto", paired=True), "paired"),
        (lambda: mb.simulate(GROUPS, "auto", trace=True), "trace"),
        (lambda: mb.simulate(NOISY, lambda generator: Recorder([0], {}), paired=True), "noise"),
    ],
)
def test_impossible_pairs_are_refused(play: Callable[[], object], word: str) -> None:
    with pytest.raises(UserError, match=word):
        play()
