import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector_settings import DETECTORS
from maskedbandits import Policy, RandomizedResponse, make_policy
from naive import Twin
from naive import detectors as naive_detectors
from specimens import CERTAIN, RR
from trials import examples
from twins import changing, planned_look, play_both

pytestmark = pytest.mark.plain


class TestDetection:
    """Restarts by detection; the twin scans everything at every step."""

    @staticmethod
    def play(name: str, kind: str, seed: int, length: int, **given: Any) -> Policy:
        settings, detects = DETECTORS[name]
        each = [RandomizedResponse(0.9, 0.9), RandomizedResponse(0.2, 0.1), RR][: 2 + seed % 2]
        scored: dict[str, Any] = {"klucb": {"c": 3.0}, "ucb": {"c": 0.0}, "ts": {}}[kind]
        fast = make_policy(f"{name}-{kind}-cf", arms=len(each), corruption=each, **settings, **scored, **given)
        known = {key: value for key, value in given.items() if key in ("local", "delta", "horizon")}
        play_both(fast, Twin(list(each), kind, detects=detects, **scored, **known), changing(seed, length))
        return fast

    @pytest.mark.parametrize("name", DETECTORS)
    @pytest.mark.parametrize("kind", ["klucb", "ucb", "ts"])
    @pytest.mark.parametrize("local", [False, True])
    def test_detected_restarts_equal_twin(self, name: str, kind: str, local: bool) -> None:
        follow_up = {"follow_up": 0.0} if name == "glr" else {}
        alarms = [
            self.play(name, kind, seed, 150, local=local, exploration=0.0, **follow_up).alarms for seed in range(2)
        ]
        assert sum(alarms) > 0

    @examples(20)
    @given(
        seed=st.integers(0, 2**32),
        kind=st.sampled_from(["klucb", "ucb", "ts"]),
        local=st.booleans(),
        exploration=st.sampled_from([0.0, 0.3, 5.0]),
        follow_up=st.sampled_from([0.0, 2.0]),
        delta=st.sampled_from([0.05, 1.0]),
        horizon=st.sampled_from([None, 200]),
    )
    def test_glr_with_exploration_equals_twin(self, seed: int, kind: str, **given: Any) -> None:
        self.play("glr", kind, seed, 120, **given)

    def test_change_of_unpulled_arm_is_found(self) -> None:
        policy = make_policy("glr-klucb-cf", arms=2, corruption=CERTAIN)
        rng = np.random.default_rng(0)
        means = [0.8, 0.2]
        pulls = 0
        for step in range(6000):
            if step == 2000:
                means = [0.8, 1.0]
            arm = policy.choose()
            policy.observe(arm, float(rng.random() < means[arm]))
            pulls += step >= 5000 and arm == 1
        assert policy.alarms >= 1
        assert pulls > 900


def planned(pulls: list[int], arms: int, alarms: int, exploration: float, prior: float) -> tuple[int, int]:
    """The arm not pulled for longest, and when it is to be looked at, after these pulls without a restart."""
    now = len(pulls)
    last = [max((step + 1 for step, arm in enumerate(pulls) if arm == each), default=0) for each in range(arms)]
    pause = int(1 / min(0.5, exploration * math.sqrt(arms * (alarms + prior) / now)))
    stalest = last.index(min(last))
    return stalest, max(now + pause, last[stalest] + arms * pause)


@pytest.mark.parametrize("exploration", [0.3, 3.0])
@pytest.mark.parametrize("kind", ["klucb", "ts"])
def test_forced_exploration_follows_its_plan(kind: str, exploration: float) -> None:
    given: dict[str, Any] = {"exploration": exploration, "prior_changes": 0.5, "follow_up": 0.0, "seed": 0}
    policy = make_policy(f"glr-{kind}-cf", arms=3, corruption=CERTAIN, **given)
    rng = np.random.default_rng(0)
    pulls: list[int] = []
    arm, due, made, looks = 0, 6, 0, 0  # the first look is planned for when every arm could have been seen twice
    for step in range(3000):
        chosen = policy.choose()
        if step >= due:
            assert chosen == arm
            looks += 1
        policy.observe(chosen, float(rng.random() < (0.9, 0.1, 0.2)[chosen]))
        pulls.append(chosen)
        if len(pulls) >= due and arm in pulls[made:]:  # looked at, or pulled before that was due
            made = len(pulls)
            arm, due = planned(pulls, 3, policy.alarms, exploration, 0.5)
    assert policy.alarms == 0
    assert looks > 5


def test_evidence_leads_to_another_pull() -> None:
    """A look that raised the evidence above the level is followed by another; one that did not is the last."""
    policy = make_policy("glr-ts-cf", arms=2, corruption=CERTAIN, exploration=5.0, follow_up=1.0)
    seen: list[float] = []
    evidence, again = 0.0, 0
    for step in range(4000):
        look = planned_look(policy)
        arm = policy.choose()
        bit = float(step % 4 > 0) if arm == 0 else float(step > 2500)
        policy.observe(arm, bit)
        seen += [bit] if arm == 1 else []
        if policy.alarms:
            break
        if look == 1:
            before, evidence = evidence, naive_detectors.glr_statistic(seen)
            assert (planned_look(policy) == 1) == (evidence > max(1.0, before))
            again += evidence > max(1.0, before)
            evidence = evidence if evidence > max(1.0, before) else 0.0
    assert policy.alarms == 1
    assert again > 0
