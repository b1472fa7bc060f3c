"""Arms come and go while a policy is at work, and some of them are chosen among."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector_settings import DETECTORS
from helpers.private import live_state
from log_digests import OFFERED, fresh
from maskedbandits import (
    GaussianNoise,
    Monotone,
    Policy,
    Problem,
    RandomizedResponse,
    load_policy,
    make_policy,
    simulate,
)
from maskedbandits.policies import KINDS, names, serialization
from specimens import CERTAIN, RR, specimen
from twins import changing

MASKS = [RR, RandomizedResponse(0.9, 0.8), RandomizedResponse(0.2, 0.1)]


class TestAdding:
    @pytest.mark.parametrize(
        "name", [each for each in OFFERED if each == "auto" or each[:2] not in ("gl", "cu", "ph", "m-")]
    )
    @pytest.mark.parametrize("arms", [1, 4, 5])
    def test_arm_added_first_equals_initial_arm(self, name: str, arms: int) -> None:
        later, at_once = fresh(name, arms, 3), fresh(name, arms + 2, 3)
        assert [later.add_arm(), later.add_arm()] == [arms, arms + 1]
        assert later.fold_digest() == at_once.fold_digest()
        for bit in changing(1, 200):
            arm = later.choose()
            assert at_once.choose() == arm
            for policy in (later, at_once):
                policy.observe(arm, bit)
        assert later.fold_digest() == at_once.fold_digest()

    @pytest.mark.parametrize("name", OFFERED)
    def test_added_arm_keeps_what_was_learned(self, name: str) -> None:
        policy = played(name)
        before = policy.snapshot()
        before_retirement = policy.estimates(), policy.intervals(), policy.indices(), policy.pending
        for _ in range(6):  # through 4 and 8 leaves of the tournament
            arm = policy.add_arm()
            assert math.isnan(policy.estimates()[arm])
        for one, other in zip(
            before_retirement, (policy.estimates(), policy.intervals(), policy.indices(), policy.pending), strict=True
        ):
            assert np.array_equal(one, other[: before.counts.size], equal_nan=True)
        for key in ("counts", "sums", "lows", "rates"):
            assert np.array_equal(getattr(before, key), getattr(policy.snapshot(), key)[: before.counts.size])

    @pytest.mark.parametrize("name", OFFERED)
    def test_added_arm_is_explored(self, name: str) -> None:
        """An arm that is better is found; one that is not is looked at and left."""
        policy = specimen(name, arms=3, corruption=CERTAIN, seed=5)
        rng = np.random.default_rng(5)
        means, pulls = [0.2, 0.3, 0.1], np.zeros(5, dtype=np.int64)
        for step in range(900):
            if step in (300, 600):
                means.append({300: 0.15, 600: 0.95}[step])
                assert policy.add_arm() == len(means) - 1
                pulls[:] = 0
            arm = policy.choose()
            pulls[arm] += 1
            policy.observe(arm, float(rng.random() < means[arm]))
            if step == 599:
                assert 0 < pulls[3] < 200
        assert pulls[4] > 150

    def test_added_arm_has_common_or_given_mask(self) -> None:
        shared = make_policy("klucb-cf", arms=2, corruption=[RR, RandomizedResponse(RR.p00, RR.p11)])
        shared.add_arm()
        assert np.array_equal(shared.snapshot().lows, [shared.snapshot().lows[0]] * 3)
        mixed = make_policy("klucb-cf", arms=2, corruption=MASKS[:2])
        with pytest.raises(ValueError, match="new arm"):
            mixed.add_arm()
        assert mixed.arms == 2
        nodes = mixed.snapshot().scalars[0].nodes
        mixed.add_arm(MASKS[1])  # whose nodes are there
        assert mixed.snapshot().scalars[0].nodes == nodes
        mixed.add_arm(MASKS[2])
        curve = Monotone(lambda x: 0.1 + 0.8 * x * x)
        mixed.add_arm(curve)
        mixed.observe(4, 1)
        expected = make_policy("klucb-cf", arms=5, corruption=[*MASKS[:2], MASKS[1], MASKS[2], curve])
        expected.observe(4, 1)
        assert mixed.fold_digest() == expected.fold_digest()

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
    def test_contamination_leaves_other_arms_exact(self, share: float) -> None:
        policy = make_policy("sw-klucb-cf", arms=2, corruption=MASKS[0], window=20, contamination=share)
        whole = make_policy(
            "sw-klucb-cf", arms=4, corruption=[MASKS[0]] * 3 + [MASKS[1]], window=20, contamination=share
        )
        policy.add_arm()
        policy.add_arm(MASKS[1])
        assert policy.fold_digest() == whole.fold_digest()

    def test_window_must_hold_all_arms(self) -> None:
        policy = make_policy("sw-klucb-cf", arms=2, corruption=RR, window=3)
        policy.add_arm()
        with pytest.raises(ValueError, match="window"):
            policy.add_arm()
        assert policy.arms == 3

    @pytest.mark.parametrize(
        ("name", "arms", "added", "complaint"),
        [
            ("klucb-cf", RR, GaussianNoise(1.0), "leave out corruption"),
            ("klucb-cf", GaussianNoise(1.0), RR, "leave out corruption"),
            ("klucb-cf", RR, 0.5, "corruption of arm 2 is 0.5"),
            ("auto", RR, [RR, RR], "corruption of arm 2"),
        ],
    )
    def test_incompatible_masks_are_refused(self, name: str, arms: Any, added: Any, complaint: str) -> None:
        policy = make_policy(name, arms=2, corruption=arms)
        with pytest.raises(ValueError, match=complaint) as caught:
            policy.add_arm(added)
        assert "\n" not in str(caught.value)
        assert policy.add_arm() == 2

    @pytest.mark.parametrize("name", ["klucb-cf", "auto"])
    def test_curved_mask_after_masked_reports_is_refused(self, name: str) -> None:
        policy = make_policy(name, arms=2, corruption=RR)
        policy.observe(0, 1, corruption=MASKS[1])
        with pytest.raises(ValueError, match="RandomizedResponse"):
            policy.add_arm(Monotone(lambda x: 0.1 + 0.8 * x * x))
        assert policy.add_arm(MASKS[2]) == 2
        policy.observe(2, 1, corruption=MASKS[1])


def played(name: str, arms: int = 3) -> Policy:
    policy = fresh(name, arms, 4)
    for step, bit in enumerate(changing(1, 150)):
        policy.observe(policy.choose(), bit, corruption=MASKS[1] if step % 5 == 0 and step > 100 else None)
    policy.choose(5)
    return policy


class TestRetiring:
    @pytest.mark.parametrize("name", OFFERED)
    def test_retired_arm_is_never_chosen(self, name: str) -> None:
        policy = played(name, arms=5)
        before = policy.fold_digest()
        policy.retire(1)
        policy.retire(4)
        assert policy.retired.tolist() == [False, True, False, False, True]
        assert policy.fold_digest() != before
        chosen = [*policy.choose(50), *policy.sample(50), *np.flatnonzero(policy.probabilities(draws=500))]
        for bit in changing(2, 250):
            chosen.append(policy.choose())
            policy.observe(chosen[-1], bit)
            policy.observe(1, bit)  # as reports that come late
        assert set(chosen) <= {0, 2, 3}
        assert np.array_equal(np.isneginf(policy.indices()), policy.retired)

    @pytest.mark.parametrize("name", OFFERED)
    def test_late_reports_of_retired_arm_count(self, name: str) -> None:
        one, other = played(name), played(name)
        one.retire(2)
        assert np.array_equal(one.estimates(), other.estimates(), equal_nan=True)
        assert np.array_equal(one.intervals(), other.intervals())
        before = one.pending[2]
        one.observe_many([2, 2], [1, 1], [None, MASKS[1]])
        assert one.observations == other.observations + 2
        assert one.pending[2] == max(before - 2, 0)

    def test_last_arm_cannot_retire(self) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR)
        policy.retire(0)
        with pytest.raises(ValueError, match="retired"):
            policy.retire(0)
        policy.retire(2)
        with pytest.raises(ValueError, match="last"):
            policy.retire(1)
        with pytest.raises(ValueError, match="arm 3"):
            policy.retire(3)
        assert policy.choose() == 1
        assert policy.add_arm() == 3
        policy.retire(1)
        assert policy.choose(9).tolist() == [3] * 9

    @pytest.mark.parametrize("name", [each for each in OFFERED if KINDS[each].code.get("detector")])
    def test_forced_exploration_skips_retired_arm(self, name: str) -> None:
        """The arm that is to be looked at next goes: all others are still looked at."""
        settings = DETECTORS[name.partition("-")[0]][0]
        policy = make_policy(name, arms=4, corruption=CERTAIN, exploration=3.0, prior_changes=3.0, **settings)
        means, seen, rng = [0.9, 0.1, 0.1, 0.1], np.zeros(4, dtype=np.int64), np.random.default_rng(3)
        for step in range(1200):
            if step == 300:
                policy.retire(int(policy.snapshot().scalars[0].explore_arm))
            arm = policy.choose()
            seen[arm] += step > 900
            policy.observe(arm, float(rng.random() < means[arm]))
        assert np.array_equal(seen == 0, policy.retired)

    def test_arms_tied_with_retired_arm_return(self) -> None:
        """Forty arms that are alike: one leads most of the others."""
        policy = make_policy("klucb-cf", arms=40, corruption=CERTAIN)
        policy.observe_many(np.repeat(np.arange(40), 2), [1, 0] * 40)
        policy.choose()
        policy.expire(0)
        state = policy.snapshot()
        assert state.scalars[0].waiting > 10
        left = set(range(40))
        for _ in range(39):
            arm = policy.choose()
            policy.expire(arm)
            assert arm == min(left)  # of equals the lowest
            policy.retire(arm)
            left.remove(arm)
            assert serialization.loads(serialization.dumps(policy)).retired.sum() == 40 - len(left)

    def test_simulation_starts_with_all_arms(self) -> None:
        problem = Problem([[0.9, 0.4, 0.2]], [0], 500, RR)
        policy = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=50)
        expected = simulate(problem, policy, runs=2, seed=1).pulls
        policy.retire(0)
        assert np.array_equal(simulate(problem, policy, runs=2, seed=1).pulls, expected)
        assert policy.retired[0]


class TestChoosingAmong:
    @pytest.mark.parametrize("name", OFFERED)
    def test_choice_among_all_arms_is_the_usual_one(self, name: str) -> None:
        policy = played(name)
        for pending in ([0, 0, 0], [1, 5, 0]):
            policy.await_exactly(pending)
            among, ever = copy.copy(policy), copy.copy(policy)
            assert among.choose(30, among=[2, 0, 1, 1]).tolist() == ever.choose(30).tolist()
            assert among.pending.tolist() == ever.pending.tolist()
            among, ever = copy.copy(policy), copy.copy(policy)
            assert among.sample(30, among=range(3)).tolist() == ever.sample(30).tolist()
            assert among.pending.tolist() == pending

    @pytest.mark.parametrize("name", OFFERED)
    def test_choice_among_some_changes_only_pending(self, name: str) -> None:
        policy = played(name)
        before = policy.fold_digest()
        policy.await_exactly([0, 0, 0])
        assert policy.choose(among=[2]) == 2
        assert policy.choose(4, among=[1]).tolist() == [1] * 4
        assert policy.sample(4, among=[1]).tolist() == [1] * 4
        assert policy.choose(0, among=[1]).size == 0
        assert policy.pending.tolist() == [0, 4, 1]
        assert not policy.retired.any()
        assert policy.fold_digest() == before

    @pytest.mark.parametrize(
        ("among", "complaint"),
        [
            ([], "list.*at least one"),
            (3, "a list of arms"),
            ("ab", "a list of arms"),
            ([0.5], "a list of arms"),
            ([True], "a list of arms"),
            ([[0], [1, 2]], "a list of arms"),
            ([0, 3], "arm 3.*not exist"),
            ([-1], "arm -1.*not exist"),
            ([0, 1], "arm 1 is retired"),
        ],
    )
    def test_invalid_arms_are_refused(self, among: Any, complaint: str) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR)
        policy.retire(1)
        calls: list[Callable[[], object]] = [
            lambda: policy.choose(among=among),
            lambda: policy.choose(2, among=among),
            lambda: policy.sample(2, among=among),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=complaint) as caught:
                call()
            assert "\n" not in str(caught.value)
        assert policy.pending.sum() == 0
        assert policy.retired.tolist() == [False, True, False]


@pytest.mark.parametrize("name", [each for each in names() if not KINDS[each].takes_arms])
def test_policies_with_fixed_arms_refuse_changes(name: str) -> None:
    policy = specimen(name)
    calls: list[Callable[[], object]] = [
        policy.add_arm,
        lambda: policy.retire(0),
        lambda: policy.choose(among=[0]),
        lambda: policy.sample(1, among=[0]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="arms") as caught:
            call()
        assert "\n" not in str(caught.value)


class TestSaves:
    @pytest.mark.parametrize("name", OFFERED)
    def test_saved_policy_continues_exactly(self, name: str, tmp_path: Path) -> None:
        one = played(name)
        one.add_arm(MASKS[2])
        one.retire(1)
        one.save(tmp_path / "policy")
        other = load_policy(tmp_path / "policy", exact=True)
        assert other.fold_digest() == one.fold_digest()
        assert other.retired.tolist() == [False, True, False, False]
        for policy in (one, other):
            policy.add_arm(RR)
        for bit in changing(6, 120):
            arm = one.choose()
            assert other.choose() == arm
            for policy in (one, other):
                policy.observe(arm, bit)
        assert other.fold_digest() == one.fold_digest()

    def test_contradictory_file_is_refused(self, tmp_path: Path) -> None:
        def refused(change: Callable[[Any], None], complaint: str, name: str = "glr-klucb-cf") -> None:
            policy = specimen(name)
            for bit in changing(6, 40):
                policy.observe(policy.choose(), bit)
            policy.retire(1)
            change(live_state(policy))
            policy.save(tmp_path / "policy")
            with pytest.raises(ValueError, match=complaint):
                load_policy(tmp_path / "policy")

        refused(lambda state: state.closed.__setitem__(0, 1), "closed as are retired")
        refused(lambda state: state.closed.__setitem__(1, 2), "out of range")
        refused(lambda state: state.scalars.retired.__setitem__(0, 3), "out of range")
        refused(lambda state: state.scalars.explore_arm.__setitem__(0, 1), "look at an arm that is retired")
        refused(lambda state: state.values.__setitem__(state.scalars[0].leaves + 1, 1.0), "scores are not in order")
        refused(lambda state: state.scalars.settled.__setitem__(0, 1), "out of range", "sw-klucb-cf")
