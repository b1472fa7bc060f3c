"""Many arms that are alike: one stands for all, and the choice is what it would be if all were looked at."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.private import live_state
from maskedbandits import RandomizedResponse, load_policy, make_policy
from maskedbandits.policies.policy import Policy
from specimens import RR
from trials import examples

NAMES: dict[str, dict[str, Any]] = {
    "klucb-cf": {},
    "ucb-cf": {},
    "d-ucb-cf": {"gamma": 0.9999},
    "d-klucb-cf": {"gamma": 0.9999},
    "sw-klucb-cf": {"window": 150},
    "glr-klucb-cf": {"local": True},
}


def check_choice(policy: Policy) -> int:
    """The choice has the highest score, and is the lowest arm that has it."""
    arm, scores = policy.choose(), policy.indices()
    assert arm == np.flatnonzero(scores == scores.max())[0]
    return arm


@pytest.mark.parametrize("name", NAMES)
@examples(15)
@given(data=st.data())
def test_lowest_arm_of_highest_score_is_chosen(name: str, data: st.DataObject) -> None:
    """Arms are observed that were not chosen, too; one arm in some is masked in another way."""
    arms = data.draw(st.integers(20, 60), label="arms")
    rng = np.random.default_rng(data.draw(st.integers(0, 99), label="seed"))
    share = data.draw(st.sampled_from([0.0, 0.3, 1.0]), label="bits that are 1")
    odd = data.draw(st.sampled_from([0.0, 0.2]), label="arms that are masked in another way")
    other = RandomizedResponse(0.9, 0.7)
    masks = [other if rng.random() < odd else RR for _ in range(arms)]
    given = {**NAMES[name], **({"exploration": 0.0} if name.startswith("glr") else {})}
    policy = make_policy(name, arms=arms, corruption=masks, **given)
    for _ in range(4 * arms):
        arm = check_choice(policy)
        if rng.random() < 0.2:
            policy.expire(arm)
            arm = int(rng.integers(arms))
        policy.observe(arm, float(rng.random() < share))


def tied(name: str, arms: int) -> Policy:
    """A policy that has seen every arm once, and some of them again."""
    policy = make_policy(name, arms=arms, corruption=RR, **NAMES[name])
    rng = np.random.default_rng(1)
    for _ in range(arms + 200):
        policy.observe(policy.choose(), float(rng.random() < 0.5))
    return policy


@pytest.mark.parametrize("name", ["klucb-cf", "ucb-cf", "d-ucb-cf"])
def test_step_looks_at_few_of_many_equal_arms(name: str) -> None:
    """Those that a search would look at are the arms whose ceiling is above the best score: once half of all were."""
    policy = tied(name, 3000)
    leaves = int(policy.snapshot().scalars[0].leaves)
    ceilings = policy.snapshot().values[leaves : leaves + policy.arms]
    assert np.sum(ceilings >= policy.indices().max()) < 60
    assert policy.snapshot().scalars[0].waiting > 500


@pytest.mark.parametrize("name", ["klucb-cf", "d-ucb-cf"])
def test_saved_policy_continues_exactly(name: str, tmp_path: Path) -> None:
    one = tied(name, 300)
    assert one.snapshot().scalars[0].waiting > 0
    one.save(tmp_path / "policy")
    copy = load_policy(tmp_path / "policy", exact=True)
    for bit in np.random.default_rng(2).integers(0, 2, 300):
        arm = check_choice(one)
        assert copy.choose() == arm
        one.observe(arm, float(bit))
        copy.observe(arm, float(bit))


@pytest.mark.parametrize("section", ["leaders", "followers", "nexts", "befores"])
@examples(20)
@given(data=st.data())
def test_damaged_order_is_refused(section: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A circle of arms that wait for each other would never end."""
    policy = tied("klucb-cf", 300)
    path = tmp_path_factory.mktemp("saved") / "policy"
    numbers = getattr(live_state(policy), section)
    arm, value = data.draw(st.integers(0, 299), label="arm"), data.draw(st.integers(-1, 299), label="value")
    same = numbers[arm] == value
    numbers[arm] = value
    policy.save(path)
    if same:
        load_policy(path)
    else:
        with pytest.raises(ValueError, match=r"not in order|range"):
            load_policy(path)
