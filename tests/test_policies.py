import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maskedbandits.core.state import views

import naive_change
from maskedbandits import Monotone, Policy, Problem, RandomizedResponse, load_policy, make_policy, simulate
from maskedbandits.corruption import Corruption
from maskedbandits.policies import REGISTRY
from naive import SlidingWindowKLUCB, Twin
from twins import (
    INTERPRETED,
    TIE,
    choose,
    examples,
    feedbacks,
    generator,
    observe,
    planned_look,
    play_both,
    responses,
)

RR = RandomizedResponse.from_epsilon(1.0)
LONG = 2000 if INTERPRETED else 100_000
CURVES = [Monotone(lambda x: 0.1 + 0.8 * x * x), Monotone(lambda x: 1 - math.sqrt(x))]

corruptions: st.SearchStrategy[Corruption] = st.one_of(responses(), responses(), st.sampled_from(CURVES))


@examples(600)
@given(st.data())
def test_it_plays_as_the_paper_says(data: st.DataObject) -> None:
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(corruptions, label="g") for _ in range(arms)]
    window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
    c = data.draw(st.sampled_from([0.0, 3.0]), label="c")
    fast = make_policy("sw-klucb-cf", arms=arms, corruption=each, window=window, c=c)
    play_both(fast, SlidingWindowKLUCB(list(each), window, c), data.draw(feedbacks(35), label="feedbacks"))


@examples(10)
@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(12, 90), st.sampled_from([0.0, 3.0]))
def test_it_goes_on_as_the_paper_says(seed: int, arms: int, window: int, c: float) -> None:
    """Longer plays, through several epochs and turns of the ring."""
    rng = np.random.default_rng(seed)
    each = [RandomizedResponse(*rng.choice([[0.8, 0.9], [0.2, 0.3], [0.7, 0.7]])) for _ in range(arms)]
    bits = rng.integers(0, 2, 3 * window).astype(float).tolist()
    fast = make_policy("sw-klucb-cf", arms=arms, corruption=each, window=window, c=c)
    play_both(fast, SlidingWindowKLUCB(list(each), window, c), bits)


def changing(seed: int, length: int) -> list[float]:
    """Bits of a mean that jumps between near 0 and near 1."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, 70, length)
    means = np.resize(rng.permutation([0.05, 0.95, 0.5, 0.9, 0.1]), length).repeat(lengths)[:length]
    return [float(draw < mean) for draw, mean in zip(rng.random(length), means, strict=True)]


DETECTORS: dict[str, tuple[dict[str, Any], Callable[[list[float], float], bool]]] = {
    "glr": ({}, naive_change.glr),
    "cusum": (
        {"drift": 0.05, "threshold": 3.123, "samples": 5},
        lambda seen, delta: naive_change.cusum(seen, 0.05, 3.123, 5),
    ),
    "ph": ({"drift": 0.05, "threshold": 3.123}, lambda seen, delta: naive_change.page_hinkley(seen, 0.05, 3.123)),
    "m": ({"width": 10, "threshold": 2.5}, lambda seen, delta: naive_change.two_windows(seen, 10, 2.5)),
}


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
    def test_without_exploration(self, name: str, kind: str, local: bool) -> None:
        follow_up = {"follow_up": 0.0} if name == "glr" else {}
        alarms = [
            self.play(name, kind, seed, 150, local=local, exploration=0.0, **follow_up).restarts for seed in range(2)
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
    def test_likelihood_ratio_with_exploration(self, seed: int, kind: str, **given: Any) -> None:
        self.play("glr", kind, seed, 120, **given)

    def test_an_arm_left_alone_is_looked_at_and_its_change_found(self) -> None:
        policy = make_policy("glr-klucb-cf", arms=2, corruption=RandomizedResponse(1, 1))
        rng = np.random.default_rng(0)
        means = [0.8, 0.2]
        pulls = 0
        for step in range(6000):
            if step == 2000:
                means = [0.8, 1.0]
            arm = policy.choose()
            policy.observe(arm, float(rng.random() < means[arm]))
            pulls += step >= 5000 and arm == 1
        assert policy.restarts >= 1
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
def test_looks_at_arms_left_alone_are_planned_as_described(kind: str, exploration: float) -> None:
    given: dict[str, Any] = {"exploration": exploration, "prior_changes": 0.5, "follow_up": 0.0, "seed": 0}
    policy = make_policy(f"glr-{kind}-cf", arms=3, corruption=RandomizedResponse(1, 1), **given)
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
            arm, due = planned(pulls, 3, policy.restarts, exploration, 0.5)
    assert policy.restarts == 0
    assert looks > 5


def test_evidence_is_followed_up() -> None:
    """A look that raised the evidence above the level is followed by another; one that did not is the last."""
    policy = make_policy("glr-ts-cf", arms=2, corruption=RandomizedResponse(1, 1), exploration=5.0, follow_up=1.0)
    seen: list[float] = []
    evidence, again = 0.0, 0
    for step in range(4000):
        look = planned_look(policy)
        arm = policy.choose()
        bit = float(step % 4 > 0) if arm == 0 else float(step > 2500)
        policy.observe(arm, bit)
        seen += [bit] if arm == 1 else []
        if policy.restarts:
            break
        if look == 1:
            before, evidence = evidence, naive_change.glr_statistic(seen)
            assert (planned_look(policy) == 1) == (evidence > max(1.0, before))
            again += evidence > max(1.0, before)
            evidence = evidence if evidence > max(1.0, before) else 0.0
    assert policy.restarts == 1
    assert again > 0


class TestCorruptionOfAReport:
    """Every report may come with its own corruption: what counts is the mean of the functions."""

    MEMORIES: ClassVar[dict[str, dict[str, Any]]] = {"": {}, "sw-": {"window": 9}, "d-": {"gamma": 0.8}}
    INDICES: ClassVar[dict[str, dict[str, Any]]] = {
        "klucb": {"c": 3.0},
        "ucb": {"c": 0.0},
        "klucb-plus": {"horizon": 50},
        "ts": {},
    }

    @pytest.mark.parametrize("kind", INDICES)
    @pytest.mark.parametrize("before", MEMORIES)
    @examples(25)
    @given(data=st.data())
    def test_it_is_the_naive_mean(self, before: str, kind: str, data: st.DataObject) -> None:
        arms = data.draw(st.integers(1, 3), label="arms")
        each = [data.draw(responses(), label="g") for _ in range(arms)]
        seen = data.draw(feedbacks(30), label="feedbacks")
        begin = data.draw(st.integers(0, 15), label="begin")  # mixing begins in mid-run
        few = data.draw(st.lists(responses(), min_size=1, max_size=3), label="own")
        own = [None] * begin + [data.draw(st.sampled_from([None, *few])) for _ in seen[begin:]]
        given = {**self.MEMORIES[before], **self.INDICES[kind]}
        restarts = data.draw(st.sampled_from([None, [0, 12]]), label="restarts")
        fast = make_policy(f"{before}{kind}-cf", arms=arms, corruption=each, restarts=restarts, **given)
        play_both(fast, Twin(list(each), kind, restarts=restarts or (), **given), seen, own, seed=begin)

    @pytest.mark.parametrize("before", MEMORIES)
    def test_it_goes_on_as_the_naive_mean(self, before: str) -> None:
        """Through turns of the ring; epsilon is each person's choice, and some answer the other way round."""
        rng = np.random.default_rng(9)
        people = [
            RandomizedResponse.from_epsilon(0.5),
            RandomizedResponse(0.9, 0.8),
            RandomizedResponse(0.1, 0.3),
            None,
        ]
        own = [people[who] for who in rng.integers(0, 4, 150)]
        given = {**self.MEMORIES[before], "c": 3.0}
        fast = make_policy(f"{before}klucb-cf", arms=3, corruption=RR, **given)
        play_both(fast, Twin([RR] * 3, **given), changing(1, 150), own)

    @pytest.mark.parametrize("before", MEMORIES)
    @pytest.mark.parametrize("kind", INDICES)
    def test_what_an_arm_has_anyway_changes_nothing(self, before: str, kind: str) -> None:
        each = [RR, RandomizedResponse(0.2, 0.3)]
        given = {**self.MEMORIES[before], **self.INDICES[kind]}
        plain, told = (make_policy(f"{before}{kind}-cf", arms=2, corruption=each, **given) for _ in range(2))
        lots = generator(0)
        for bit in changing(2, 80):
            arm = choose(plain, lots)
            plain.observe(arm, bit)
            told.observe(arm, bit, corruption=each[arm])
            missing = np.isinf(told.indices())  # without an observation an arm has no corruption
            assert told.indices()[~missing] == pytest.approx(plain.indices()[~missing], abs=1e-9)
            assert told.estimates() == pytest.approx(plain.estimates(), abs=1e-9, nan_ok=True)

    @pytest.mark.parametrize("before", MEMORIES)
    @pytest.mark.parametrize("kind", INDICES)
    def test_saved_and_loaded_it_goes_on_exactly(self, before: str, kind: str, tmp_path: Path) -> None:
        given = {**self.MEMORIES[before], **self.INDICES[kind]}
        one = make_policy(f"{before}{kind}-cf", arms=2, corruption=RR, **given)
        people = [RandomizedResponse.from_epsilon(0.5), RandomizedResponse(0.1, 0.3), None]
        for step, bit in enumerate(changing(4, 90)):
            one.observe(one.choose(), bit, corruption=people[step % 3])
        one.save(tmp_path / "policy")
        copy = load_policy(tmp_path / "policy")
        for step, bit in enumerate(changing(5, 60)):
            arm = one.choose()
            assert copy.choose() == arm
            for policy in (one, copy):
                policy.observe(arm, bit, corruption=people[step % 3])
            assert np.array_equal(one.indices(), copy.indices())

    @pytest.mark.parametrize("name", DETECTORS)
    @pytest.mark.parametrize("kind", ["klucb", "ts"])
    @pytest.mark.parametrize("local", [False, True])
    @pytest.mark.parametrize("share", [0.0, 0.1])
    def test_a_detector_sees_one_mean_whatever_the_masks(self, name: str, kind: str, local: bool, share: float) -> None:
        """Reports are masked on up to the arm's corruption; those that say less are not shown."""
        settings, detects = DETECTORS[name]
        each = [RandomizedResponse(0.9, 0.9), RandomizedResponse(0.85, 0.9)]
        people = [RandomizedResponse(1, 1), RandomizedResponse(0.95, 0.92), RandomizedResponse(0.6, 0.7), None]
        own = [people[who] for who in np.random.default_rng(3).integers(0, 4, 220)]
        given = {**settings, "exploration": 0.0, "local": local, "contamination": share}
        given |= {"follow_up": 0.0} if name == "glr" else {}
        fast = make_policy(f"{name}-{kind}-cf", arms=2, corruption=each, **given)
        slow = Twin(list(each), kind, detects=detects, local=local, liars=share)
        play_both(fast, slow, changing(3, 220), own)
        assert fast.restarts > 0

    def test_an_epsilon_that_changes_is_no_change_of_the_world(self) -> None:
        """The mean of the feedback jumps from 0.7 to 0.9 with the mask, that of the reward stays: no alarm."""
        rng = np.random.default_rng(0)
        weak, strong = RandomizedResponse(0.75, 0.75), RandomizedResponse(1, 1)
        policy = make_policy("glr-klucb-cf", arms=1, corruption=weak)
        for mask in (weak, strong):
            for _ in range(3000):
                policy.observe(0, float(rng.random() < mask(0.9)), corruption=mask)
        assert policy.restarts == 0
        assert policy.estimates()[0] == pytest.approx(0.9, abs=0.03)
        for _ in range(300):
            policy.observe(0, float(rng.random() < strong(0.5)), corruption=strong)
        assert policy.restarts == 1

    def test_who_takes_feedback_at_face_value_takes_all_of_it_so(self) -> None:
        plain, told = (make_policy("klucb", arms=2) for _ in range(2))
        for bit in changing(1, 50):
            arm = plain.choose()
            plain.observe(arm, bit)
            told.observe(arm, bit, corruption=RR)
            assert np.array_equal(told.indices(), plain.indices())

    def test_sums_do_not_pile_up_rounding_errors(self) -> None:
        policy = make_policy("sw-klucb-cf", arms=2, corruption=RR, window=10)
        rng = np.random.default_rng(0)
        recent: list[tuple[int, float, RandomizedResponse]] = []
        for bit in rng.integers(0, 2, 20_000):
            arm, g = policy.choose(), RandomizedResponse(*rng.uniform(0.6, 1.0, 2))
            policy.observe(arm, bit, corruption=g)
            recent = [*recent[-9:], (arm, float(bit), g)]
        view = views(policy._ints, policy._floats)
        for arm in range(2):
            assert view.low_sums[arm] == pytest.approx(math.fsum(g(0.0) for a, _, g in recent if a == arm), abs=1e-14)

    @pytest.mark.parametrize(
        ("name", "arm", "report", "complaint"),
        [
            ("klucb-cf", CURVES[0], RR, "need arms with a RandomizedResponse"),
            ("klucb-cf", RR, CURVES[0], "not affine"),
            ("klucb-cf", RR, 0.5, "not affine"),
            ("glr-klucb-cf", CURVES[0], RR, "need arms with a RandomizedResponse"),
        ],
    )
    def test_what_has_no_mean_is_refused_and_changes_nothing(
        self, name: str, arm: Corruption, report: Any, complaint: str
    ) -> None:
        policy = make_policy(name, arms=2, corruption=[RR, arm])
        policy.observe(0, 1)
        before = policy._ints.copy(), policy._floats.copy()
        with pytest.raises(ValueError, match=complaint) as caught:
            policy.observe(1, 1, corruption=report)
        assert "\n" not in str(caught.value)
        assert np.array_equal(policy._ints, before[0])
        assert np.array_equal(policy._floats, before[1])
        policy.observe(1, 1)


class TestContamination:
    """A share of the reports may be lies: bounds are wider by what so many lies can do."""

    @pytest.mark.parametrize("kind", TestCorruptionOfAReport.INDICES)
    @pytest.mark.parametrize("before", TestCorruptionOfAReport.MEMORIES)
    @examples(10)
    @given(data=st.data())
    def test_it_is_the_naive_bound(self, before: str, kind: str, data: st.DataObject) -> None:
        each = [data.draw(responses(), label="g") for _ in range(2)]
        share = data.draw(st.sampled_from([0.0, 0.05, 0.3]), label="share")
        seen = data.draw(feedbacks(25), label="feedbacks")
        own = [data.draw(st.sampled_from([None, RR, RandomizedResponse(0.1, 0.3)])) for _ in seen]
        given = {**TestCorruptionOfAReport.MEMORIES[before], **TestCorruptionOfAReport.INDICES[kind]}
        fast = make_policy(f"{before}{kind}-cf", arms=2, corruption=each, contamination=share, **given)
        play_both(fast, Twin(list(each), kind, liars=share, **given), seen, own if share < 0.3 else ())

    @pytest.mark.parametrize("mask", [RandomizedResponse.from_epsilon(1), RandomizedResponse(0.1, 0.2)])
    @pytest.mark.parametrize("lie", [0.0, 1.0])
    def test_intervals_keep_the_mean_whatever_the_liars_say(self, mask: RandomizedResponse, lie: float) -> None:
        """One liar in ten: told so, the interval keeps the mean; not told, it excludes it before long."""
        rng = np.random.default_rng(1)
        told = make_policy("klucb-cf", arms=1, corruption=mask, contamination=0.1)
        trusting = make_policy("klucb-cf", arms=1, corruption=mask)
        for _ in range(10_000):
            bit = lie if rng.random() < 0.1 else float(rng.random() < mask(0.5))
            told.observe(0, bit)
            trusting.observe(0, bit)
        (low, high), (narrow_low, narrow_high) = told.intervals()[0], trusting.intervals()[0]
        assert low <= 0.5 <= high
        assert not narrow_low <= 0.5 <= narrow_high
        assert high - low > narrow_high - narrow_low
        assert low <= told.estimates()[0] <= high

    def test_an_arm_not_seen_may_have_any_mean(self) -> None:
        policy = make_policy("klucb-cf", arms=2, corruption=RR)
        policy.observe(1, 1)
        assert policy.intervals()[0].tolist() == [0.0, 1.0]
        assert not policy.alarm().any()

    @pytest.mark.parametrize("name", ["klucb-cf", "sw-ts-cf", "d-ucb-cf", "auto"])
    @pytest.mark.parametrize("mask", [RandomizedResponse.from_epsilon(1), RandomizedResponse(0.3, 0.2)])
    def test_the_alarm_tells_of_what_honest_reports_cannot_give(self, name: str, mask: RandomizedResponse) -> None:
        needed: dict[str, dict[str, Any]] = {"sw-ts-cf": {"window": 2000}, "d-ucb-cf": {"gamma": 0.9995}}
        given = needed.get(name, {})
        policy = make_policy(name, arms=3, corruption=mask, **given)
        rng = np.random.default_rng(2)
        for _ in range(600):
            for arm, mean in enumerate([mask(0.0), mask(1.0), 0.95]):
                policy.observe(arm, float(rng.random() < mean))
        assert policy.alarm().tolist() == [False, False, True]

    def test_so_many_liars_as_are_expected_are_no_alarm(self) -> None:
        mask = RandomizedResponse.from_epsilon(1)
        for share, told in ((0.0, True), (0.3, False)):
            policy = make_policy("klucb-cf", arms=1, corruption=mask, contamination=share)
            rng = np.random.default_rng(2)
            for _ in range(2000):
                policy.observe(0, float(rng.random() < 0.7 * mask(1.0) + 0.3))
            assert policy.alarm().tolist() == [told]

    @pytest.mark.parametrize("share", [-0.1, 1.0, math.nan, "0.1", True])
    def test_a_share_that_is_none_is_refused(self, share: Any) -> None:
        with pytest.raises(ValueError, match="contamination"):
            make_policy("klucb-cf", arms=2, corruption=RR, contamination=share)

    def test_what_cannot_be_told_is_refused(self) -> None:
        policy = make_policy("klucb-cf", arms=2, corruption=RR)
        for delta in (0.0, 1.0, math.nan):
            with pytest.raises(ValueError, match="delta"):
                policy.intervals(delta)
            with pytest.raises(ValueError, match="delta"):
                policy.alarm(delta)
        noisy = make_policy("dp-ucb", arms=2, epsilon=1.0)
        with pytest.raises(ValueError, match="noisy rewards"):
            noisy.alarm()


def stream(policy: Policy, draws: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """Play with feedback that depends on the arm and the draw alone."""
    chosen = []
    for draw in draws:
        arm = policy.choose()
        policy.observe(arm, float(draw < 0.3 + 0.4 * arm / policy.arms))
        chosen.append(arm)
    return chosen


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([0.0, 3.0]))
def test_an_endless_window_is_klucb_cf(seed: int, arms: int, c: float) -> None:
    draws = np.random.default_rng(seed).random(200)
    endless = make_policy("sw-klucb-cf", arms=arms, corruption=RR, window=math.inf, c=c)
    long = make_policy("sw-klucb-cf", arms=arms, corruption=RR, window=200, c=c)
    stationary = make_policy("klucb-cf", arms=arms, corruption=RR, c=c)
    assert stream(endless, draws) == stream(stationary, draws) == stream(long, draws)


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(6, 60))
def test_certain_responses_are_plain_sliding_window_klucb(seed: int, arms: int, window: int) -> None:
    draws = np.random.default_rng(seed).random(150)
    plain = make_policy("sw-klucb-cf", arms=arms, corruption=RandomizedResponse(1, 1), window=window)
    slow = SlidingWindowKLUCB([lambda q: q] * arms, window, 3.0)
    chosen = stream(plain, draws)
    for arm, draw in zip(chosen, draws, strict=True):
        scores = slow.indices()
        assert scores[arm] == max(scores) or scores[arm] > max(scores) - TIE
        slow.observe(arm, float(draw < 0.3 + 0.4 * arm / arms))


def test_klucb_takes_feedback_at_face_value() -> None:
    draws = np.random.default_rng(5).random(400)
    plain = make_policy("klucb", arms=4, corruption=RR)
    certain = make_policy("klucb-cf", arms=4, corruption=RandomizedResponse(1, 1))
    assert stream(plain, draws) == stream(certain, draws)
    # with one corruption for all arms the two agree, since only the order of the indices counts
    uneven = [RR, RR, RR, RandomizedResponse(0.1, 0.2)]
    masked = make_policy("klucb-cf", arms=4, corruption=uneven)
    assert stream(masked, draws) != stream(make_policy("klucb", arms=4, corruption=uneven), draws)


@given(st.integers(0, 2**32), responses(), st.integers(1, 5), st.integers(5, 60))
def test_swapped_matrix_and_flipped_feedback_change_nothing(
    seed: int, g: RandomizedResponse, arms: int, window: int
) -> None:
    swapped = RandomizedResponse(1 - g.p00, 1 - g.p11)
    one = make_policy("sw-klucb-cf", arms=arms, corruption=g, window=window)
    other = make_policy("sw-klucb-cf", arms=arms, corruption=swapped, window=window)
    for feedback in np.random.default_rng(seed).integers(0, 2, 150):
        arm = one.choose()
        assert other.choose() == arm
        one.observe(arm, feedback)
        other.observe(arm, 1 - feedback)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 6), corruptions)
def test_more_of_the_same_lowers_the_index(ones: int, zeros: int, times: int, g: Corruption) -> None:
    """At a fixed mean and a fixed level, the index does not grow with the number of observations."""
    window = 2 * times * (ones + zeros) + 1
    indices = []
    for repeat in (1, times, 2 * times):
        policy = make_policy("sw-klucb-cf", arms=2, corruption=[g, RR], window=window)
        for _ in range(window - repeat * (ones + zeros)):
            policy.observe(1, 1)
        for _ in range(repeat):
            for bit in [1] * ones + [0] * zeros:
                policy.observe(0, bit)
        indices.append(policy.indices()[0])
    assert indices[0] >= indices[1] - 1e-12
    assert indices[1] >= indices[2] - 1e-12


def test_fractions_do_not_pile_up_rounding_errors() -> None:
    policy = make_policy("sw-klucb-cf", arms=2, corruption=RandomizedResponse(1, 1), window=10)
    rng = np.random.default_rng(0)
    recent: list[tuple[int, float]] = []
    for feedback in rng.random(20_000):
        arm = policy.choose()
        policy.observe(arm, feedback)
        recent = [*recent[-9:], (arm, feedback)]
    for arm in range(2):
        seen = [feedback for chosen, feedback in recent if chosen == arm]
        assert policy.estimates()[arm] == pytest.approx(math.fsum(seen) / len(seen), abs=1e-14)


class TestEveryPolicy:
    """One contract for all names."""

    @pytest.fixture(params=sorted(REGISTRY))
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @staticmethod
    def make(name: str, arms: int = 3, corruption: Corruption = RR) -> Policy:
        examples: dict[str, Any] = {
            "window": 40,
            "gamma": 0.97,
            "restarts": [0, 60],
            "horizon": 300,
            "variation": 0.1,
            "epsilon": 20.0,
        }
        examples["best"] = [min(1, arms - 1)] * 2
        needed = {key: examples[key] for key, default in REGISTRY[name].parameters.items() if default is ...}
        if name == "adswitch":  # with the constants of the proof, it learns in millions of steps
            needed |= {"horizon": 3000, "strictness": 1.0, "finest": 2.0}
        return make_policy(name, arms=arms, corruption=corruption, **needed)

    def test_learns_on_an_easy_problem(self, name: str) -> None:
        if name == "uniform":
            return  # it never learns
        rng = generator(1)
        policy = self.make(name, corruption=RandomizedResponse(1, 1))
        chosen = []
        for _ in range(1000):
            arm = choose(policy, rng)
            observe(policy, arm, float(rng.random() < [0.05, 0.95, 0.05][arm]), rng)
            chosen.append(arm)
        assert np.mean(np.array(chosen) == 1) > 0.6

    def test_one_arm_is_always_chosen(self, name: str) -> None:
        policy = self.make(name, arms=1)
        for bit in [0, 1] * 50:
            assert policy.choose() == 0
            policy.observe(0, bit)

    @pytest.mark.parametrize("bit", [0, 1])
    def test_survives_equal_feedback(self, name: str, bit: int) -> None:
        policy = self.make(name)
        for _ in range(300):
            policy.observe(policy.choose(), bit)
        assert np.all(np.isfinite(policy.indices()))

    @pytest.mark.parametrize("means", [[0.0] * 3, [1.0] * 3, [0.5] * 3, [0.0, 1.0, 0.0], [0.5]], ids=str)
    def test_survives_long_plays(self, name: str, means: list[float]) -> None:
        """Among them 10^5 equal feedbacks, identical means, means 0 and 1, and a single arm."""
        certain = RandomizedResponse(1, 1)
        problem = Problem([means], [0], LONG if len(set(means)) == 1 else 3000, certain)
        result = simulate(problem, self.make(name, len(means), certain), runs=1, threads=1)
        assert np.all(np.isfinite(result.regret))
        assert result.pulls.sum() == problem.horizon
        if len(set(means)) == 1:
            assert result.regret[0, -1] == 0

    def test_the_same_seed_gives_the_same_numbers(self, name: str) -> None:
        problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 400], 900, RR)
        one, two, other = (
            simulate(problem, self.make(name), runs=3, seed=seed, threads=threads, checkpoints=10)
            for seed, threads in ((5, 1), (5, 2), (6, 1))
        )
        assert np.array_equal(one.regret, two.regret)
        assert np.array_equal(one.pulls, two.pulls)
        steady = ("oracle", "adswitch")  # which still takes turns at this length
        assert len({tuple(row) for row in one.regret.tolist() + other.regret.tolist()}) > 1 or name in steady

    def test_live_it_plays_as_simulated(self, name: str) -> None:
        """The same generator, asked in the same order, gives the same play."""
        problem = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 150], 300, RR)
        result = simulate(problem, self.make(name), runs=1, seed=5)
        rng = generator(np.random.SeedSequence(5).spawn(1)[0])
        policy, pulls = self.make(name), [0, 0, 0]
        for step in range(300):
            arm = choose(policy, rng)
            shown = problem.means if REGISTRY[name].sees_rewards else problem.feedback_means
            observe(policy, arm, float(rng.random() < shown[int(step >= 150), arm]), rng)
            pulls[arm] += 1
        assert result.pulls[0].tolist() == pulls

    def test_pulls_every_arm_first(self, name: str) -> None:
        if REGISTRY[name].random or name == "oracle":
            return  # an arm never seen has a prior, and need not come first; or it need not be seen at all
        policy = self.make(name, arms=7)
        seen = []
        for _ in range(7):
            seen.append(policy.choose())
            policy.observe(seen[-1], 1)
        assert seen == list(range(7))

    def test_saved_and_loaded_in_mid_run_it_goes_on_exactly(self, name: str, tmp_path: Path) -> None:
        draws = np.random.default_rng(3).random(300)
        for until in (0, 1, 5, 39, 40, 41, 150):
            one = self.make(name)
            stream(one, draws[:until])
            path = tmp_path / "policy"
            one.save(path)
            copy = load_policy(path)
            assert [*stream(one, draws[until:])] == [*stream(copy, draws[until:])]
            assert np.array_equal(copy.indices(), one.indices())
            assert (copy.name, copy.parameters, copy.observations) == (name, one.parameters, 300)

    def test_what_is_out_of_range_is_refused_and_changes_nothing(self, name: str) -> None:
        policy = self.make(name)
        stream(policy, np.random.default_rng(0).random(20))
        before = policy._ints.copy(), policy._floats.copy()
        for arm, feedback in [(3, 1), (-1, 1), (0, 1.5), (0, -0.1), (0, math.nan), (0, math.inf), (1 << 70, 0)]:
            with pytest.raises(ValueError, match=r"out of range|does not exist"):
                policy.observe(arm, feedback)
        wrong: list[tuple[Any, Any]] = [("0", 1), (0.0, 1), (None, 1), (0, "x"), (0, None)]
        for place, value in wrong:
            with pytest.raises((TypeError, ValueError)):
                policy.observe(place, value)
        assert np.array_equal(policy._ints, before[0])
        assert np.array_equal(policy._floats, before[1])

    def test_estimates_are_means_of_rewards(self, name: str) -> None:
        policy = self.make(name)
        assert np.all(np.isnan(policy.estimates()))
        rng = generator(0)
        for arm, bit in [(0, 1), (1, 0), (2, 1), (2, 0)]:
            observe(policy, arm, bit, rng)
        rough = "gamma" in policy.parameters or REGISTRY[name].sees_rewards  # faded, or masked with noise
        assert policy.estimates() == pytest.approx([1.0, 0.0, 0.5], abs=0.5 if rough else 1e-9)
        assert name in repr(policy)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "sw-klucb"}, "did you mean 'sw-klucb-cf'"),
        ({"name": "zzz"}, "known are"),
        ({"window": 2}, "window 2 is smaller than the number of arms 3"),
        ({"window": 0}, "window"),
        ({"window": 10.5}, "window"),
        ({"window": math.nan}, "window"),
        ({"window": "paper"}, "window"),
        ({"window": ...}, "needs the parameter 'window'"),
        ({"windw": 10}, "did you mean 'window'"),
        ({"c": -1}, "c = -1"),
        ({"c": math.nan}, "c = nan"),
        ({"c": "3"}, "c = '3'"),
        ({"arms": 0}, "arms"),
        ({"arms": 2.5}, "arms"),
        ({"corruption": None}, "needs corruption"),
        ({"corruption": [RR]}, "1 corruptions for 3 arms"),
    ],
)
def test_what_is_not_a_policy_is_refused_in_one_line(settings: dict[str, Any], complaint: str) -> None:
    given = {"name": "sw-klucb-cf", "arms": 3, "corruption": RR, "window": 10, **settings}
    with pytest.raises(ValueError, match=complaint) as caught:
        make_policy(given.pop("name"), **given)
    assert "\n" not in str(caught.value)


CHANGED: dict[str, dict[str, Any]] = {
    "sw-klucb-cf": {"window": 10},
    "sw-ts-cf": {"window": 10},
    "d-ucb-cf": {"gamma": 0.9},
    "oracle-klucb-cf": {"restarts": [0, 30, 50]},
    "glr-klucb-cf": {},
    "m-ts-cf": {"width": 10},
}


def played(name: str) -> Policy:
    policy = make_policy(name, arms=3, corruption=RR, **CHANGED[name])
    stream(policy, np.random.default_rng(0).random(25))
    if name == "sw-ts-cf":
        policy.observe(0, 1, corruption=RandomizedResponse(0.9, 0.9))
    return policy


def survives(policy: Policy, path: str | Path) -> bool:
    """Save and load it, and play on: tell whether that was not refused."""
    policy.save(path)
    try:
        copy = load_policy(path)
    except ValueError:
        return False
    for bit in [0, 1] * 50:
        arm = copy.choose()
        assert 0 <= arm < 3
        copy.observe(arm, bit)
    copy.indices()
    return True


class TestSavedFiles:
    """A file from elsewhere must not reach the compiled code unchecked."""

    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        policy = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=10)
        stream(policy, np.random.default_rng(0).random(25))
        policy.save(tmp_path / "policy")
        return tmp_path / "policy"

    def test_what_is_no_policy_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("hello")
        (tmp_path / "empty").write_bytes(b"")
        np.savez(tmp_path / "other.npz", a=np.zeros(3))
        for name in ("text", "empty", "other.npz"):
            with pytest.raises(ValueError, match="not a saved policy"):
                load_policy(tmp_path / name)
        with pytest.raises(FileNotFoundError):
            load_policy(tmp_path / "missing")

    def test_a_cut_off_file_is_refused(self, saved: Path) -> None:
        data = saved.read_bytes()
        for length in range(0, len(data), 97):
            saved.write_bytes(data[:length])
            with pytest.raises(ValueError, match="not a saved policy"):
                load_policy(saved)

    @pytest.mark.parametrize("name", list(CHANGED))
    @examples(80)
    @given(data=st.data())
    def test_a_changed_number_is_refused_or_harmless(
        self, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
    ) -> None:
        policy = played(name)
        view = views(policy._ints, policy._floats)
        section = getattr(view, data.draw(st.sampled_from([key for key in view._fields if getattr(view, key).size])))
        place = data.draw(st.integers(0, min(section.size, 40) - 1))  # with the head of a detector
        whole = st.one_of(st.integers(-2, 300), st.integers(-(2**63), 2**63 - 1))
        value = whole if section.dtype == np.int64 else st.one_of(st.floats(), st.integers(-2, 300).map(float))
        section[place] = data.draw(value)
        survives(policy, tmp_path_factory.getbasetemp() / f"changed {name}")

    def test_changed_numbers_do_not_bring_the_process_down(self, tmp_path: Path) -> None:
        """Many more, in a process of its own, any place with the same chance."""
        script = (
            "import sys, numpy as np, test_policies as t\n"
            "rng, refused = np.random.default_rng(1), 0\n"
            "for name in t.CHANGED:\n"
            "    for attempt in range(int(sys.argv[2])):\n"
            "        policy = t.played(name)\n"
            "        array = policy._ints if attempt % 2 else policy._floats\n"
            "        for place in rng.integers(0, array.size, rng.integers(1, 3)):\n"
            "            array[place] = rng.choice([-1, 0, 1, 2, 3, 17, 193, 1e9, 1e18])\n"
            "        refused += not t.survives(policy, sys.argv[1])\n"
            "print(refused)\n"
        )
        attempts = "20" if LONG < 100_000 else "150"
        command = [sys.executable, "-c", script, str(tmp_path / "changed"), attempts]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        assert int(done.stdout) > 0

    @pytest.mark.parametrize(
        ("parameters", "complaint"),
        [({"window": 2**32}, "size"), ({"window": "x"}, "parameters"), ({"window": 10, "c": 1.0}, "parameters")],
    )
    def test_parameters_of_another_policy_are_refused(
        self, saved: Path, parameters: dict[str, Any], complaint: str
    ) -> None:
        policy = load_policy(saved)
        policy.parameters = parameters
        policy.save(saved)
        with pytest.raises(ValueError, match=complaint):
            load_policy(saved)

    def test_a_damaged_generator_is_refused(self, tmp_path: Path) -> None:
        played("sw-ts-cf").save(tmp_path / "policy")
        with np.load(tmp_path / "policy") as file:
            arrays = dict(file)
        damages: list[Any] = [None, [], [1, 2, 3], [1, 2, 3, -4], [1, 2, 3, 2**64], ["a", 2, 3, 4], {}, [[1, 2, 3, 4]]]
        for damage in damages:
            about = {**json.loads(str(arrays["about"])), "lots": damage}
            with (tmp_path / "changed").open("wb") as file:
                np.savez(file, **{**arrays, "about": np.array(json.dumps(about))})
            with pytest.raises(ValueError, match="generator"):
                load_policy(tmp_path / "changed")
