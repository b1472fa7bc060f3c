"""Reports: exact rounding, frequencies, their contents, and optimality.

Statistical checks have Hoeffding tolerances that chance exceeds once in ten million times.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import sys
import traceback
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomizers import slack

from maskedbandits import make_policy
from maskedbandits.errors import UserError
from maskedbandits.privacy import KaryRandomizer, Ledger, Randomizer, mechanism_for, randomized_response, round_value
from naive import mechanism as naive

# Values between 0 and 1


@pytest.mark.parametrize("value", [0.0, 1 / 256, 0.25, 0.375, 0.99609375, 1.0])
def test_value_has_its_share_of_all_words(value: float) -> None:
    drawn = [randomized_response.round_with_word(value, word, 8) for word in range(256)]
    assert sum(drawn) == value * 256
    assert drawn == [naive.rounded(value, word, 8) for word in range(256)]


@given(st.floats(0, 1), st.integers(0, 2**1080 - 1))
def test_rounding_compares_whole_numbers(value: float, word: int) -> None:
    assert randomized_response.round_with_word(value, word, randomized_response.ROUNDING_BITS) == naive.rounded(
        value, word, 1080
    )
    share = Fraction(value) * 2**1080  # of the words, how many make a 1: a whole number, so the mean is the value
    assert share.denominator == 1
    for near in {max(int(share) - 1, 0), min(int(share), 2**1080 - 1)}:
        assert randomized_response.round_with_word(value, near, 1080) == (near < share)


def test_value_takes_the_same_draws_as_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda size: sizes.append(size) or bytes(size))  # type: ignore[func-returns-value]
    draws = []
    values: list[Any] = [0, 1, True, 0.0, 1.0, 0.5, 5e-324, np.float32(0.1), np.int64(1)]
    for value in values:
        sizes.clear()
        Randomizer(1).report(value)
        draws.append(tuple(sizes))
    assert set(draws) == {(135, 8)}


def test_rounded_value_has_its_mean() -> None:
    count = 20_000
    for value in (0.1, 0.7):
        assert abs(sum(round_value(value) for _ in range(count)) / count - value) < slack(count)
    assert {round_value(0) for _ in range(100)} == {0}
    assert {round_value(1) for _ in range(100)} == {1}


class Sly(float):
    """A float that changes its value."""

    __slots__ = ()

    def __float__(self) -> float:
        return 7.0


SECRET = 0.8731
TAKEN_BY_NONE = [Fraction("0.8731"), Decimal("0.8731"), np.longdouble(SECRET), "0.8731", np.array(SECRET), [SECRET]]
OUTSIDE = [8731, -8731, 1.8731, -0.8731, 8731 * 10**400, math.inf, math.nan, np.float32(8.731), np.int64(8731)]


@pytest.mark.parametrize("value", [*TAKEN_BY_NONE, *OUTSIDE, 8731j, b"8731", Sly(SECRET)], ids=repr)
def test_errors_do_not_repeat_the_value(value: Any) -> None:
    with Ledger(1) as ledger:
        ledger.reserve("a", 1)
        for mask in (
            round_value,
            Randomizer(1).bit,
            Randomizer(1).report,
            lambda value: Randomizer(1).bits([value]),
            KaryRandomizer(4, 1).answer,
            lambda value: ledger.report("a", value),
        ):
            with pytest.raises(UserError) as refusal:
                mask(value)
            message = "".join(traceback.format_exception_only(refusal.value))
            assert "731" not in message
            assert message.count("\n") == 1
            assert refusal.value.__cause__ is None
            assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
        assert ledger.recall("a") is None


def test_value_types_are_equivalent() -> None:
    kinds: list[Any] = [int, float, bool, np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64]
    for kind in kinds:
        assert [round_value(kind(value)) for value in (0, 1)] == [0, 1]
    narrow: list[Any] = [np.float16(0.1), np.float32(0.1)]
    for value in narrow:
        share = int(Fraction(float(value)) * 2**1080)
        assert [randomized_response.round_with_word(value, word, 1080) for word in (share - 1, share)] == [1, 0]


def test_compared_numbers_have_equal_length() -> None:
    sizes: set[int] = set()

    class Word(int):
        def __add__(self, other: int) -> Word:
            return Word(int(self) + other)

        def __lt__(self, other: int) -> bool:
            sizes.update((sys.getsizeof(int(self)), sys.getsizeof(other)))
            return int(self) < other

    for value in (0.0, 5e-324, 0.1, 0.5, 1.0):
        for word in (0, 1, 2**1079, 2**1080 - 1):
            assert randomized_response.round_with_word(value, Word(word), 1080) == naive.rounded(value, word, 1080)
    assert len(sizes) == 1


# Reports


def test_report_frequencies_match() -> None:
    count = 20_000
    randomizer = Randomizer.from_matrix(0.9, 0.6)
    assert abs(sum(randomizer.bit(0) for _ in range(count)) / count - 0.1) < slack(count)
    assert abs(sum(randomizer.bit(1) for _ in range(count)) / count - 0.6) < slack(count)
    many = 10**6
    assert abs(randomizer.bits(np.zeros(many, dtype=np.int64)).mean() - 0.1) < slack(many)
    assert abs(randomizer.bits(np.ones(many, dtype=np.bool_)).mean() - 0.6) < slack(many)
    kary = KaryRandomizer(4, 1)
    counts = Counter(kary.answer(2) for _ in range(count))
    for answer in range(4):
        share = kary.truth if answer == 2 else (1 - kary.truth) / 3
        assert abs(counts[answer] / count - share) < slack(count)


def test_report_carries_its_epsilon() -> None:
    report = Randomizer(0.1).report(1)
    assert report.epsilon == Fraction(1, 10)
    assert report.corruption == Randomizer(0.1).corruption
    assert Randomizer(0.1).as_report(report.bit) == report
    assert report.corruption.epsilon == pytest.approx(0.1, abs=1e-12)
    lopsided = Randomizer.from_matrix(0.9, 0.6)
    assert (lopsided.report(1).corruption.p00, lopsided.report(0).corruption.p11) == (0.9, 0.6)


def test_report_size_is_independent_of_the_bit() -> None:
    reports = {report.bit: report for report in (Randomizer(1).report(1) for _ in range(200))}
    assert set(reports) == {0, 1}  # 200 reports are all the same with a probability of 0.73^200
    for written in (pickle.dumps, lambda report: json.dumps([report.bit, str(report.epsilon)])):
        assert len({len(written(report)) for report in reports.values()}) == 1


@pytest.mark.parametrize("name", ["klucb-cf", "sw-klucb-cf"])
def test_policy_learns_from_reports_of_any_epsilon(name: str) -> None:
    randomizers = [Randomizer(0.5), Randomizer(1), Randomizer.from_matrix(0.3, 0.2), Randomizer(4)]
    count, mean = 5_000, 0.3
    window = {"window": count} if name.startswith("sw-") else {}
    policy = make_policy(name, arms=1, corruption=Randomizer(1).corruption, **window)
    answers, lows, spans = [], [], []
    for step in range(count):
        report = randomizers[step % 4].report(mean)
        policy.observe(0, report.bit, corruption=report.corruption)
        falling = report.p00 + report.p11 < 1
        answers.append(1 - report.bit if falling else report.bit)
        lows.append(float(report.p00 if falling else 1 - report.p00))
        spans.append(abs(float(report.p00 + report.p11 - 1)))
    weights = np.array(spans)  # a report weighs as much as it says
    debiased = np.sum(weights * (np.array(answers) - lows)) / np.sum(weights * spans)
    assert policy.estimates()[0] == pytest.approx(debiased, abs=1e-9)
    assert abs(debiased - mean) < slack(count) / np.mean(spans)


# Optimality


def private_enough(p00: float, p11: float, epsilon: float) -> bool:
    most = math.exp(epsilon) * (1 + 1e-13)
    pairs = [(p00, 1 - p11), (1 - p11, p00), (p11, 1 - p00), (1 - p00, p11)]
    return all(a <= most * b for a, b in pairs)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_no_feasible_matrix_is_more_informative(epsilon: float) -> None:
    ours = mechanism_for(epsilon)
    grid = [step / 200 for step in range(201)]
    found = max(p00 + p11 for p00 in grid for p11 in grid if private_enough(p00, p11, epsilon))
    assert found <= float(ours.p00 + ours.p11) + 1e-12
    assert found >= float(ours.p00 + ours.p11) - 2 / 200  # the search comes close, so it would have found a better one


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 16))
def test_no_private_matrix_is_more_informative(p00: float, p11: float, epsilon: float) -> None:
    # Any matrix, mixed with noise until it is private enough: those at the edge of what is feasible are all such.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if private_enough(0.5 + middle * (p00 - 0.5), 0.5 + middle * (p11 - 0.5), epsilon):
            low = middle
        else:
            high = middle
    ours = mechanism_for(epsilon)
    assert 1 + low * (p00 + p11 - 1) <= float(ours.p00 + ours.p11) + 1e-12
