"""Policies of river and MABWiser, as simulate plays them."""

import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maskedbandits as mb
from maskedbandits.errors import UserError

pytestmark = pytest.mark.xdist_group("adapters")  # both libraries take seconds to import

PROBLEM = mb.Problem([[0.2, 0.8], [0.8, 0.2]], [0, 50], 100, mb.RandomizedResponse(0.9, 0.8))
Lib = Any


@pytest.fixture(scope="module")
def river() -> Lib:
    importlib.import_module("river.bandit")
    importlib.import_module("river.preprocessing")
    return importlib.import_module("river")


@pytest.fixture(scope="module")
def mabwiser() -> Lib:
    return importlib.import_module("mabwiser.mab")


def play(policy: Any, seed: int = 1, **how: Any) -> list[list[float]]:
    """Return the regret of three runs."""
    result = mb.simulate(PROBLEM, policy, runs=3, seed=seed, checkpoints=5, progress=False, **how)
    assert result.pulls.sum(axis=1).tolist() == [100] * 3
    regret: list[list[float]] = result.regret.tolist()
    return regret


def refuse(adapter: Callable[[Any], Any], given: Any, match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        adapter(given)
    assert "\n" not in str(caught.value)


RIVER: dict[str, Callable[[Lib], Any]] = {
    "EpsilonGreedy": lambda river: river.bandit.EpsilonGreedy(0.2, seed=3),
    "burn-in": lambda river: river.bandit.EpsilonGreedy(0.2, burn_in=5),
    "scaled": lambda river: river.bandit.UCB(1, reward_scaler=river.preprocessing.TargetStandardScaler(None)),
    "ThompsonSampling": lambda river: river.bandit.ThompsonSampling(reward_obj=river.proba.Beta()),
    "Exp3": lambda river: river.bandit.Exp3(0.1),
    "BayesUCB": lambda river: river.bandit.BayesUCB(),
    "RandomPolicy": lambda river: river.bandit.RandomPolicy(),
}
MABWISER: dict[str, Callable[[Lib], Any]] = {
    "EpsilonGreedy": lambda mab: mab.LearningPolicy.EpsilonGreedy(0.2),
    "Popularity": lambda mab: mab.LearningPolicy.Popularity(),
    "Random": lambda mab: mab.LearningPolicy.Random(),
    "Softmax": lambda mab: mab.LearningPolicy.Softmax(0.5),
    "ThompsonSampling": lambda mab: mab.LearningPolicy.ThompsonSampling(),
    "binarized": lambda mab: mab.LearningPolicy.ThompsonSampling(lambda arm, feedback: feedback > 0.5),
    "UCB1": lambda mab: mab.LearningPolicy.UCB1(1),
}


@pytest.mark.parametrize("build", RIVER.values(), ids=RIVER)
@pytest.mark.parametrize("delay", [None, 7])
def test_same_seed_repeats_runs_of_river(river: Lib, build: Callable[[Lib], Any], delay: int | None) -> None:
    factory = mb.from_river(build(river))
    regret = play(factory, delay=delay)
    assert regret == play(factory, delay=delay) == play(mb.from_river(build(river)), delay=delay)
    assert regret != play(factory, seed=2, delay=delay)
    assert len({tuple(run) for run in regret}) == 3


@pytest.mark.parametrize("build", MABWISER.values(), ids=MABWISER)
@pytest.mark.parametrize("delay", [None, 7])
def test_same_seed_repeats_runs_of_mabwiser(mabwiser: Lib, build: Callable[[Lib], Any], delay: int | None) -> None:
    factory = mb.from_mabwiser(mabwiser.MAB([0, 1], build(mabwiser)))
    regret = play(factory, delay=delay)
    assert regret == play(factory, delay=delay)
    assert regret == play(mb.from_mabwiser(mabwiser.MAB([0, 1], build(mabwiser), seed=9)), delay=delay)
    assert regret != play(factory, seed=2, delay=delay)
    assert len({tuple(run) for run in regret}) == 3


@pytest.mark.parametrize("name", ["EpsilonGreedy", "ThompsonSampling"])
def test_adapted_policies_keep_the_contract(river: Lib, mabwiser: Lib, name: str) -> None:
    def build(generator: np.random.Generator, arms: int) -> Any:
        return mb.from_mabwiser(mabwiser.MAB(list(range(arms)), MABWISER[name](mabwiser)))(generator, arms)

    mb.testing.check_policy(mb.from_river(RIVER[name](river)))
    mb.testing.check_policy(build)


def test_river_matches_adapter_by_hand(river: Lib) -> None:
    class ByHand:
        def __init__(self, generator: np.random.Generator, arms: int) -> None:
            self.policy = river.bandit.EpsilonGreedy(0.2, seed=int(generator.integers(1 << 32)))
            self.arms = list(range(arms))

        def choose(self) -> int:
            return self.policy.pull(self.arms)  # type: ignore[no-any-return]

        def observe(self, arm: int, feedback: float) -> None:
            self.policy.update(arm, feedback)

    assert play(mb.from_river(river.bandit.EpsilonGreedy(0.2))) == play(ByHand)


def test_mabwiser_matches_adapter_by_hand(mabwiser: Lib) -> None:
    class ByHand:
        def __init__(self, generator: np.random.Generator, arms: int) -> None:
            seed = int(generator.integers(1 << 32))
            self.policy = mabwiser.MAB(list(range(arms)), mabwiser.LearningPolicy.EpsilonGreedy(0.2), seed=seed)
            self.unseen = list(range(arms))

        def choose(self) -> int:
            return self.unseen[0] if self.unseen else self.policy.predict()

        def observe(self, arm: int, feedback: float) -> None:
            if arm in self.unseen:
                self.unseen.remove(arm)
            self.policy.partial_fit([arm], [feedback])

    mab = mabwiser.MAB([0, 1], mabwiser.LearningPolicy.EpsilonGreedy(0.2))
    assert play(mb.from_mabwiser(mab)) == play(ByHand)


def test_river_runs_share_nothing(river: Lib) -> None:
    factory = mb.from_river(river.bandit.EpsilonGreedy(0))
    one, other = (factory(np.random.default_rng(1), 2) for _ in range(2))
    one.observe(1, 1.0)
    assert (one.choose(), other.choose()) == (1, 0)


def test_parameters_of_river_are_not_shared(river: Lib) -> None:
    """What a scaler has seen changes what the next rewards become."""
    policy = river.bandit.UCB(1, reward_scaler=river.preprocessing.TargetStandardScaler(None))
    factory = mb.from_river(policy)
    one, other = (factory(np.random.default_rng(1), 2) for _ in range(2))
    for feedback in (1.0, 7.0, 9.0):
        one.observe(0, feedback)
        policy.update(0, feedback)
    third = factory(np.random.default_rng(1), 2)
    for each in (one, other, third):
        for feedback in (5.0, 6.0):
            each.observe(1, feedback)
    rewards = [[line for line in repr(each.policy).splitlines() if line.split()[0] == "1"] for each in (one, other)]
    assert repr(other.policy) == repr(third.policy)
    assert rewards[0] != rewards[1]


def test_mabwiser_runs_share_nothing(mabwiser: Lib) -> None:
    factory = mb.from_mabwiser(mabwiser.MAB([0, 1], mabwiser.LearningPolicy.EpsilonGreedy(0)))
    one, other = (factory(np.random.default_rng(1), 2) for _ in range(2))
    for policy, feedbacks in ((one, (0.0, 1.0)), (other, (1.0, 0.0))):
        for arm, feedback in enumerate(feedbacks):
            policy.observe(arm, feedback)
    assert (one.choose(), other.choose()) == (1, 0)


def test_prototype_stays_and_its_past_does_not_count(river: Lib, mabwiser: Lib) -> None:
    greedy = river.bandit.EpsilonGreedy(0.2)
    softmax = mabwiser.MAB([0, 1], mabwiser.LearningPolicy.Softmax())
    before = play(mb.from_river(greedy)), play(mb.from_mabwiser(softmax))
    assert (greedy.ranking, softmax.cold_arms) == ([], [0, 1])
    early = mb.from_river(greedy), mb.from_mabwiser(softmax)
    for _ in range(50):
        greedy.update(0, 1.0)
        softmax.partial_fit([0, 1], [1.0, 0.0])
    assert (play(mb.from_river(greedy)), play(mb.from_mabwiser(softmax))) == before
    softmax.add_arm(2)
    assert (play(early[0]), play(early[1])) == before


def test_names_of_arms_do_not_matter(mabwiser: Lib) -> None:
    policy = mabwiser.LearningPolicy.Softmax(0.3)
    expected = play(mb.from_mabwiser(mabwiser.MAB([0, 1], policy)))
    for names in (["b", "a"], [1, 0], [0.5, "x"]):
        assert play(mb.from_mabwiser(mabwiser.MAB(names, policy))) == expected


def test_arms_without_feedback_take_turns(mabwiser: Lib) -> None:
    policy = mb.from_mabwiser(mabwiser.MAB(["a", "b", "c"], mabwiser.LearningPolicy.UCB1()))(
        np.random.default_rng(1), 3
    )
    assert [policy.choose() for _ in range(5)] == [0, 1, 2, 0, 1]
    policy.observe(0, 1.0)
    assert [policy.choose() for _ in range(4)] == [2, 1, 2, 1]
    policy.observe(2, 0.0)
    policy.observe(0, 1.0)
    assert policy.choose() == 1
    policy.observe(1, 0.0)
    assert policy.choose() == 0


def test_first_pulls_try_each_arm_once(mabwiser: Lib) -> None:
    factory = mb.from_mabwiser(mabwiser.MAB([0, 1, 2], mabwiser.LearningPolicy.UCB1()))
    problem = mb.Problem([0.2, 0.5, 0.8], [0], 10, mb.RandomizedResponse(0.9, 0.8))
    result = mb.simulate(problem, factory, runs=4, checkpoints=[1, 2, 3], progress=False)
    assert result.pulls_over_time.tolist() == [[4, 0, 0], [4, 4, 0], [4, 4, 4]]


def test_lost_reports_do_not_stop_cold_start(mabwiser: Lib) -> None:
    play(mb.from_mabwiser(mabwiser.MAB([0, 1], mabwiser.LearningPolicy.UCB1())), lost=0.9)


def test_wrong_number_of_arms_is_one_line(mabwiser: Lib) -> None:
    factory = mb.from_mabwiser(mabwiser.MAB([0, 1, 2], mabwiser.LearningPolicy.UCB1()))
    refuse(play, factory, "^UCB1: the MAB has 3 arms, the problem 2: make one to fit$")


@pytest.mark.parametrize("given", [3, None, "ucb", object()])
def test_wrong_object_is_refused(given: Any) -> None:
    refuse(mb.from_river, given, r"has no pull\(\): give a policy of river.bandit")
    refuse(mb.from_mabwiser, given, r"has no partial_fit\(\): give a MAB of mabwiser.mab")


def test_each_adapter_refuses_the_other_library(river: Lib, mabwiser: Lib) -> None:
    refuse(mb.from_river, mabwiser.MAB([0, 1], mabwiser.LearningPolicy.UCB1()), r"has no pull\(\)")
    refuse(mb.from_mabwiser, river.bandit.EpsilonGreedy(0.1), r"has no partial_fit\(\)")


def test_class_is_refused(river: Lib, mabwiser: Lib) -> None:
    refuse(mb.from_river, river.bandit.RandomPolicy, "class RandomPolicy: give an object")
    refuse(mb.from_mabwiser, mabwiser.MAB, "class MAB: give an object")


def test_contextual_policy_is_refused(river: Lib, mabwiser: Lib) -> None:
    refuse(mb.from_river, river.bandit.LinUCBDisjoint(), "LinUCBDisjoint expects a context")
    linear, nearest = mabwiser.LearningPolicy.LinUCB(), mabwiser.NeighborhoodPolicy.KNearest(3)
    for mab in (mabwiser.MAB([0, 1], linear), mabwiser.MAB([0, 1], mabwiser.LearningPolicy.Softmax(), nearest)):
        refuse(mb.from_mabwiser, mab, "expects contexts")


def test_policy_that_cannot_be_copied_is_refused(river: Lib, mabwiser: Lib) -> None:
    class Forgetful(river.bandit.RandomPolicy):  # type: ignore[misc]
        def __init__(self, share: float) -> None:
            super().__init__()

    class Other(mabwiser.MAB):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__([0, 1], mabwiser.LearningPolicy.UCB1())

    refuse(mb.from_river, Forgetful(0.3), r"Forgetful.clone\(\) failed: AttributeError")
    refuse(mb.from_mabwiser, Other(), "copy of a Other failed: TypeError")


def test_policy_without_seed_plays() -> None:
    class Last:
        def clone(self, changed: dict[str, Any]) -> "Last":
            assert changed == {}
            return Last()

        def pull(self, arms: list[int]) -> int:
            return arms[-1]

        def update(self, arm: int, feedback: float) -> None:
            pass

    assert play(mb.from_river(Last())) == [pytest.approx([0, 0, 6, 18, 30])] * 3


def test_factories_are_named_and_pickled(river: Lib, mabwiser: Lib) -> None:
    greedy = mb.from_river(river.bandit.EpsilonGreedy(0.1))
    ucb = mb.from_mabwiser(mabwiser.MAB([0, 1], mabwiser.LearningPolicy.UCB1()))
    assert (repr(greedy), repr(ucb)) == ("from_river(EpsilonGreedy)", "from_mabwiser(UCB1)")
    for factory in (greedy, ucb):
        assert play(pickle.loads(pickle.dumps(factory))) == play(factory)  # noqa: S301 -- our own
