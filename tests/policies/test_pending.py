"""Decisions whose reports have not come yet: they count, so that a burst of decisions does not all go to one arm."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from helpers.boundaries import pause_after_steps
from helpers.private import live_state
from maskedbandits import Policy, Problem, RandomizedResponse, load_policy, make_policy, simulate
from maskedbandits.policies import KINDS, names
from naive import Twin
from naive import simulate as naive_simulate
from naive.pending import Waiting
from specimens import INDICES, MEMORIES, RR, specimen
from trials import examples, generator
from twins import changing, check_choice, feedbacks, responses

# Every way to choose, to remember and to look out, once: a kind takes seconds to compile for each part.
SOME = [
    "klucb-cf",
    "sw-ucb-cf",
    "ts-cf",
    "auto",
    "exp3s",
    "oracle",
    "adswitch",
    "dp-ucb",
]
DETERMINED = [name for name in names() if not KINDS[name].draws_from and name not in ("oracle", "dp-ucb", "ldp-ucb-l")]


def played(name: str, steps: int = 60) -> Policy:
    policy = specimen(name, seed=4)
    for bit in changing(1, steps):
        policy.observe(policy.choose(), bit)
    return policy


class TestDecisions:
    def test_decision_is_pending_until_its_report(self) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR)
        arms = [policy.choose() for _ in range(5)]
        assert policy.pending.tolist() == np.bincount(arms, minlength=3).tolist()
        policy.observe(arms[0], 1)
        assert policy.pending.sum() == 4
        assert policy.expire(arms[1]) == 1
        assert policy.expire(arms[1], n=100) == arms[2:].count(arms[1])
        for arm in range(3):
            policy.expire(arm, n=9)
        assert policy.pending.tolist() == [0, 0, 0]
        policy.observe(2, 0)  # of which nobody knew
        assert policy.pending.tolist() == [0, 0, 0]
        assert policy.observations == 2

    @pytest.mark.parametrize("name", SOME)
    def test_burst_equals_single_decisions(self, name: str) -> None:
        one = played(name)
        many = copy.copy(one)
        assert many.choose(40).tolist() == [one.choose() for _ in range(40)]
        assert many.pending.tolist() == one.pending.tolist()
        assert many.choose(0).size == 0

    @pytest.mark.parametrize("name", SOME)
    def test_observe_many_equals_observe(self, name: str) -> None:
        one = played(name)
        many = copy.copy(one)
        rng = np.random.default_rng(1)
        arms, bits = rng.integers(0, 3, 80), rng.integers(0, 2, 80)
        for arm, bit in zip(arms.tolist(), bits.tolist(), strict=True):
            one.observe(arm, bit)
        many.observe_many(arms, bits)
        assert pickle.dumps(one) == pickle.dumps(many)

    @pytest.mark.parametrize(
        ("arms", "reports", "complaint"),
        [
            ([0, 3], [1, 1], "arm 3 does not exist"),
            ([0, -1], [1, 1], "arm -1 does not exist"),
            ([0, 1], [1, 1.5], "feedback 1.5 is out of range"),
            ([0, 1], [1, math.nan], "feedback nan is out of range"),
            ([0, 1], [1], "two lists of the same length"),
            ([0.5, 1], [1, 1], "not whole numbers"),
            ([0, 1], ["a", "b"], "not numbers"),
            ([[0, 1]], [[0, 1]], "two lists of the same length"),
            ([[0], [1, 2]], [0, 1], "two lists of the same length"),
        ],
    )
    def test_invalid_log_is_refused_without_effect(self, arms: Any, reports: Any, complaint: str) -> None:
        policy = played("klucb-cf")
        before = pickle.dumps(policy)
        with pytest.raises(ValueError, match=complaint):
            policy.observe_many(arms, reports)
        assert pickle.dumps(policy) == before
        policy.observe_many([], [])

    @pytest.mark.parametrize("n", [-1, 1.5, "a", True, 10**18])
    def test_too_many_decisions_are_refused(self, n: Any) -> None:
        policy = played("klucb-cf")
        with pytest.raises(ValueError, match="n = "):
            policy.choose(n)
        with pytest.raises(ValueError, match="draws = "):
            policy.probabilities(draws=n)
        assert policy.pending.sum() == 0

    @pytest.mark.parametrize(("n", "arm"), [(-1, 0), (1.5, 0), (1, 3), (1, "a")])
    def test_invalid_expire_is_refused(self, n: Any, arm: Any) -> None:
        with pytest.raises(ValueError, match=r"n |n:|arm"):
            played("klucb-cf").expire(arm, n)

    def test_saved_decisions_are_still_pending(self, tmp_path: Path) -> None:
        policy = played("klucb-cf")
        policy.choose(7)
        policy.save(tmp_path / "policy")
        copied = load_policy(tmp_path / "policy", exact=True)
        assert copied.pending.tolist() == policy.pending.tolist()
        assert copied.choose(9).tolist() == policy.choose(9).tolist()
        live_state(policy).pending[0] += 1
        policy.save(tmp_path / "policy")
        with pytest.raises(ValueError, match="pending reports"):
            load_policy(tmp_path / "policy")


class TestDecisionsMadeElsewhere:
    @pytest.mark.parametrize("name", SOME)
    def test_sample_is_no_decision(self, name: str) -> None:
        policy = played(name)
        digest, chosen = policy.fold_digest(), copy.copy(policy)
        drawn = policy.sample(50)
        assert (policy.pending.sum(), policy.fold_digest(), policy.sample(0).size) == (0, digest, 0)
        if KINDS[name].draws_from:
            assert drawn.tolist() == chosen.choose(50).tolist()
            assert policy.sample(50).tolist() != drawn.tolist()
        else:
            assert drawn.tolist() == [chosen.choose()] * 50

    def test_sample_is_drawn_from_present_state(self) -> None:
        policy = played("klucb-cf")
        policy.choose(30)
        assert policy.sample(3).tolist() == [policy.choose()] * 3

    @pytest.mark.parametrize("name", SOME)
    def test_noted_decision_equals_own_decision(self, name: str) -> None:
        here, elsewhere = played(name), played(name)
        for _ in range(30):
            [arm] = elsewhere.sample(1).tolist()
            elsewhere.note(arm)
            assert here.choose() == arm
        assert here.pending.tolist() == elsewhere.pending.tolist()
        third = played(name)
        third.note(1, n=7)
        third.await_exactly(here.pending)
        assert third.pending.tolist() == here.pending.tolist()
        assert third.snapshot().scalars[0].decisions >= 30
        third.await_exactly([0, 0, 0])
        assert third.pending.sum() == third.snapshot().scalars[0].pending_total == 0

    @pytest.mark.parametrize(
        "pending", [[1, 1], [1, 1, -1], [1, 1, 1.5], "abc", [[1, 1, 1]], [1, [1], 1], 3, [2**62] * 3]
    )
    def test_invalid_pending_is_refused(self, pending: Any) -> None:
        policy = played("klucb-cf")
        with pytest.raises(ValueError, match="pending"):
            policy.await_exactly(pending)
        with pytest.raises(ValueError, match=r"arm|n ="):
            policy.note(pending)
        assert policy.pending.sum() == 0

    @pytest.mark.parametrize("n", [-1, 1.5, "a", True, 10**18])
    def test_invalid_numbers_are_refused(self, n: Any) -> None:
        policy = played("klucb-cf")
        for call in (policy.sample, lambda n: policy.note(0, n)):
            with pytest.raises(ValueError, match="n = "):
                call(n)
        assert policy.pending.sum() == 0


class TestChoosingAhead:
    @pytest.mark.parametrize("name", DETERMINED)
    def test_first_burst_goes_to_all_arms(self, name: str) -> None:
        """They all went to arm 0."""
        policy = specimen(name, arms=5)
        for _ in range(100):
            policy.choose()
        assert policy.pending.min() >= 15

    @pytest.mark.parametrize("kind", ["klucb", "ucb", "klucb-plus"])
    @pytest.mark.parametrize("before", MEMORIES)
    @examples(15)
    @given(data=st.data())
    def test_choice_with_pending_equals_twin(self, before: str, kind: str, data: st.DataObject) -> None:
        """Unanswered decisions count as reports, at the mean of those that have come and a zero."""
        each = [data.draw(responses(), label="g") for _ in range(3)]
        seen = data.draw(feedbacks(25), label="feedbacks")
        given = {**MEMORIES[before], **INDICES[kind]}
        fast = make_policy(f"{before}{kind}-cf", arms=3, corruption=each, **given)
        slow = Twin(list(each), kind, **given)
        waiting = Waiting(3)
        for feedback in seen:
            for _ in range(data.draw(st.integers(0, 3), label="burst")):
                ahead = [slow.score_ahead(arm, waiting) for arm in range(3)]
                arm = fast.choose()
                check_choice(arm, np.array(ahead if waiting.pending else slow.indices()), None)
                waiting.decide(arm)
            arrives: bool = data.draw(st.sampled_from([True, True, True, False]), label="arrives")
            if waiting.pending and arrives:
                _, arm = data.draw(st.sampled_from(waiting.pending), label="report")
                fast.observe(arm, feedback)
                slow.observe(arm, feedback)
                waiting.report(arm)

    @pytest.mark.parametrize(("kind", "index"), [("klucb", {}), ("ucb", {}), ("klucb-plus", {"horizon": 5000})])
    @pytest.mark.parametrize(("before", "memory"), [("", {}), ("sw-", {"window": 150}), ("d-", {"gamma": 0.99})])
    @examples(4)
    @given(data=st.data())
    def test_choice_with_pending_of_many_arms_equals_twin(
        self, before: str, memory: dict[str, Any], kind: str, index: dict[str, Any], data: st.DataObject
    ) -> None:
        """Whatever has happened since the last choice: reports, other decisions, waits that were given up."""
        arms = data.draw(st.integers(65, 80), label="arms")
        each = [RR if arm % 2 else RandomizedResponse(0.9, 0.6) for arm in range(arms)]
        fast = make_policy(f"{before}{kind}-cf", arms=arms, corruption=each, **memory, **index)
        slow = Twin(list(each), kind, **memory, **index)
        rng = np.random.default_rng(data.draw(st.integers(0, 99), label="seed"))
        waiting = Waiting(arms)
        for _ in range(data.draw(st.integers(1, 12), label="turns")):
            for _ in range(data.draw(st.sampled_from([0, 1, 30]), label="reports")):
                arm, feedback = int(rng.integers(arms) ** 2 // arms), float(rng.integers(2))
                fast.observe(arm, feedback)
                slow.observe(arm, feedback)
                waiting.report(arm)
            gives_up: bool = data.draw(st.booleans(), label="gives up")
            if waiting.pending and gives_up:
                _, arm = waiting.pending[-1]
                fast.expire(arm)
                waiting.give_up(arm)
            arm = data.draw(st.integers(0, arms - 1), label="decided elsewhere")
            fast.note(arm)
            waiting.decide(arm)
            ahead = [slow.score_ahead(arm, waiting) for arm in range(arms)]
            arm = fast.choose()
            check_choice(arm, np.array(ahead), None)
            waiting.decide(arm)

    def test_pending_forced_pull_is_not_repeated(self) -> None:
        policy = make_policy("glr-klucb-cf", arms=2, corruption=RR, exploration=5.0, prior_changes=5.0)
        rng = np.random.default_rng(2)
        for _ in range(400):
            arm = policy.choose()
            policy.observe(arm, float(rng.random() < RR([0.9, 0.1][arm])))
        while policy.snapshot().scalars[0].explore_at > policy.observations:
            policy.observe(0, float(rng.random() < RR(0.9)))
        looked = int(policy.snapshot().scalars[0].explore_arm)
        burst = policy.choose(20)
        assert burst[0] == looked
        assert np.sum(burst == 1) < 10


class TestProbabilities:
    @pytest.mark.parametrize("name", SOME)
    def test_probabilities_sum_to_1_without_effect(self, name: str) -> None:
        policy = played(name)
        before = pickle.dumps(policy)
        chances = policy.probabilities(draws=500)
        assert chances.sum() == pytest.approx(1.0)
        assert np.all(chances >= 0.0)
        assert pickle.dumps(policy) == before
        if not KINDS[name].draws_from:
            assert chances[policy.choose()] == 1.0

    def test_probabilities_are_those_of_posterior(self) -> None:
        """100,000 draws: five standard errors are 0.008."""
        policy = make_policy("ts-cf", arms=2, corruption=RandomizedResponse(1, 1))
        policy.observe_many([0] * 8 + [1] * 5, [1] * 6 + [0] * 2 + [1] * 3 + [0] * 2)
        first, second = stats.beta(7, 3), stats.beta(4, 3)
        expected, _ = integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 0, 1)
        assert policy.probabilities(draws=100_000)[0] == pytest.approx(expected, abs=0.008)

    def test_probabilities_of_exp3_are_exact(self) -> None:
        policy = played("exp3s")
        assert np.array_equal(policy.probabilities(), policy.indices())


class TestDelay:
    PROBLEM = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 500], 1200, RR)

    @pytest.mark.parametrize(
        "name", ["klucb-cf", "sw-ucb-cf", "ts-cf", "auto", pytest.param("oracle", marks=pytest.mark.slow)]
    )
    def test_zero_delay_changes_nothing(self, name: str) -> None:
        policy = specimen(name)
        now, soon = (simulate(self.PROBLEM, policy, runs=2, seed=3, delay=delay) for delay in (None, 0))
        assert np.array_equal(now.regret, soon.regret)
        assert np.array_equal(now.pulls, soon.pulls)

    @pytest.mark.parametrize("delay", [1, 7, 60, [0, 3, 11, 40], ("geometric", 6.0)])
    def test_delayed_run_equals_twin(self, delay: Any) -> None:
        policy = make_policy("klucb-cf", arms=3, corruption=RR)
        horizon = 250
        problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 100], horizon, RR)
        result = simulate(problem, policy, runs=2, seed=8, checkpoints=horizon, delay=delay)
        for run, spawned in enumerate(np.random.SeedSequence(8).spawn(2)):
            delay_rng = generator(spawned)
            draws: list[float] = []
            delays: list[int | None] = []
            for _ in range(horizon):
                draws.append(delay_rng.random())
                delays.append(drawn_delay(delay, delay_rng))
            slow = Twin([RR] * 3)
            regret, pulls, _, _ = naive_simulate(problem.means.tolist(), [0, 100], horizon, slow, draws, delays)
            assert np.allclose(result.regret[run], regret)
            assert result.pulls[run].tolist() == pulls

    def test_pauses_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = make_policy("ts-cf", arms=3, corruption=RR)
        straight = simulate(self.PROBLEM, policy, runs=2, seed=5, delay=("geometric", 20))
        pause_after_steps(monkeypatch, 17)
        paused = simulate(self.PROBLEM, policy, runs=2, seed=5, delay=("geometric", 20))
        assert np.array_equal(straight.regret, paused.regret)

    @pytest.mark.parametrize("name", ["klucb-cf", "sw-ucb-cf"])
    def test_delay_costs_little_more_than_itself(self, name: str) -> None:
        """With a delay of 500: at most 1.5 times the regret without, and 500 times the mean gap."""
        problem = Problem([[0.8, 0.7, 0.5, 0.4, 0.2]], [0], 10_000, RR)
        policy = make_policy(name, arms=5, corruption=RR, **({"window": 5000} if name.startswith("sw-") else {}))
        now, late = (simulate(problem, policy, runs=20, checkpoints=1, delay=delay).regret.mean() for delay in (0, 500))
        assert late <= 1.5 * now + 500 * (0.8 - 0.52)

    @pytest.mark.parametrize("delay", [-1, 1.5, [], ["a"], ("geometric", 0), ("poisson", 3), "long", [1, -2]])
    def test_invalid_delay_is_refused(self, delay: Any) -> None:
        with pytest.raises(ValueError, match="delay"):
            simulate(self.PROBLEM, "klucb-cf", runs=1, delay=delay)

    @pytest.mark.parametrize("delay", [2**30, ("geometric", 1e9)])
    def test_too_many_reports_under_way_are_refused(self, delay: Any) -> None:
        problem = Problem([[0.5, 0.6]], [0], 10**12, RR)
        with pytest.raises(ValueError, match="give a shorter one"):
            simulate(problem, "klucb-cf", runs=1, delay=delay)

    def test_reports_after_the_end_never_arrive(self) -> None:
        """No report ever arrives: the arms are pulled alike."""
        result = simulate(self.PROBLEM, "klucb-cf", runs=1, delay=5000)
        assert result.pulls[0].tolist() == [400, 400, 400]

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "needed"), [("dp-ucb", {"epsilon": 1.0}), ("sw-klucb-plus-cf", {"window": 2000})])
    def test_delay_costs_little_with_noise_or_window(self, name: str, needed: dict[str, Any]) -> None:
        """DP-UCB passed the counts at which its noise is small, and took 1.9 times what is allowed."""
        problem = Problem([[0.23, 0.38]], [0], 10_000, RR)
        needed = needed | ({"horizon": 10_000} if "plus" in name else {})
        policy = make_policy(name, arms=2, corruption=RR, **needed)
        now, late = (simulate(problem, policy, runs=64, checkpoints=1, delay=delay).regret.mean() for delay in (0, 500))
        assert late <= 1.5 * now + 500 * 0.075


def drawn_delay(delay: Any, delay_rng: np.random.Generator) -> int:
    if isinstance(delay, int):
        return delay
    if isinstance(delay, list):
        return int(delay[int(delay_rng.random() * len(delay))])
    return int(math.log(1 - delay_rng.random()) / -math.log1p(1 / delay[1]))
