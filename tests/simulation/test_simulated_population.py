"""Populations whose people choose their own epsilon, against a twin in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maskedbandits as mb
from helpers.private import live_state, replace_state
from maskedbandits.errors import UserError
from maskedbandits.math.rng import seed_words
from maskedbandits.policies.index.report_masks import add_mask_sums
from maskedbandits.simulation.runs import WORLD
from naive import population as twin

MASKS = [(0.6, 0.7), (0.95, 0.9), (0.75, 0.75)]
SHARES = [0.5, 0.2, 0.3]
PEOPLE = mb.Population([mb.RandomizedResponse(*mask) for mask in MASKS], SHARES)
MEANS = [0.3, 0.6, 0.5]
PROBLEM = mb.Problem(MEANS, [0], 500, PEOPLE)


PARAMETERS: dict[str, dict[str, Any]] = {"sw-klucb-cf": {"window": 100}, "d-ucb-cf": {"gamma": 0.99}}


def build_crowd(run: int) -> twin.Crowd:
    """Return the twin of the people in a run with seed 4."""
    seeds = [np.random.SeedSequence(4, spawn_key=(run, WORLD, arm)) for arm in range(3)]
    return twin.Crowd(seeds, MEANS, MASKS, SHARES)


def test_average_is_that_of_the_shares() -> None:
    for key, place in (("p00", 0), ("p11", 1)):
        assert getattr(PEOPLE.average, key) == pytest.approx(
            sum(share * mask[place] for share, mask in zip(SHARES, MASKS, strict=True))
        )
    assert PEOPLE(0.3) == PEOPLE.average(0.3)
    assert PEOPLE.inverse(PEOPLE(0.3)) == pytest.approx(0.3)
    assert PROBLEM.feedback_means[0].tolist() == pytest.approx([PEOPLE(mean) for mean in MEANS])
    even = mb.Population.from_epsilons([1.0, 2.0])
    assert even.average.p11 == pytest.approx((twin.logit(1.0) + twin.logit(2.0)) / 2)
    assert even.shares == (0.5, 0.5)


def test_people_are_drawn_by_their_shares() -> None:
    """Of 10,000 draws each share is met within 4 standard deviations."""
    generator = np.random.default_rng(1)
    drawn = [PEOPLE.draw(generator) for _ in range(10_000)]
    for response, share in zip(PEOPLE.responses, SHARES, strict=True):
        assert abs(drawn.count(response) - 10_000 * share) < 4 * np.sqrt(10_000 * share * (1 - share))


@pytest.mark.parametrize("name", ["klucb-cf", "sw-klucb-cf", "d-ucb-cf", "ts-cf", "glr-klucb-cf", "auto"])
def test_policy_is_given_the_mask_of_each_report(name: str) -> None:
    """It chooses as a live policy that observes each report of the twin's population with its mask."""
    parameters = PARAMETERS.get(name, {})
    played = mb.simulate(PROBLEM, name, runs=2, seed=4, checkpoints=5, paired=True, trace=True, **parameters)
    for run in range(2):
        live = mb.make_policy(name, arms=3, corruption=PEOPLE, seed=0, **parameters)
        live_state(live).rng[:] = seed_words(np.random.SeedSequence(4, spawn_key=(run,)))
        if name == "ts-cf":  # before its first report it draws other numbers than one that expects masks
            replace_state(live, add_mask_sums(live_state(live)))
        crowd = build_crowd(run)
        counts = [0] * 3
        for _ in range(500):
            arm = live.choose()
            counts[arm] += 1
            person, feedback = crowd.report(arm)
            live.observe(arm, feedback, corruption=PEOPLE.responses[person])
        assert played.pulls[run].tolist() == counts


def test_policy_in_python_is_given_masks_if_it_takes_them() -> None:
    class Mine:
        def __init__(self, generator: np.random.Generator) -> None:
            self.means = twin.WeightedMeans(3)

        def choose(self) -> int:
            return self.means.choose()

        def observe(self, arm: int, feedback: float, corruption: mb.RandomizedResponse) -> None:
            self.means.observe(arm, feedback, corruption.p00, corruption.p11)

    own: Any = Mine  # whose observe takes one argument more
    played = mb.simulate(PROBLEM, own, runs=2, seed=4, paired=True)
    for run in range(2):
        policy, counts, crowd = twin.WeightedMeans(3), [0] * 3, build_crowd(run)
        for _ in range(500):
            arm = policy.choose()
            counts[arm] += 1
            person, feedback = crowd.report(arm)
            policy.observe(arm, feedback, *MASKS[person])
        assert played.pulls[run].tolist() == counts


def test_policy_without_masks_sees_average_reports() -> None:
    """The regret of uniform play aside, a policy that takes no masks plays as on the average response."""
    average = mb.Problem(MEANS, [0], 500, PEOPLE.average)
    one, other = (mb.simulate(each, "exp3s", runs=400, seed=3).regret[:, -1] for each in (PROBLEM, average))
    error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 400)
    assert abs(one.mean() - other.mean()) < 4 * error


def test_knowing_the_masks_lowers_regret() -> None:
    """A few precise reports among many imprecise ones: weights help, by more than 4 standard errors."""
    people = mb.Population.from_epsilons([0.2, 5.0], [0.8, 0.2])
    problem = mb.Problem([0.3, 0.6], [0], 3000, people)
    knowing = mb.simulate(problem, "klucb-cf", runs=200, seed=1).regret[:, -1]
    average = mb.simulate(mb.Problem([0.3, 0.6], [0], 3000, people.average), "klucb-cf", runs=200, seed=1).regret[:, -1]
    error = np.sqrt((knowing.var(ddof=1) + average.var(ddof=1)) / 200)
    assert average.mean() - knowing.mean() > 4 * error


def test_people_who_agree_are_one_mask() -> None:
    one = mb.RandomizedResponse(0.9, 0.8)
    alike = mb.Problem(MEANS, [0], 500, mb.Population([one]))
    plain = mb.Problem(MEANS, [0], 500, one)
    both = [mb.simulate(each, "uniform", runs=2, seed=1).regret.shape for each in (alike, plain)]
    assert both[0] == both[1]
    assert mb.Population([one]).average == one


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: mb.Population([]), "empty"),
        (lambda: mb.Population([0.5]), "RandomizedResponse"),  # type: ignore[list-item]
        (lambda: mb.Population([mb.RandomizedResponse(1, 1)] * 2, [0.5, 0.6]), "shares"),
        (lambda: mb.Population([mb.RandomizedResponse(0.9, 0.9), mb.RandomizedResponse(0.1, 0.1)]), "independent"),
        (lambda: mb.Problem(MEANS, [0], 9, [PEOPLE, PEOPLE.average, PEOPLE]), "Population"),
        (lambda: mb.Problem(MEANS, [0], 9, PEOPLE, liars=0.1), "Population"),
        (lambda: mb.simulate(PROBLEM, "auto", delay=3), "delay"),
        (lambda: mb.simulate(mb.Problem.replay_log([0, 1], [1, 0], PEOPLE), "auto"), "log"),
    ],
)
def test_impossible_population_is_refused(build: Callable[[], object], word: str) -> None:
    with pytest.raises(UserError if word != "independent" else ValueError, match=word):
        build()
