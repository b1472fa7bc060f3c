"""Policies whose arms come and go, some of them chosen among, side by side with their naive twins."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector_settings import DETECTORS
from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits.corruption import Corruption
from naive import Twin
from naive.auto import Switching
from naive.pending import Waiting
from specimens import CERTAIN, RR
from trials import examples, generator
from twins import MODEL, changing, check_choice, lending, planned_look, same

MASKS = [RR, RandomizedResponse(0.9, 0.8), RandomizedResponse(0.2, 0.1)]
MEMORIES: dict[str, dict[str, Any]] = {"": {}, "sw-": {"window": 12}, "d-": {"gamma": 0.8}}
INDICES: dict[str, dict[str, Any]] = {"klucb": {"c": 3.0}, "ucb": {"c": 0.0}, "ts": {}}


class Both:
    """A policy and its twin, to which the same is done."""

    def __init__(self, fast: Policy, slow: Any, seed: int, masks: Sequence[Corruption] = MASKS) -> None:
        self.fast, self.slow, self.masks = fast, slow, masks
        self.rng = np.random.default_rng(seed)
        self.rngs = generator(seed), generator(seed)

    def open_arms(self) -> list[int]:
        arms: list[int] = self.slow.open_arms()
        assert np.flatnonzero(~self.fast.retired).tolist() == arms
        return arms

    def change(self, most: int = 12) -> None:
        """Now and then an arm comes, or goes."""
        if self.fast.arms < most and self.rng.random() < 0.08:
            mask = self.masks[int(self.rng.integers(len(self.masks)))]
            assert self.fast.add_arm(mask) == self.slow.add_arm(mask)
        if len(self.open_arms()) > 1 and self.rng.random() < 0.06:
            arm = int(self.rng.choice(self.open_arms()))
            self.fast.retire(arm)
            self.slow.retire(arm)

    def among(self) -> list[int] | None:
        """Some of the open arms, or all of them without saying so."""
        arms = self.open_arms()
        some = self.rng.permutation(arms)[: self.rng.integers(1, len(arms) + 1)].tolist()
        return some if self.rng.random() < 0.4 else None

    def choose_at_random(self) -> int:
        among = self.among()
        with lending(self.fast, self.rngs[0]):
            arm = self.fast.choose(among=among)
        assert arm == self.slow.choose(self.rngs[1], among)
        assert same(*self.rngs)
        return arm

    def chosen(self) -> int:
        if hasattr(self.slow, "look"):
            self.slow.look = planned_look(self.fast)
            assert self.slow.look is None or not self.fast.retired[self.slow.look]
        if getattr(self.slow, "index", "ts") == "ts":
            return self.choose_at_random()
        among = self.among()
        arm = self.fast.choose(among=among)
        look = self.slow.look
        check_choice(arm, np.array(self.slow.indices(among)), look if look in self.slow.open_arms(among) else None)
        return arm

    def observe(self, arm: int, feedback: float) -> None:
        self.fast.observe(arm, feedback)
        if isinstance(self.slow, Switching):
            self.slow.observe(arm, feedback, self.rng)
        else:
            self.slow.observe(arm, feedback)

    def play(self, feedbacks: Sequence[float]) -> None:
        for feedback in feedbacks:
            self.change()
            expected, got = np.array(self.slow.indices()), self.fast.indices()
            finite = np.isfinite(expected)
            assert np.array_equal(got[~finite], expected[~finite])
            assert np.allclose(got[finite], expected[finite], rtol=1e-8, atol=1e-7)
            self.observe(self.chosen(), feedback)
            if self.slow.closed and self.rng.random() < 0.1:  # a report that comes late
                self.observe(int(self.rng.choice(sorted(self.slow.closed))), feedback)


class TestTwins:
    @pytest.mark.parametrize("kind", INDICES)
    @pytest.mark.parametrize("before", MEMORIES)
    @examples(5)
    @given(seed=st.integers(0, 2**32))
    def test_changing_arms_equal_twin(self, before: str, kind: str, seed: int) -> None:
        given = {**MEMORIES[before], **INDICES[kind]}
        fast = make_policy(f"{before}{kind}-cf", arms=2, corruption=MASKS[:2], **given)
        Both(fast, Twin(list(MASKS[:2]), kind, **given), seed).play(changing(seed, 120))

    @pytest.mark.parametrize("name", DETECTORS)
    @pytest.mark.parametrize(
        ("kind", "local"),
        [
            ("klucb", False),
            ("ts", True),
            pytest.param("klucb", True, marks=pytest.mark.slow),
            pytest.param("ts", False, marks=pytest.mark.slow),
        ],
    )
    def test_changing_arms_with_detector_equal_twin(self, name: str, kind: str, local: bool) -> None:
        settings, detects = DETECTORS[name]
        alarms = 0
        for seed in range(2):
            given = {**settings, **INDICES[kind], "local": local, "exploration": 2.0}
            fast = make_policy(f"{name}-{kind}-cf", arms=2, corruption=RR, **given)
            slow = Twin([RR] * 2, kind, detects=detects, local=local, **INDICES[kind])
            Both(fast, slow, seed, [RR]).play(changing(seed, 160))
            assert fast.alarms == slow.alarms
            alarms += fast.alarms
        assert alarms > 0

    @pytest.mark.parametrize("share", [0.0, 0.1])
    @pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
    def test_changing_arms_of_auto_equal_twin(self, seed: int, share: float) -> None:
        each = [CERTAIN, RandomizedResponse(0.95, 0.9), RandomizedResponse(0.9, 1.0)]
        fast = make_policy("auto", arms=2, corruption=each[:2], contamination=share)
        Both(fast, Switching(list(each[:2]), MODEL, share), seed, each).play(changing(seed, 250))

    @pytest.mark.parametrize("kind", ["klucb", "ucb"])
    @pytest.mark.parametrize("before", MEMORIES)
    def test_changing_arms_with_pending_equal_twin(self, before: str, kind: str) -> None:
        given = {**MEMORIES[before], **INDICES[kind]}
        for seed in range(3):
            fast = make_policy(f"{before}{kind}-cf", arms=2, corruption=MASKS[:2], **given)
            both = Both(fast, Twin(list(MASKS[:2]), kind, **given), seed)
            waiting = Waiting(12)
            pending: list[int] = [0]
            fast.note(0)
            waiting.decide(0)
            for bit in changing(seed, 80):
                both.change()
                among = both.among()
                eligible = both.slow.open_arms(among)
                arm = fast.choose(among=among)
                scores = [
                    both.slow.score_ahead(each, waiting) if each in eligible else -math.inf for each in range(fast.arms)
                ]
                check_choice(arm, np.array(scores), None)
                pending.append(arm)
                waiting.decide(arm)
                if both.rng.random() < 0.8 and len(pending) > 1:
                    waiting.report(pending[-1])
                    both.observe(pending.pop(), bit)
