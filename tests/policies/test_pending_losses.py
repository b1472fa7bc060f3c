"""Reports that never arrive: no arm is starved by them, and a policy gives up on them after a while."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.private import live_state
from maskedbandits import Policy, Problem, RandomizedResponse, load_policy, make_contextual, make_policy, simulate
from maskedbandits.policies import KINDS, names
from maskedbandits.problems import random_segments
from naive import Twin
from naive import simulate as naive_simulate
from naive.pending import Waiting
from specimens import RR, specimen
from trials import examples, generator

LEARNING = [name for name in names() if KINDS[name].learns_from not in ("nothing",)]
SOME = ["klucb-cf", "sw-klucb-cf", "d-ucb-cf", "glr-klucb-cf"]


def pulls_of_better(policy: Policy, steps: int, dropped: int) -> int:
    """Return how often the better of two arms is chosen when its first reports are lost."""
    rng = np.random.default_rng(1)
    means = [RR(0.2), RR(0.7)]
    pulls = 0
    for _ in range(steps):
        arm = policy.choose()
        pulls += arm
        if arm == 1 and pulls <= dropped:
            continue
        policy.observe(arm, float(rng.random() < means[arm]))
    return pulls


class TestStarvation:
    @pytest.mark.parametrize(("name", "dropped"), [(name, n) for name in (*SOME, "adswitch") for n in (1, 5, 30)])
    def test_lost_first_reports_do_not_ban_arm(self, name: str, dropped: int) -> None:
        """One lost report had the better arm pulled once in 20,000 steps."""
        policy = specimen(name, arms=2, seed=3)
        assert pulls_of_better(policy, 3000, dropped) > 150 + dropped

    @pytest.mark.parametrize("name", ["klucb-cf", "glr-klucb-cf"])
    def test_arm_without_reports_is_tried_rarely_forever(self, name: str) -> None:
        policy = make_policy(name, arms=2, corruption=RR)
        rng = np.random.default_rng(2)
        tried = []
        for step in range(4000):
            arm = policy.choose()
            if arm == 0:
                policy.observe(0, float(rng.random() < RR(0.5)))
            else:
                tried.append(step)
        assert len(tried) < 1000
        assert tried[-1] > 2000

    def test_lost_forced_pull_is_repeated(self) -> None:
        policy = make_policy("glr-klucb-cf", arms=2, corruption=RR, exploration=2.0, prior_changes=2.0)
        rng = np.random.default_rng(2)
        looks = 0
        for step in range(3000):
            arm = policy.choose()
            looks += arm == 1 and step > 1500
            if arm == 0 or step < 1000:
                policy.observe(arm, float(rng.random() < RR([0.9, 0.1][arm])))
        assert looks >= 5

    @pytest.mark.parametrize("name", ["klucb-cf", "klucb-plus-cf", "dp-ucb"])
    def test_outage_of_reports_does_not_starve_arm(self, name: str) -> None:
        """The better arm was pulled no more: all its decisions counted, and of the other one at most 32."""
        needed: dict[str, dict[str, Any]] = {"klucb-plus-cf": {"horizon": 10_000}, "dp-ucb": {"epsilon": 1.0}}
        policy = make_policy(name, arms=2, corruption=RR, seed=3, **needed.get(name, {}))
        rng = np.random.default_rng(1)
        arms = []
        for step in range(10_000):
            arms.append(policy.choose())
            if step >= 3000:
                mean = [0.2, 0.7][arms[-1]]
                policy.observe(arms[-1], float(rng.random() < (RR(mean) if KINDS[name].sees_corruption else mean)))
        assert sum(arms[7000:]) > 1500

    @pytest.mark.parametrize("seed", [0, 1])
    def test_late_report_is_not_that_of_later_pull(self, seed: int) -> None:
        """Reports that come 500 steps late gave 380 pulls of the worse arm; 250 are made before the first report."""
        problem = Problem([[0.32, 0.94]], [0], 10_000, RandomizedResponse(1, 1))
        result = simulate(problem, "glr-klucb-cf", runs=16, seed=seed, checkpoints=1, delay=500)
        assert result.pulls[:, 0].mean() < 300


class TestLosses:
    @pytest.mark.parametrize("lost", [0.0, 0.1, 1.0])
    def test_lossy_run_equals_twin(self, lost: float) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR, expire_after=60)
        horizon = 250
        problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 100], horizon, RR)
        result = simulate(problem, policy, runs=2, seed=8, checkpoints=horizon, delay=[0, 30], lost=lost)
        for run, spawned in enumerate(np.random.SeedSequence(8).spawn(2)):
            delay_rng = generator(spawned)
            draws, delays = [], []
            for _ in range(horizon):
                draws.append(delay_rng.random())
                is_lost = lost > 0 and delay_rng.random() < lost
                delays.append(None if is_lost else [0, 30][int(delay_rng.random() * 2)])
            slow = Twin([RR] * 3)
            means = problem.means.tolist()
            regret, pulls, _, _ = naive_simulate(means, [0, 100], horizon, slow, draws, delays, 60)
            assert np.allclose(result.regret[run], regret)
            assert result.pulls[run].tolist() == pulls

    def test_external_policy_loses_as_many_reports(self) -> None:
        class Counting:
            heard = 0

            def choose(self) -> int:
                return 0

            def observe(self, arm: int, feedback: float) -> None:
                Counting.heard += 1

        simulate(Problem([[0.5]], [0], 4000, RR), lambda rng: Counting(), runs=1, lost=0.25)
        assert Counting.heard == pytest.approx(3000, abs=150)  # five standard errors are 137

    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({"lost": -0.1}, "lost = -0.1"),
            ({"lost": 1.5}, "lost = 1.5"),
            ({"lost": "some"}, "lost = 'some'"),
            ({"expire_after": -1}, "expire_after = -1"),
            ({"expire_after": 1.5}, "expire_after = 1.5"),
            ({"expire_after": float("inf")}, "expire_after = inf"),
        ],
    )
    def test_invalid_losses_are_refused(self, settings: dict[str, Any], complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint):
            simulate(Problem([[0.5, 0.6]], [0], 100, RR), "klucb-cf", runs=1, **settings)

    def test_expire_after_may_be_any_number(self) -> None:
        result = simulate(Problem([[0.5, 0.6]], [0], 100, RR), "klucb-cf", runs=1, lost=0.1, expire_after=2**63)
        assert result.pulls.sum() == 100

    def test_unplayable_losses_are_refused(self) -> None:
        log = Problem.replay_log([0, 1] * 20, [0.0, 1.0] * 20, RR)
        with pytest.raises(ValueError, match="lost"):
            simulate(log, "klucb-cf", runs=1, lost=0.1)
        with pytest.raises(ValueError, match="expire_after"):
            simulate(Problem([[0.5]], [0], 100, RR), lambda rng: specimen("ts-cf"), runs=1, expire_after=5)

    @pytest.mark.parametrize("name", ["klucb-cf", "sw-klucb-cf", "glr-klucb-cf"])
    def test_losses_cost_little(self, name: str) -> None:
        """Three changes: 10 % lost cost at most 1.5 times the regret without losses, plus 100."""
        problem = random_segments(5, 20_000, corruption=RR, segments=4, seed=60)
        window = {"window": 2000} if name.startswith("sw-") else {}
        policy = make_policy(name, arms=5, corruption=RR, **window)
        none, some = (simulate(problem, policy, runs=16, checkpoints=1, lost=lost).regret.mean() for lost in (0, 0.1))
        assert some <= 1.5 * none + 100

    def test_mixed_delays_cost_little(self) -> None:
        problem = random_segments(5, 10_000, corruption=RR, segments=1, seed=60)
        now, ignoring = (
            simulate(problem, "klucb-cf", runs=16, checkpoints=1, delay=[0, 1000], expire_after=after).regret.mean()
            for after in (None, 0)
        )
        assert now <= 1.3 * ignoring


class TestGivingUp:
    @pytest.mark.parametrize("after", [0, 1, 5, 8, 9, 20, 100, None])
    @examples(20)
    @given(data=st.data())
    def test_pending_reports_equal_twin(self, after: int | None, data: st.DataObject) -> None:
        """Whatever is decided, noted, reported and given up."""
        fast, slow = make_policy("ts-cf", arms=3, corruption=RR, expire_after=after), Waiting(3, after)
        for _ in range(data.draw(st.integers(1, 60), label="steps")):
            arm = data.draw(st.integers(0, 2), label="arm")
            what = data.draw(st.sampled_from(["decide", "decide", "note", "report", "give up"]), label="what")
            many = data.draw(st.integers(0, 4), label="many") if what in ("note", "give up") else 1
            if what == "report":
                fast.observe(arm, 1.0)
                slow.report(arm)
            elif what == "give up":
                fast.expire(arm, many)
                for _ in range(many):
                    slow.give_up(arm)
            else:
                arms = [fast.choose()] if what == "decide" else [arm] * many
                if what == "note":
                    for _ in arms:
                        fast.note(arm)
                for each in arms:
                    slow.decide(each)
            assert fast.pending.tolist() == slow.counts()
            assert np.allclose(fast.snapshot().unanswered, slow.unanswered)
            assert fast.snapshot().scalars[0].pending_total == fast.pending.sum()
            assert fast.snapshot().scalars[0].prompt == pytest.approx(slow.prompt)
            assert fast.snapshot().scalars[0].delay == pytest.approx(-1 if slow.delay is None else slow.delay)

    @pytest.mark.parametrize("after", [1, 5, 8, 9, 20, 100])
    def test_expires_within_a_quarter_of_expire_after(self, after: int) -> None:
        policy = make_policy("ts-cf", arms=2, corruption=RR, expire_after=after)
        for start in range(30):
            arm = policy.choose()
            ages = []
            for age in range(1, 2 * after + 10):
                before = policy.pending[arm]
                policy.choose(among=[1 - arm])
                if policy.pending[arm] < before:
                    ages.append(age)
            assert ages, start
            assert after <= ages[-1] <= 1.25 * after + 1
            policy.await_exactly([0, 0])

    def test_noted_decisions_expire_too(self) -> None:
        policy = make_policy("ts-cf", arms=2, corruption=RR, expire_after=16)
        policy.note(0, 3)
        policy.note(1, 1000)
        assert policy.pending.tolist() == [0, 1000]

    @pytest.mark.parametrize("after", [7, 100, None])
    def test_saved_policy_gives_up_alike(self, after: int | None, tmp_path: Path) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR, expire_after=after)
        policy.choose(50)
        policy.save(tmp_path / "policy")
        loaded = load_policy(tmp_path / "policy", exact=True)
        assert loaded.parameters["expire_after"] == after
        assert copy.copy(policy).choose(90).tolist() == loaded.choose(90).tolist() == policy.choose(90).tolist()
        assert loaded.pending.tolist() == policy.pending.tolist()

    def test_contradictory_ages_are_refused(self, tmp_path: Path) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR, expire_after=50)
        policy.choose(5)
        live_state(policy).by_age[0] += 1
        policy.save(tmp_path / "policy")
        with pytest.raises(ValueError, match="pending reports"):
            load_policy(tmp_path / "policy")

    def test_default_expire_after_can_be_disabled(self) -> None:
        policy = make_policy("klucb-cf", arms=2, corruption=RR)
        assert policy.parameters["expire_after"] == 100_000
        policy.note(0, 100)
        policy.note(1, 130_000)
        assert policy.pending[0] == 0
        patient = make_policy("klucb-cf", arms=2, corruption=RR, expire_after=None)
        patient.note(0, 100)
        patient.note(1, 130_000)
        assert patient.pending[0] == 100

    @pytest.mark.parametrize("value", [-1, 1.5, "soon", float("inf")])
    def test_invalid_expire_after_is_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="expire_after"):
            make_policy("klucb-cf", arms=2, corruption=RR, expire_after=value)

    @pytest.mark.parametrize("after", [None, 6])
    def test_contextual_policy_gives_up_too(self, after: int | None) -> None:
        policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=1, seed=1, pool=False, expire_after=after)
        questions = [policy.ask() for _ in range(20)]
        assert policy.pending.sum(axis=1).tolist() == [20 if after is None else 6] * 2
        policy.expire(questions[-1])
        assert policy.pending.sum(axis=1).tolist() == [19 if after is None else 5] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_every_policy_survives_lost_reports(name: str) -> None:
    """The better arm is chosen often although its first 5 reports are lost."""
    policy = specimen(name, arms=2, seed=3)
    assert pulls_of_better(policy, 4000, 5) > 400
