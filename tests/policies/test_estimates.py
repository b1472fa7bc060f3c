import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import RandomizedResponse, make_policy
from naive import Twin
from specimens import INDICES, MEMORIES, RR
from trials import examples
from twins import feedbacks, play_both, responses


@pytest.mark.plain
class TestContamination:
    """A share of the reports may be lies: bounds are wider by what so many lies can do."""

    @pytest.mark.parametrize("kind", INDICES)
    @pytest.mark.parametrize("before", MEMORIES)
    @examples(10)
    @given(data=st.data())
    def test_index_with_contamination_equals_twin(self, before: str, kind: str, data: st.DataObject) -> None:
        each = [data.draw(responses(), label="g") for _ in range(2)]
        share = data.draw(st.sampled_from([0.0, 0.05, 0.3]), label="share")
        seen = data.draw(feedbacks(25), label="feedbacks")
        own = [data.draw(st.sampled_from([None, RR, RandomizedResponse(0.1, 0.3)])) for _ in seen]
        given = {**MEMORIES[before], **INDICES[kind]}
        fast = make_policy(f"{before}{kind}-cf", arms=2, corruption=each, contamination=share, **given)
        play_both(fast, Twin(list(each), kind, liars=share, **given), seen, own if share < 0.3 else ())

    @pytest.mark.parametrize("mask", [RandomizedResponse.from_epsilon(1), RandomizedResponse(0.1, 0.2)])
    @pytest.mark.parametrize("lie", [0.0, 1.0])
    def test_intervals_hold_despite_lies(self, mask: RandomizedResponse, lie: float) -> None:
        """One liar in ten: with `contamination` the interval keeps the mean, without it excludes the mean soon."""
        rng = np.random.default_rng(1)
        robust = make_policy("klucb-cf", arms=1, corruption=mask, contamination=0.1)
        trusting = make_policy("klucb-cf", arms=1, corruption=mask)
        for _ in range(10_000):
            bit = lie if rng.random() < 0.1 else float(rng.random() < mask(0.5))
            robust.observe(0, bit)
            trusting.observe(0, bit)
        (low, high), (narrow_low, narrow_high) = robust.intervals()[0], trusting.intervals()[0]
        assert low <= 0.5 <= high
        assert not narrow_low <= 0.5 <= narrow_high
        assert high - low > narrow_high - narrow_low
        assert low <= robust.estimates()[0] <= high

    def test_unseen_arm_may_have_any_mean(self) -> None:
        policy = make_policy("klucb-cf", arms=2, corruption=RR)
        policy.observe(1, 1)
        assert policy.intervals()[0].tolist() == [0.0, 1.0]
        assert not policy.suspects().any()

    @pytest.mark.parametrize("name", ["klucb-cf", "sw-ts-cf", "d-ucb-cf", "auto"])
    @pytest.mark.parametrize("mask", [RandomizedResponse.from_epsilon(1), RandomizedResponse(0.3, 0.2)])
    def test_impossible_reports_are_suspect(self, name: str, mask: RandomizedResponse) -> None:
        needed: dict[str, dict[str, Any]] = {"sw-ts-cf": {"window": 2000}, "d-ucb-cf": {"gamma": 0.9995}}
        given = needed.get(name, {})
        policy = make_policy(name, arms=3, corruption=mask, **given)
        rng = np.random.default_rng(2)
        for _ in range(600):
            for arm, mean in enumerate([mask(0.0), mask(1.0), 0.95]):
                policy.observe(arm, float(rng.random() < mean))
        assert policy.suspects().tolist() == [False, False, True]

    def test_expected_lies_are_not_suspect(self) -> None:
        mask = RandomizedResponse.from_epsilon(1)
        for share, robust in ((0.0, True), (0.3, False)):
            policy = make_policy("klucb-cf", arms=1, corruption=mask, contamination=share)
            rng = np.random.default_rng(2)
            for _ in range(2000):
                policy.observe(0, float(rng.random() < 0.7 * mask(1.0) + 0.3))
            assert policy.suspects().tolist() == [robust]

    @pytest.mark.parametrize("share", [-0.1, 1.0, math.nan, "0.1", True])
    def test_invalid_contamination_is_refused(self, share: Any) -> None:
        with pytest.raises(ValueError, match="contamination"):
            make_policy("klucb-cf", arms=2, corruption=RR, contamination=share)

    def test_unavailable_intervals_are_refused(self) -> None:
        policy = make_policy("klucb-cf", arms=2, corruption=RR)
        for delta in (0.0, 1.0, math.nan):
            with pytest.raises(ValueError, match="delta"):
                policy.intervals(delta)
            with pytest.raises(ValueError, match="delta"):
                policy.suspects(delta)
        noisy = make_policy("dp-ucb", arms=2, epsilon=1.0)
        with pytest.raises(ValueError, match="has no estimates"):
            noisy.suspects()
