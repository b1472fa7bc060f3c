"""A problem as a Gymnasium environment."""

import copy
import pickle
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.stats import ks_2samp

import maskedbandits as mb
from helpers.boundaries import hide_packages
from maskedbandits.errors import UserError
from maskedbandits.problems import Beta, Gaussian
from naive.environment import Bandit, Draw, flip

RR = mb.RandomizedResponse(0.9, 0.7)
FALLING = mb.RandomizedResponse(0.2, 0.1)
SQUARE = mb.Monotone(lambda mean: 0.1 + 0.8 * mean * mean)
MEANS, STARTS, HORIZON = [[0.2, 0.8], [0.7, 0.1]], [0, 4_000], 8_000
PROBLEM = mb.Problem(MEANS, STARTS, HORIZON, RR)


class Case(NamedTuple):
    """A problem, and how its twin draws feedback."""

    corruption: Any
    draws: list[Draw]
    increasing: list[bool]
    liars: float = 0.0
    rewards: Any = "bernoulli"

    @property
    def problem(self) -> mb.Problem:
        return mb.Problem(MEANS, STARTS, HORIZON, self.corruption, liars=self.liars, rewards=self.rewards)


def noisy(generator: np.random.Generator, mean: float) -> float:
    return float(generator.beta(3 * mean, 3 * (1 - mean)) + generator.laplace(0, 2))


CASES = {
    "bits": Case(RR, [flip(0.9, 0.7)] * 2, [True] * 2),
    "decreasing": Case(FALLING, [flip(0.2, 0.1)] * 2, [False] * 2),
    "monotone": Case(SQUARE, [lambda rng, mean: float(rng.random() < 0.1 + 0.8 * mean * mean)] * 2, [True] * 2),
    "per arm": Case([RR, FALLING], [flip(0.9, 0.7), flip(0.2, 0.1)], [True, False]),
    "liars": Case([RR, FALLING], [flip(0.9, 0.7), flip(0.2, 0.1)], [True, False], liars=0.3),
    "noise": Case(mb.LaplaceNoise(2), [noisy] * 2, [True] * 2, rewards=Beta(3)),
    "mixed": Case([RR, mb.LaplaceNoise(2)], [flip(0.9, 0.7), noisy], [True] * 2, rewards=Beta(3)),
    "any number": Case(mb.GaussianNoise(0), [lambda rng, mean: rng.normal(mean, 2)] * 2, [True] * 2, 0, Gaussian(2)),
}
OUTCOMES = np.random.default_rng(3).random((60, 3))


def play(env: Any, actions: Any, seed: int | None = 0) -> list[tuple[float, float, bool]]:
    """Return feedback, pseudo-regret and the end of an episode, step by step."""
    env.reset(seed=seed)
    played = []
    for action in actions:
        _, feedback, terminated, truncated, info = env.step(action)
        assert terminated is False
        played.append((feedback, info["pseudo_regret"], truncated))
    return played


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gymnasium_checks_pass(case: Case) -> None:
    check_env(mb.environment(case.problem))


def test_gymnasium_checks_pass_for_replay() -> None:
    check_env(mb.environment(mb.Problem.replay(OUTCOMES, RR, periods=3)))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_episode_matches_twin(case: Case) -> None:
    """In each segment 2000 feedbacks of each arm are compared by a Kolmogorov-Smirnov test at 1e-4, with seeds."""
    actions = [0, 1] * (HORIZON // 2)
    twin = Bandit(MEANS, STARTS, HORIZON, case.draws, case.increasing, case.liars)
    expected = twin.play(actions, np.random.default_rng(1))
    played = play(mb.environment(case.problem), actions, seed=2)
    assert [cost for _, cost, _ in played] == pytest.approx([cost for _, cost, _ in expected])
    assert [last for *_, last in played] == [last for *_, last in expected]
    feedback, other = (np.array([each[0] for each in one]) for one in (played, expected))
    for segment in (slice(0, 4_000), slice(4_000, 8_000)):
        for arm in (0, 1):
            assert ks_2samp(feedback[segment][arm::2], other[segment][arm::2], method="asymp").pvalue > 1e-4


def test_observation_tells_nothing() -> None:
    env = mb.environment(PROBLEM)
    assert (env.action_space, env.observation_space) == (gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(1))
    observations = {env.reset(seed=1)[0], *(env.step(step % 2)[0] for step in range(HORIZON))}
    assert observations == {0}


def test_info_has_step_and_pseudo_regret() -> None:
    env = mb.environment(mb.Problem([[0.25, 0.5], [1.0, 0.0]], [0, 2], 3, RR))
    assert env.reset() == (0, {"step": 0})
    infos = [env.step(0)[4] for _ in range(3)]
    assert infos == [{"step": step, "pseudo_regret": cost} for step, cost in ((1, 0.25), (2, 0.25), (3, 0))]


@pytest.mark.parametrize("arm", [0, 1])
def test_regret_adds_up(arm: int) -> None:
    total = sum(cost for _, cost, _ in play(mb.environment(PROBLEM), [arm] * HORIZON))
    assert total == pytest.approx(float((PROBLEM.gaps[:, arm] * PROBLEM.lengths).sum()))

    class Fixed:
        def choose(self) -> int:
            return arm

        def observe(self, arm: int, feedback: float) -> None:
            pass

    simulated = mb.simulate(PROBLEM, lambda generator: Fixed(), runs=1, checkpoints=1, progress=False)
    assert total == simulated.regret[0, 0]


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_regret_of_replay_adds_up(arm: int) -> None:
    problem = mb.Problem.replay(OUTCOMES, RR, periods=3)
    played = play(mb.environment(problem), [arm] * 60)
    assert sum(cost for _, cost, _ in played) == pytest.approx(float(problem.regret_of(arm, [60])[0]))
    assert [last for *_, last in played] == [False] * 59 + [True]


def test_seed_repeats_episode() -> None:
    env, other, actions = mb.environment(PROBLEM), mb.environment(PROBLEM), [0, 1, 1] * 30
    first = play(env, actions, seed=7)
    assert play(other, actions, seed=7) == play(env, actions, seed=7) == first
    following = play(env, actions, seed=None)
    assert following not in (first, play(env, actions, seed=8))
    assert play(other, actions, seed=None) == following


@pytest.mark.parametrize("action", [-1, 2, 0.5, True, None, "0", np.array([1])])
def test_invalid_action_is_refused(action: Any) -> None:
    env = mb.environment(PROBLEM)
    env.reset(seed=1)
    with pytest.raises(UserError, match="whole number"):
        env.step(action)


@pytest.mark.parametrize("action", [1, np.int64(1), np.array(1)])
def test_action_may_have_any_integer_type(action: Any) -> None:
    env = mb.environment(PROBLEM)
    env.reset(seed=1)
    assert env.step(action)[4]["pseudo_regret"] == 0


def test_step_outside_an_episode_is_refused() -> None:
    env = mb.environment(mb.Problem([0.2, 0.8], [0], 2, RR))
    with pytest.raises(UserError, match="reset"):
        env.step(0)
    assert [last for *_, last in play(env, [0, 1])] == [False, True]
    with pytest.raises(UserError, match="reset"):
        env.step(0)


def test_copies_go_on_by_themselves() -> None:
    env, actions = mb.environment(PROBLEM), [0, 1] * 20
    play(env, actions)
    one, other = copy.deepcopy(env), pickle.loads(pickle.dumps(env))  # noqa: S301 -- our own
    expected = [env.step(action)[1] for action in actions]
    assert [one.step(action)[1] for action in actions] == expected
    assert [other.step(action)[1] for action in actions] == expected


def test_gymnasium_makes_more_from_the_spec() -> None:
    """The Monotone holds a function that cannot be pickled."""
    problem = mb.Problem([[0.2, 0.8], [0.7, 0.1]], [0, 5], 10, SQUARE)
    env = mb.environment(problem)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert play(again, [0, 1] * 5, seed=4) == play(env, [0, 1] * 5, seed=4)
    several = gymnasium.vector.SyncVectorEnv([lambda: mb.environment(problem)] * 3)
    several.reset(seed=4)
    _, feedback, _, _, info = several.step(np.array([0, 1, 1]))
    assert feedback.shape == (3,)
    assert info["pseudo_regret"].tolist() == pytest.approx([0.6, 0, 0])


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        (mb.ContextualProblem([[0.9, 0.1], [0.2, 0.8]], [0], 100), r"groups.*average_groups\(\)"),
        (mb.FeaturedProblem([[0.0, 1.0], [0.5, -1.0]], [0], 100, RR), "features.*give a Problem"),
        (mb.Problem.replay_log([0, 1, 1, 0], [1, 0, 1, 1]), r"log.*as_played\(\)"),
        ("bernoulli", "problem = 'bernoulli'"),
    ],
)
def test_other_problem_is_refused(problem: Any, remedy: str) -> None:
    with pytest.raises(UserError, match=remedy) as caught:
        mb.environment(problem)
    assert "\n" not in str(caught.value)


def test_suggested_problems_are_accepted() -> None:
    groups = mb.ContextualProblem([[0.9, 0.1], [0.2, 0.8]], [0], 100, corruption=RR)
    log = mb.Problem.replay_log([0, 1, 1, 0] * 5, [1, 0, 1, 1] * 5)
    for problem in (groups.average_groups(), log.as_played()):
        check_env(mb.environment(problem))


def test_without_gymnasium_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_packages(monkeypatch, "gymnasium")
    with pytest.raises(UserError, match=r"gymnasium.*pip install"):
        mb.environment(PROBLEM)
