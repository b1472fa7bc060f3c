"""Arm selection beside a policy with known draws."""

import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.arm_selection import DRAWS, PARTS, WHOLE, ArmSelector, to_parts
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT, FLAG_SHOWN, FLAG_SUBSET


class FixedPolicy:
    """A policy that draws from given shares, or always chooses the likeliest arm."""

    def __init__(self, shares: Sequence[float], *, posterior: bool) -> None:
        self.shares = np.array(shares) / sum(shares)
        self.arms = len(shares)
        self.kind = SimpleNamespace(draws_from="posterior" if posterior else "")
        self.generator = np.random.default_rng(3)
        self.noted: Counter[int] = Counter()
        self.sampled = 0

    def _among(self, among: Sequence[int] | None) -> Any:
        if among is None:
            return self.shares
        shares = np.zeros(self.arms)
        shares[list(among)] = self.shares[list(among)]
        return shares / shares.sum()

    def sample(self, n: int, *, among: Sequence[int] | None = None) -> Any:
        self.sampled += n
        shares = self._among(among)
        if self.kind.draws_from:
            return self.generator.choice(self.arms, size=n, p=shares)
        return np.full(n, shares.argmax())

    def choose(self, *, among: Sequence[int] | None = None) -> int:
        arm = int(self._among(among).argmax())
        self.note(arm)
        return arm

    def note(self, arm: int, n: int = 1) -> None:
        self.noted[arm] += n


def selector(policy: FixedPolicy, floor: float = 0.0, holdout: float = 0.0, default: int = 0) -> ArmSelector:
    return ArmSelector(policy, range(policy.arms), floor, holdout, default)  # type: ignore[arg-type]


def test_index_policy_alone_is_certain() -> None:
    policy = FixedPolicy([1, 5, 2], posterior=False)
    assert selector(policy).decide() == (1, WHOLE, 0)
    assert policy.noted == {1: 1}


@given(st.floats(0, 1))
def test_shares_are_rounded_up_to_1024ths(share: float) -> None:
    assert share * PARTS - 1e-6 <= to_parts(share) <= share * PARTS + 1


@pytest.mark.parametrize("posterior", [False, True])
@pytest.mark.parametrize(("floor", "holdout"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.1), (0.03, 0.2)])
def test_probabilities_match_frequencies(posterior: bool, floor: float, holdout: float) -> None:
    """Given the draws of the policy, arms come as often as their probabilities say: 20,000 decisions, seeded."""
    random.seed(5)
    policy = FixedPolicy([1, 5, 2, 8], posterior=posterior)
    chooser = selector(policy, floor, holdout, default=2)
    expected, came = np.zeros(4), np.zeros(4)
    variance = np.zeros(4)
    for _ in range(20_000):
        arm, probability, _ = chooser.decide()
        counts = chooser.counts if posterior else {3: DRAWS}
        values = [each_probability(chooser, place, counts) for place in range(4)]
        assert sum(values) == WHOLE
        assert probability == values[arm] > 0
        shares = np.array(values) / WHOLE
        expected += shares
        variance += shares * (1.0 - shares)
        came[arm] += 1
    assert np.all(np.abs(came - expected) <= 4.5 * np.sqrt(variance) + 1e-9)
    assert dict(policy.noted) == ({} if posterior else {arm: int(count) for arm, count in enumerate(came) if count})


def each_probability(chooser: ArmSelector, arm: int, counts: dict[int, int]) -> int:
    """The probability of an arm from the definition: the floor, the holdout, and the policy for the rest."""
    floor, holdout = in_parts_of(chooser)
    taken = floor * 4 + holdout
    own = floor + (holdout if arm == 2 else 0)
    return own * 64 + (1024 - taken) * counts.get(arm, 0)


def in_parts_of(chooser: ArmSelector) -> tuple[int, int]:
    return chooser.floor, chooser.holdout


def test_floor_and_holdout_are_flagged() -> None:
    random.seed(1)
    chooser = selector(FixedPolicy([0, 1, 0], posterior=False), floor=0.1, holdout=0.1, default=2)
    seen = Counter((decision.arm, decision.flags) for decision in (chooser.decide() for _ in range(5_000)))
    assert {flags for _, flags in seen} == {0, FLAG_FLOOR, FLAG_HOLDOUT}
    assert {arm for arm, flags in seen if flags == FLAG_HOLDOUT} == {2}
    assert {arm for arm, flags in seen if flags == FLAG_FLOOR} == {0, 1, 2}
    assert {arm for arm, flags in seen if flags == 0} == {1}


@pytest.mark.parametrize("posterior", [False, True])
def test_only_eligible_arms_are_selected(posterior: bool) -> None:
    random.seed(2)
    chooser = selector(FixedPolicy([1, 5, 2, 8], posterior=posterior), floor=0.05, holdout=0.1, default=3)
    for _ in range(500):
        arm, probability, flags = chooser.decide((0, 2))
        assert arm in (0, 2)
        assert flags & FLAG_SUBSET
        assert 0 < probability <= WHOLE


@pytest.mark.parametrize("among", [None, (0, 2, 3)])
def test_show_returns_policy_probability(among: tuple[int, ...] | None) -> None:
    random.seed(4)
    policy = FixedPolicy([1, 5, 2, 8], posterior=True)
    chooser = selector(policy, floor=0.05, holdout=0.1)
    values = {(decision.arm, decision.probability) for decision in (chooser.show(among) for _ in range(DRAWS))}
    if among is None:  # all from one set of draws
        assert values == {(arm, PARTS * count) for arm, count in chooser.counts.items()}
    assert all(0 < probability < WHOLE and probability % PARTS == 0 for _, probability in values)
    assert selector(FixedPolicy([1, 5], posterior=False), floor=0.05).show() == (1, WHOLE, FLAG_SHOWN)


def test_draws_are_renewed_after_news() -> None:
    policy = FixedPolicy([1, 1], posterior=True)
    chooser = selector(policy)
    for _ in range(DRAWS):
        chooser.decide()
    assert policy.sampled == DRAWS
    chooser.decide()
    assert policy.sampled == 2 * DRAWS
    chooser.mark_stale()
    for _ in range(8):
        chooser.decide()
    assert policy.sampled == 3 * DRAWS


@pytest.mark.parametrize("among", [None, (0, 2, 3)])
def test_untried_arm_gets_one_draw(among: tuple[int, ...] | None) -> None:
    """While it is untried, and though the policy never draws it; its probability is as exact as any."""
    random.seed(6)
    untried = np.array([False, True, False, True])
    chooser = selector(FixedPolicy([0, 0, 0, 1], posterior=True))
    chooser.find_untried = lambda: untried
    assert {chooser.decide().arm for _ in range(100)} == {3}  # which is untried itself, and drawn
    untried[3] = False
    chooser = selector(FixedPolicy([0, 0, 0, 1], posterior=True))
    chooser.find_untried = lambda: untried
    values = Counter(chooser.decide(among) for _ in range(2000))
    expected = {(1, PARTS): 1 / DRAWS, (3, WHOLE - PARTS): 1 - 1 / DRAWS} if among is None else {(3, WHOLE): 1.0}
    assert {(arm, probability) for arm, probability, _ in values} == set(expected)
    for (arm, probability, _), count in values.items():
        share = expected[arm, probability]
        assert abs(count - 2000 * share) <= 4.5 * np.sqrt(2000 * share * (1 - share))


def test_untried_arm_among_many_gets_as_much() -> None:
    """One draw is made at once, and then used for 64 decisions: of 2,000 sets about 31 are of the untried arm."""
    random.seed(7)
    policy = FixedPolicy([1, *[0] * 9_999], posterior=True)
    chooser = selector(policy)
    untried = np.zeros(10_000, bool)
    untried[7_777] = True
    chooser.find_untried = lambda: untried
    came = Counter(chooser.decide((0, 5, 7_777)).arm for _ in range(2000))
    assert set(came) == {0, 7_777}
    assert abs(came[7_777] - 2000 / DRAWS) <= 4.5 * np.sqrt(2000 / DRAWS)


def test_many_arms_mean_fewer_draws_with_exact_shares() -> None:
    policy = FixedPolicy([1] * 1000, posterior=True)
    chooser = selector(policy)
    decision = chooser.decide()
    assert policy.sampled == 16
    assert decision.probability % (WHOLE // 16) == 0
