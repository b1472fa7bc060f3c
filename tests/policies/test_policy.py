"""What a user holds: what it refuses, what it shows, and copies of it."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from maskedbandits import Monotone, Policy, Problem, load_policy, make_policy, simulate
from specimens import ALONE, RR, specimen
from twins import stream


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "sw-klucb"}, "did you mean 'sw-klucb-cf'"),
        ({"name": "zzz"}, "known are"),
        ({"window": 2}, "window 2.*arms 3"),
        ({"window": 0}, "window = 0.*least 1"),
        ({"window": 10.5}, "window"),
        ({"window": math.nan}, "window"),
        ({"window": "paper"}, "window"),
        ({"window": 2**33}, "give math.inf"),
        ({"window": ...}, "requires the parameter 'window'"),
        ({"windw": 10}, "did you mean 'window'"),
        ({"c": -1}, "c = -1"),
        ({"c": math.nan}, "c = nan"),
        ({"c": "3"}, "c = '3'"),
        ({"arms": 0}, "arms"),
        ({"arms": 2.5}, "arms"),
        ({"corruption": None}, "requires corruption"),
        ({"corruption": [RR]}, "1 corruptions for 3 arms"),
    ],
)
def test_invalid_policy_is_refused_in_one_line(settings: dict[str, Any], complaint: str) -> None:
    given = {"name": "sw-klucb-cf", "arms": 3, "corruption": RR, "window": 10, **settings}
    given = {key: value for key, value in given.items() if value is not ...}
    with pytest.raises(ValueError, match=complaint) as caught:
        make_policy(given.pop("name"), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changed", "complaint"),
    [
        ("exp3s", {"horizon": ...}, "requires the parameter 'horizon'"),
        ("exp3s", {"horizon": None}, "requires the parameter 'horizon'"),
        ("exp3s", {"changes": 0}, "changes = 0"),
        ("rexp3", {"variation": -1}, "variation = -1"),
        ("rexp3", {"variation": ...}, "requires the parameter 'variation'"),
        ("adswitch", {"strictness": "a"}, "strictness"),
        ("adswitch", {"finest": 1}, "finest"),
        ("oracle", {"best": [0, 1]}, "2 arms.*3 segments"),
        ("oracle", {"best": [0, 1, 3]}, "numbered 0 to 2"),
        ("oracle", {"best": [0, 1, -1]}, "best"),
        ("oracle", {"best": "012"}, "best"),
        ("oracle", {"best": np.array([0.7, 0.9, 0.8])}, "problem.best_arms has arms, problem.best their means"),
        ("oracle", {"best": np.array([1.0, 0.0, 1.0])}, "problem.best_arms has arms, problem.best their means"),
        ("oracle", {"restarts": [1, 2, 3]}, "the first of them 0"),
        ("oracle", {"restarts": "doubling"}, "the first of them 0"),
        ("oracle", {"restarts": [], "best": []}, "the first of them 0"),
        ("dp-ucb", {"epsilon": 0}, "epsilon = 0"),
        ("ldp-ucb-l", {"epsilon": math.nan}, "epsilon = nan"),
        ("ldp-ucb-l", {"epsilon": True}, "epsilon = True"),
    ],
)
def test_invalid_parameter_is_refused_in_one_line(name: str, changed: dict[str, Any], complaint: str) -> None:
    given = {key: value for key, value in {**ALONE[name], **changed}.items() if value is not ...}
    with pytest.raises(ValueError, match=complaint) as caught:
        make_policy(name, arms=3, corruption=RR, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["exp3s", "rexp3", "adswitch"])
def test_curve_cannot_be_debiased(name: str) -> None:
    with pytest.raises(ValueError, match="RandomizedResponse"):
        make_policy(name, arms=2, corruption=Monotone(lambda x: 0.1 + 0.8 * x * x), **ALONE[name])


def test_starts_of_problem_are_restart_times() -> None:
    starts = np.array([0, 10, 20])
    assert make_policy("klucb-cf", arms=2, corruption=RR, restarts=starts).parameters["restarts"] == [0, 10, 20]


class TestReadOnly:
    """Compiled code trusts what a policy says of itself: nobody else may change it."""

    def test_arms_cannot_be_added(self) -> None:
        policy: Any = make_policy("klucb-cf", arms=3, corruption=RR)
        with pytest.raises(AttributeError):
            policy.arms += 1
        with pytest.raises(ValueError, match="arm 3"):
            policy.observe(policy.arms, 0)
        assert policy.observations == 0

    @pytest.mark.parametrize(
        "attribute", ["name", "arms", "kind", "parameters", "contamination", "observations", "alarms", "entries", "new"]
    )
    def test_attributes_cannot_be_set(self, attribute: str) -> None:
        policy: Any = make_policy("klucb-cf", arms=3, corruption=RR)
        with pytest.raises(AttributeError):
            setattr(policy, attribute, 1)

    def test_parameters_cannot_be_set(self) -> None:
        parameters: Any = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=10).parameters
        with pytest.raises(TypeError):
            parameters["window"] = 20

    def test_given_list_may_change_later(self) -> None:
        times = [0, 10]
        policy = make_policy("klucb-cf", arms=3, corruption=RR, restarts=times)
        times.append(5)
        assert policy.parameters["restarts"] == [0, 10]
        assert copy.copy(policy).parameters["restarts"] == [0, 10]


DRAWS = np.random.default_rng(8).random(200)


class TestCopies:
    """A copy knows the same, and goes its own way."""

    @pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
    @pytest.mark.parametrize("name", ["sw-klucb-cf", "auto", "glr-ts-cf"])
    def test_copy_is_independent_and_continues_alike(self, make: Any, name: str) -> None:
        one = specimen(name)
        stream(one, DRAWS[:60])
        other = make(one)
        before = other.snapshot()
        chosen = stream(one, DRAWS[60:])
        assert all(np.array_equal(*arrays) for arrays in zip(other.snapshot(), before, strict=True))
        assert stream(other, DRAWS[60:]) == chosen
        assert np.array_equal(one.indices(), other.indices())
        assert (other.name, other.arms, other.parameters) == (one.name, one.arms, one.parameters)

    @pytest.mark.parametrize("name", ["sw-klucb-cf", "auto"])
    def test_pickled_policy_knows_the_same(self, name: str) -> None:
        one = specimen(name)
        stream(one, DRAWS[:60])
        other: Policy = pickle.loads(pickle.dumps(one))  # noqa: S301 -- our own
        assert np.array_equal(one.indices(), other.indices())
        assert (other.name, other.parameters, other.observations) == (one.name, one.parameters, 60)
        if name == "auto":  # several processes that are handed one should not all draw the same
            assert not np.array_equal(other.snapshot().rng, one.snapshot().rng)
        else:
            assert stream(other, DRAWS[60:]) == stream(one, DRAWS[60:])

    def test_copy_with_masked_reports(self) -> None:
        one = specimen("sw-klucb-cf")
        one.observe(0, 1, RR)
        other = copy.copy(one)
        for policy in (one, other):
            policy.observe(1, 0, RR)
            policy.observe(2, 0)
        assert np.array_equal(one.indices(), other.indices())


def test_simulator_refuses_subclass(tmp_path: Any) -> None:
    class Mine(Policy):
        def choose(self) -> int:  # type: ignore[override]
            return 0

    plain = make_policy("klucb-cf", arms=2, corruption=RR)
    mine = Mine(plain.kind, plain.parameters, plain.snapshot(), plain.snapshot().rng)
    problem = Problem([[0.1, 0.9]], [0], 100, RR)
    with pytest.raises(ValueError, match=r"fresh.*every run") as caught:
        simulate(problem, mine, runs=1)
    assert "\n" not in str(caught.value)
    mine.save(tmp_path / "mine")
    assert type(load_policy(tmp_path / "mine")) is Policy
