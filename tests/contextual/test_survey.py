"""How large groups are, from a masked survey."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedbandits import make_contextual
from maskedbandits.contextual import shares_from_survey
from maskedbandits.errors import UserError
from maskedbandits.privacy import KaryRandomizer
from naive import audit_statistics as naive


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=2, max_size=3).filter(any), st.sampled_from([0.5, 1.0, 3.0]))
def test_survey_inverts_mask(counts: list[int], epsilon: float) -> None:
    total, whole = sum(counts), math.exp(epsilon) + len(counts) - 1
    truth, other = math.exp(epsilon) / whole, 1 / whole
    found = [min(max((count / total - other) / (truth - other), 1 / total), 1.0) for count in counts]
    survey = shares_from_survey(counts, epsilon, confidence=0.9)
    assert survey.shares == pytest.approx(np.array(found) / sum(found))
    level = 0.1 / (2 * len(counts))
    for count, interval in zip(counts, survey.intervals, strict=True):
        low = naive.lowest_share(count, total, level)
        high = 1 - naive.lowest_share(total - count, total, level)
        wanted = [min(max((bound - other) / (truth - other), 0.0), 1.0) for bound in (low, high)]
        assert interval == pytest.approx(np.array(wanted), abs=1e-6)


def test_survey_of_devices_finds_shares() -> None:
    """20,000 devices draw from the operating system; intervals miss once in ten million times."""
    shares, randomizer = [0.5, 0.3, 0.2], KaryRandomizer(3, 1)
    answer_counts = Counter(
        randomizer.answer(group) for group, share in enumerate(shares) for _ in range(int(20_000 * share))
    )
    survey = shares_from_survey([answer_counts[group] for group in range(3)], 1, confidence=0.9999999)
    assert np.all((survey.intervals[:, 0] <= shares) & (shares <= survey.intervals[:, 1]))
    assert np.all(survey.intervals[:, 1] - survey.intervals[:, 0] < 0.15)
    assert survey.shares.sum() == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=2, max_size=6).filter(any), st.sampled_from([0.1, 1.0, 8.0]))
def test_policy_accepts_shares_of_any_survey(counts: list[int], epsilon: float) -> None:
    """A group that is named less often than by chance is small, and not empty."""
    shares = shares_from_survey(counts, epsilon).shares
    assert shares.min() > 0.0
    policy = make_contextual("klucb-cf", groups=len(counts), arms=2, epsilon=1, shares=shares, pool=False)
    assert policy.shares() == pytest.approx(shares)


@pytest.mark.parametrize(
    ("counts", "epsilon", "complaint"),
    [
        ([5], 1, "at least two groups"),
        ([0, 0], 1, "answers in all"),
        ([1, 2], 0, "reveals no shares"),
        ([1, -2], 1, "count"),
        ([2**62] * 3, 1, "count"),
        ([10**15, 1], 1, "answers in all"),
        (None, 1, "at least two groups"),
    ],
)
def test_invalid_survey_is_refused(counts: list[int], epsilon: float, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        shares_from_survey(counts, epsilon)
