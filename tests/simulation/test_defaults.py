"""Named policies in `simulate` know what the problem knows."""

from typing import Any

import numpy as np
import pytest

from maskedbandits import LaplaceNoise, Monotone, Problem, RandomizedResponse, make_policy, simulate, theory
from maskedbandits.errors import UserError
from maskedbandits.policies import KINDS
from maskedbandits.simulation.defaults import find_epsilon

RR = RandomizedResponse.from_epsilon(1.0)
PROBLEM = Problem([[0.2, 0.7], [0.7, 0.2], [0.7, 0.3]], [0, 300, 500], 600, RR)
FILLED: dict[str, dict[str, Any]] = {
    "oracle": {"restarts": [0, 300, 500], "best": [1, 0, 0]},
    "oracle-klucb-cf": {"restarts": [0, 300, 500]},
    "exp3s": {"horizon": 600, "changes": 2},
    "klucb-plus-cf": {"horizon": 600},
}


@pytest.mark.parametrize("name", FILLED)
def test_missing_parameters_follow_from_the_problem(name: str) -> None:
    policy = make_policy(name, arms=2, corruption=RR, **FILLED[name])
    explicit, filled = (simulate(PROBLEM, each, runs=2, seed=3) for each in (policy, name))
    assert np.array_equal(explicit.regret, filled.regret)


def test_every_policy_plays_by_name() -> None:
    """Only a memory is a choice that the problem leaves open."""
    for name, kind in KINDS.items():
        required = {key for key, parameter in kind.parameters.items() if parameter.required}
        given = {"window": "corrected"} if "window" in required else {"gamma": 0.9} if "gamma" in required else {}
        assert simulate(PROBLEM, name, runs=1, checkpoints=1, **given).runs == 1


@pytest.mark.parametrize("rule", ["paper", "lambert"])
def test_window_may_be_a_rule(rule: str) -> None:
    window = {"paper": theory.paper_window, "lambert": theory.lambert_window}[rule](600, 3)
    ruled, given = (simulate(PROBLEM, "sw-klucb-cf", runs=2, window=each) for each in (rule, window))
    assert np.array_equal(ruled.regret, given.regret)


@pytest.mark.parametrize(
    ("policy", "given", "complaint"),
    [
        ("auto", {"run": 5}, "did you mean 'runs'"),
        ("auto", {"label": "mine"}, "label"),
        ("sw-klucb-cf", {"windw": 5}, "did you mean 'window'"),
        ("sw-klucb-cf", {"window": "papr"}, "papr.*paper"),
        (make_policy("auto", arms=2, corruption=RR), {"contamination": 0.1}, "contamination"),
        (make_policy("auto", arms=2, corruption=RR), {"thread": 1}, "did you mean 'threads'"),
    ],
)
def test_unknown_arguments_are_refused(policy: Any, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        simulate(PROBLEM, policy, runs=1, **given)


@pytest.mark.parametrize(
    ("corruption", "epsilon"),
    [
        (RR, 1.0),
        ([RR, RR], 1.0),
        ([RR, RandomizedResponse.from_epsilon(2.0)], None),
        (Monotone(lambda mean: mean**2), None),
        (LaplaceNoise(1.0), None),
    ],
)
def test_epsilon_is_that_of_a_shared_response(corruption: Any, epsilon: float | None) -> None:
    found = find_epsilon(Problem([0.2, 0.7], [0], 10, corruption))
    assert found == (epsilon if epsilon is None else pytest.approx(epsilon))
