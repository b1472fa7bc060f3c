"""Estimates of policies that learn: equal to the naive twin's, and to a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from log_samples import change, create_event, draw_log, report, settings, simulate_log, to_naive

from maskedbandits import Problem, make_policy, simulate
from maskedbandits.errors import UserError
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation import ReportLog, evaluate, policy_trial, read_log
from maskedbandits.service.evaluation.estimators import build_bound
from maskedbandits.service.evaluation.log import Ints
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import get_mask
from naive import evaluation as naive

MASK = get_mask(2 * MILLION)


class Restless:
    """A policy whose choice depends on all its reports, with the methods of ours and of the naive twin's policies."""

    def __init__(self, arms: int) -> None:
        self.open, self.known, self.state = list(range(arms)), arms, 1

    def choose(self, among: list[int]) -> int:
        return among[self.state % len(among)]

    def learn(self, arm: int, reward: float) -> None:
        self.state = (7 * self.state + 3 * arm + (reward > 0.5)) % 101

    def sample(self, n: int) -> Ints:
        return np.full(n, self.choose(self.open))

    def observe(self, arm: int, feedback: float, corruption: Any = None) -> None:
        self.learn(arm, feedback)

    def add_arm(self) -> int:
        self.open.append(self.known)
        self.known += 1
        return self.known - 1

    def retire(self, arm: int) -> None:
        self.open.remove(arm)


@pytest.mark.parametrize("seed", range(30))
def test_policy_run_matches_naive_twin(seed: int) -> None:
    events = draw_log(seed, 150)
    log, terms = read_log("log", events), naive.terms(to_naive(events))
    runs, obvious_runs = [], []
    for run in range(3):
        rng = np.random.default_rng([seed, run]).random(log.size)
        found = policy_trial.run_policy(log, Restless(2), rng, is_random=bool(run))
        matched, learned = naive.run_over(terms, Restless(2), rng.tolist(), log.min_probability / WHOLE)
        assert found.matched.tolist() == matched
        assert found.learned.tolist() == learned
        runs.append(found)
        obvious_runs.append(matched)
    value, squares = naive.tried(terms, obvious_runs)
    judged = policy_trial.estimate_policy(log, "restless", runs, 0, log.size)
    assert judged.estimate is not None
    assert judged.estimate.value == pytest.approx(value, abs=1e-9)
    sure = build_bound(log, slice(None), WHOLE / log.min_probability)
    reach = sure.radius(squares) / log.worth.sum()
    assert judged.estimate.interval.high == pytest.approx(min(1.0, max(0.0, value + reach)))
    parts = [policy_trial.estimate_policy(log, "restless", runs, *ends) for ends in ((0, 40), (40, log.size))]
    assert sum(part.learned for part in parts) == pytest.approx(judged.learned)


def test_all_arms_can_be_replaced_at_once() -> None:
    """For a while no arm is supported: these reports count for none."""
    events = [create_event(1, settings(MILLION, 0.25, 0.0)), report(2, 0, 0, 1, WHOLE)]
    events += [change(3, 0, "arm", 1, name="new"), change(4, 0, "retire", 0, name="arm 0")]
    events += [report(5, 1, 1, 1, WHOLE), report(6, 3, 1, 1, WHOLE), report(7, 3, 1, 0, WHOLE)]
    log = read_log("log", events)
    assert log.count_open_arms().tolist() == [1, 0, 1, 1]
    policy = Restless(1)
    steps = policy_trial.run_policy(log, policy, np.zeros(4), is_random=False)
    assert (policy.open, steps.matched.tolist()) == ([1], [True, False, True, True])
    assert [each.considered for each in evaluate(log).whole.arms] == [1, 2]
    assert evaluate(log).whole.uniform.considered == 3


def even(seed: int, reports: int, means: tuple[float, ...], epsilon: int = 2 * MILLION) -> ReportLog:
    """A log of arms that were all shown equally often."""
    floor = 1 / len(means) - 0.002
    return read_log("log", simulate_log(means, reports, seed=seed, floor=floor, epsilon=epsilon))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["klucb-cf", "ts-cf", "auto"])
def test_policy_estimate_matches_simulation(name: str) -> None:
    """Ten logs, so that the luck of one of them does not matter; the intervals hold in nearly all."""
    means, reports = (0.2, 0.8), 1000
    found = [evaluate(even(seed, reports, means), [name], repeats=4, seed=seed).whole.policies[0] for seed in range(10)]
    steps = round(float(np.mean([each.learned for each in found])))
    assert steps == pytest.approx(reports / 2, rel=0.05)
    problem = Problem([list(means)], [0], steps, get_mask(2 * MILLION))
    alone = 0.8 - simulate(problem, name, runs=400, seed=1).regret[:, -1].mean() / steps
    values = [each.estimate.value for each in found if each.estimate is not None]
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    assert abs(np.mean(values) - alone) < 3 * error
    assert all(
        each.estimate is not None and each.estimate.interval.low < alone < each.estimate.interval.high for each in found
    )
    assert alone > 0.65  # it has learned something


def test_accepted_reports_do_not_depend_on_probability() -> None:
    """A log shows one arm in ten decisions: a run that chooses it learns from it as often as from the other."""

    class Fixed(Restless):
        def __init__(self, arm: int) -> None:
            super().__init__(2)
            self.arm = arm

        def choose(self, among: list[int]) -> int:
            return self.arm

    log = read_log("log", simulate_log([0.2, 0.9], 20_000, seed=6, floor=0.1, epsilon=4 * MILLION))
    shown = np.bincount(log.arm) / log.size
    assert shown.min() < 0.15
    rng = np.random.default_rng(1).random(log.size)
    for arm, mean in enumerate((0.2, 0.9)):
        steps = policy_trial.run_policy(log, Fixed(arm), rng, is_random=False)
        assert steps.learned.size / log.size == pytest.approx(log.min_probability / WHOLE, rel=0.1)
        assert log.rewards[steps.learned].mean() == pytest.approx(mean, abs=0.03)
        judged = policy_trial.estimate_policy(log, "fixed", [steps], 0, log.size).estimate
        assert judged is not None
        assert judged.interval.low < mean < judged.interval.high


def test_seed_determines_policy_estimates() -> None:
    log = even(3, 400, (0.3, 0.6))
    first, again, other = (
        evaluate(log, ["ts-cf", "ts-cf", "klucb-cf"], repeats=3, seed=seed).whole.policies for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other
    assert [each.name for each in first] == ["ts-cf", "klucb-cf"]


def test_policy_follows_added_and_retired_arms() -> None:
    rng = np.random.default_rng(8)
    events, seq = [create_event(2, settings(4 * MILLION, 0.25, 0.0))], 1
    means = (0.1, 0.5, 0.9)
    for hour in range(60):
        if hour == 10:
            seq += 1
            events.append(change(seq, hour, "arm", 2, name="new"))
        if hour == 30:
            seq += 1
            events.append(change(seq, hour, "retire", 0, name="arm 0"))
        known = [arm for arm in range(3) if (arm < 2 or hour >= 10) and (arm > 0 or hour < 30)]
        for _ in range(20):
            seq += 1
            arm = int(rng.choice(known))
            bit = int((rng.random() < means[arm]) == (rng.random() < get_mask(4 * MILLION).p00))
            events.append(report(seq, hour, arm, bit, round(WHOLE / len(known)), 4 * MILLION))
    log = read_log("log", events)
    assert [(arm.start, arm.end) for arm in log.arms] == [(0, 600), (0, 1200), (240, 1200)]
    (found,) = evaluate(log, ["klucb-cf"], periods=2, repeats=5).periods[1].policies
    assert found.estimate is not None
    assert found.estimate.value > 0.75


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("klucb", "klucb"),
        ("nonsense", "no policy is called 'nonsense'"),
        ("exp3s", "not supported: it weights reports"),
        ("sw-klucb-cf", "window"),
        ("sw-klucb-cf:window", "give NAME, or NAME:key=value,key=value"),
        ("sw-klucb-cf:window=-1", "window"),
        ("klucb-cf:no=1", "no"),
        ("klucb-cf:restarts=[20]", r"klucb-cf:restarts=\[20\]: restarts at fixed times"),
        ("sw-klucb-cf:window=3", "window = 3 in rows is 1 in plays"),
    ],
)
def test_invalid_policies_are_rejected(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        evaluate(even(3, 50, (0.3, 0.6)), [text])
    assert "\n" not in str(caught.value)


@pytest.mark.plain
def test_windows_are_in_reports_of_the_log() -> None:
    """About every second report is learned from: a window of 40 reports holds 20 of those."""
    log = even(3, 300, (0.3, 0.6))
    assert policy_trial.compute_pace(log) == pytest.approx(2, rel=0.01)
    found = policy_trial.run_candidate(log, policy_trial.parse_candidate("sw-klucb-cf:window=40,c=0"), seed=5, run=0)
    rng = np.random.default_rng(int(np.random.SeedSequence([5, 0]).generate_state(2, np.uint64)[1])).random(log.size)
    same, longer = (
        policy_trial.run_policy(
            log, make_policy("sw-klucb-cf", arms=2, corruption=MASK, window=w, c=0), rng, is_random=False
        )
        for w in (20, 40)
    )
    assert found.matched.tolist() == same.matched.tolist()
    assert found.matched.tolist() != longer.matched.tolist()


def test_parameters_follow_policy_name() -> None:
    found = policy_trial.parse_candidate("sw-klucb-cf:window=2000,c=0.5,divergence=gaussian")
    assert found.parameters == {"window": 2000, "c": 0.5, "divergence": "gaussian"}
