import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector_settings import DETECTORS
from maskedbandits import GaussianNoise, Monotone, RandomizedResponse, load_policy, make_policy
from maskedbandits._numba.jit import INTERPRETED
from maskedbandits.corruption import Corruption
from naive import Twin
from specimens import INDICES, MEMORIES, RR
from trials import examples, generator
from twins import changing, choose, feedbacks, play_both, responses

CURVE = Monotone(lambda x: 0.1 + 0.8 * x * x)


class TestCorruptionOfAReport:
    """Every report may come with its own corruption: what counts is the mean of the functions."""

    @pytest.mark.parametrize("kind", INDICES)
    @pytest.mark.parametrize("before", MEMORIES)
    @examples(25)
    @given(data=st.data())
    def test_masked_reports_equal_twin(self, before: str, kind: str, data: st.DataObject) -> None:
        arms = data.draw(st.integers(1, 3), label="arms")
        each = [data.draw(responses(), label="g") for _ in range(arms)]
        seen = data.draw(feedbacks(30), label="feedbacks")
        begin = data.draw(st.integers(0, 15), label="begin")  # mixing begins in mid-run
        few = data.draw(st.lists(responses(), min_size=1, max_size=3), label="own")
        own = [None] * begin + [data.draw(st.sampled_from([None, *few])) for _ in seen[begin:]]
        given = {**MEMORIES[before], **INDICES[kind]}
        restarts = data.draw(st.sampled_from([None, [0, 12]]), label="restarts")
        fast = make_policy(f"{before}{kind}-cf", arms=arms, corruption=each, restarts=restarts, **given)
        play_both(fast, Twin(list(each), kind, restarts=restarts or (), **given), seen, own, seed=begin)

    @pytest.mark.plain
    @pytest.mark.parametrize("before", MEMORIES)
    def test_masked_reports_equal_twin_in_long_plays(self, before: str) -> None:
        """Through turns of the ring; epsilon is each person's choice, and some answer the other way round."""
        rng = np.random.default_rng(9)
        people = [
            RandomizedResponse.from_epsilon(0.5),
            RandomizedResponse(0.9, 0.8),
            RandomizedResponse(0.1, 0.3),
            None,
        ]
        own = [people[who] for who in rng.integers(0, 4, 150)]
        given = {**MEMORIES[before], "c": 3.0}
        fast = make_policy(f"{before}klucb-cf", arms=3, corruption=RR, **given)
        play_both(fast, Twin([RR] * 3, **given), changing(1, 150), own)

    @pytest.mark.parametrize("before", MEMORIES)
    @pytest.mark.parametrize("kind", INDICES)
    def test_mask_of_arm_changes_nothing(self, before: str, kind: str) -> None:
        each = [RR, RandomizedResponse(0.2, 0.3)]
        given = {**MEMORIES[before], **INDICES[kind]}
        plain, masked_values = (make_policy(f"{before}{kind}-cf", arms=2, corruption=each, **given) for _ in range(2))
        policy_rng = generator(0)
        for bit in changing(2, 80):
            arm = choose(plain, policy_rng)
            plain.observe(arm, bit)
            masked_values.observe(arm, bit, corruption=each[arm])
            missing = np.isinf(masked_values.indices())  # without an observation an arm has no corruption
            assert masked_values.indices()[~missing] == pytest.approx(plain.indices()[~missing], abs=1e-9)
            assert masked_values.estimates() == pytest.approx(plain.estimates(), abs=1e-9, nan_ok=True)

    @pytest.mark.parametrize("before", MEMORIES)
    @pytest.mark.parametrize("kind", INDICES)
    def test_saved_policy_continues_exactly(self, before: str, kind: str, tmp_path: Path) -> None:
        given = {**MEMORIES[before], **INDICES[kind]}
        one = make_policy(f"{before}{kind}-cf", arms=2, corruption=RR, **given)
        people = [RandomizedResponse.from_epsilon(0.5), RandomizedResponse(0.1, 0.3), None]
        for step, bit in enumerate(changing(4, 90)):
            one.observe(one.choose(), bit, corruption=people[step % 3])
        one.save(tmp_path / "policy")
        copy = load_policy(tmp_path / "policy", exact=True)
        for step, bit in enumerate(changing(5, 60)):
            arm = one.choose()
            assert copy.choose() == arm
            for policy in (one, copy):
                policy.observe(arm, bit, corruption=people[step % 3])
            assert np.array_equal(one.indices(), copy.indices())

    @pytest.mark.parametrize("name", DETECTORS)
    @pytest.mark.parametrize("kind", ["klucb", "ts"])
    @pytest.mark.parametrize(
        ("local", "share"),
        [
            (False, 0.0),
            (True, 0.1),
            pytest.param(False, 0.1, marks=pytest.mark.slow),
            pytest.param(True, 0.0, marks=pytest.mark.slow),
        ],
    )
    def test_detector_sees_one_mean_for_all_masks(self, name: str, kind: str, local: bool, share: float) -> None:
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
        assert fast.alarms > 0

    def test_changing_epsilon_raises_no_alarm(self) -> None:
        """The mean of the feedback jumps from 0.7 to 0.9 with the mask, that of the reward stays: no alarm."""
        rng = np.random.default_rng(0)
        weak, strong = RandomizedResponse(0.75, 0.75), RandomizedResponse(1, 1)
        policy = make_policy("glr-klucb-cf", arms=1, corruption=weak)
        for mask in (weak, strong):
            for _ in range(3000):
                policy.observe(0, float(rng.random() < mask(0.9)), corruption=mask)
        assert policy.alarms == 0
        assert policy.estimates()[0] == pytest.approx(0.9, abs=0.03)
        for _ in range(300):
            policy.observe(0, float(rng.random() < strong(0.5)), corruption=strong)
        assert policy.alarms == 1

    def test_klucb_ignores_report_masks(self) -> None:
        plain, masked_values = (make_policy("klucb", arms=2) for _ in range(2))
        for bit in changing(1, 50):
            arm = plain.choose()
            plain.observe(arm, bit)
            masked_values.observe(arm, bit, corruption=RR)
            assert np.array_equal(masked_values.indices(), plain.indices())

    def test_sums_accumulate_no_rounding_errors(self) -> None:
        policy = make_policy("sw-klucb-cf", arms=2, corruption=RR, window=10)
        rng = np.random.default_rng(0)
        recent: list[tuple[int, float, RandomizedResponse]] = []
        for bit in rng.integers(0, 2, 5000):
            arm, g = policy.choose(), RandomizedResponse(*rng.uniform(0.6, 1.0, 2))
            policy.observe(arm, bit, corruption=g)
            recent = [*recent[-9:], (arm, float(bit), g)]
        view = policy.snapshot()
        for arm in range(2):
            lows = math.fsum((g(1.0) - g(0.0)) / (RR(1.0) - RR(0.0)) * g(0.0) for a, _, g in recent if a == arm)
            assert view.mask_lows[arm] == pytest.approx(lows, abs=1e-14)

    @pytest.mark.skipif(INTERPRETED, reason="400,000 steps")
    @pytest.mark.parametrize("name", ["klucb-cf", "sw-klucb-cf", "d-ts-cf"])
    def test_noisy_reports_do_not_spoil_clear_ones(self, name: str) -> None:
        """200 reports at epsilon 4, and 2,000 at 0.1 on top: the estimate gets no worse, and the interval no wider.

        The root mean square error of 30 plays has a standard error of 13 %. Without weights it more than doubles.
        """
        needed: dict[str, dict[str, Any]] = {"sw-klucb-cf": {"window": 2200}, "d-ts-cf": {"gamma": 0.99999}}
        clear, dim = RandomizedResponse.from_epsilon(4), RandomizedResponse.from_epsilon(0.1)
        rng = np.random.default_rng(5)
        errors, widths = [], []
        for _ in range(30):
            policy = make_policy(name, arms=1, corruption=clear, **needed.get(name, {}))
            masked_values = []
            for mask, reports in ((clear, 200), (dim, 2000)):
                bits = (rng.random(reports) < mask(0.3)).astype(float)
                policy.observe_many(np.zeros(reports, dtype=int), bits, [mask] * reports)
                (low, high), (estimate,) = policy.intervals()[0], policy.estimates()
                assert low <= 0.3 <= high
                masked_values.append((estimate - 0.3, high - low))
            errors.append([error for error, _ in masked_values])
            widths.append([width for _, width in masked_values])
        alone, both = np.sqrt(np.mean(np.square(errors), axis=0))
        assert both < 1.3 * alone
        assert np.mean(widths, axis=0)[1] < 1.1 * np.mean(widths, axis=0)[0]

    @pytest.mark.parametrize(
        ("name", "arm", "report", "complaint"),
        [
            ("klucb-cf", CURVE, RR, "require arms with a RandomizedResponse"),
            ("klucb-cf", RR, CURVE, "not affine"),
            ("klucb-cf", RR, 0.5, "not affine"),
            ("glr-klucb-cf", CURVE, RR, "require arms with a RandomizedResponse"),
        ],
    )
    def test_invalid_mask_is_refused_without_effect(
        self, name: str, arm: Corruption, report: Any, complaint: str
    ) -> None:
        policy = make_policy(name, arms=2, corruption=[RR, arm])
        policy.observe(0, 1)
        before = pickle.dumps(policy)
        with pytest.raises(ValueError, match=complaint) as caught:
            policy.observe(1, 1, corruption=report)
        assert "\n" not in str(caught.value)
        assert pickle.dumps(policy) == before
        policy.observe(1, 1)

    def test_line_with_ends_of_curve_is_not_the_curve(self) -> None:
        """It was taken for the arm's own."""
        policy = make_policy("klucb-cf", arms=1, corruption=CURVE)
        with pytest.raises(ValueError, match="RandomizedResponse"):
            policy.observe(0, 1, corruption=RandomizedResponse(0.9, 0.9))


class TestLogs:
    """Many reports at once, some with their own masks; test_policy_digest.py compares the result."""

    @pytest.mark.parametrize("name", ["klucb-cf", "auto"])
    def test_masked_reports_are_no_longer_pending(self, name: str) -> None:
        policy = make_policy(name, arms=2, corruption=RR)
        policy.await_exactly([3, 5])
        policy.observe_many([0, 0, 1, 0, 0], [1, 0, 1, 1, 1], [None, RandomizedResponse(0.9, 0.9), RR, None, None])
        assert policy.pending.tolist() == [0, 4]
        assert policy.observations == 5

    @pytest.mark.parametrize(
        ("name", "arm", "corruptions", "complaint"),
        [
            ("klucb-cf", RR, [RR], "a list of 2"),
            ("klucb-cf", RR, RR, "a list of 2"),
            ("klucb-cf", RR, "ab", "not affine"),
            ("klucb-cf", RR, [None, CURVE], "not affine"),
            ("auto", RR, [None, GaussianNoise(1.0)], "adds noise"),
            ("klucb-cf", CURVE, [None, RR], "require arms with a RandomizedResponse"),
            ("auto", CURVE, [None, RR], "require arms with a RandomizedResponse"),
            ("uniform", RR, [None, RR], "does not support a corruption for a single report"),
            ("ucb-cf", GaussianNoise(1.0), [None, RR], "does not support a corruption for a single report"),
        ],
    )
    def test_invalid_log_is_refused_without_effect(self, name: str, arm: Any, corruptions: Any, complaint: str) -> None:
        policy = make_policy(name, arms=1, corruption=arm)
        policy.observe(0, 1)
        before = pickle.dumps(policy)
        with pytest.raises(ValueError, match=complaint) as caught:
            policy.observe_many([0, 0], [1, 0], corruptions)
        assert "\n" not in str(caught.value)
        assert pickle.dumps(policy) == before
        policy.observe_many([0, 0], [1, 0], [None, None])
        assert policy.observations == 3

    def test_any_affine_mask_is_accepted(self) -> None:
        class Affine:
            polyline = RandomizedResponse(0.9, 0.8).polyline

        affine: Any = Affine()
        one, other = (make_policy("klucb-cf", arms=1, corruption=RR) for _ in range(2))
        one.observe_many([0, 0], [1, 0], [affine, None])
        other.observe_many([0, 0], [1, 0], [RandomizedResponse(0.9, 0.8), None])
        assert one.fold_digest() == other.fold_digest()
