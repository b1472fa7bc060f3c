"""Exact randomisers: thresholds proved, words enumerated, no seed anywhere.

Statistical checks allow what Hoeffding's inequality gives to chance once in ten million times.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import math
import os
import pickle
import subprocess
import sys
import textwrap
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_UP, Context, Decimal, FloatOperation, Inexact, Rounded, Subnormal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import maskedbandits.privacy
import naive_privacy as naive
from maskedbandits import make_policy
from maskedbandits.errors import UserError
from maskedbandits.privacy import (
    ExactEpsilon,
    KaryRandomizer,
    Ledger,
    Randomizer,
    as_epsilon,
    exact,
    mechanism,
    mechanism_for,
    round_value,
    threshold,
)
from maskedbandits.privacy.exact import as_sum, as_text, exp_between

GRID = ["0", "1e-30", "1e-19", "1e-9", "0.001", "0.01", "0.1", "1/3", "0.5", "1", "1.5", "2", "22/7"]
GRID += ["5", "8", "12", "15.999999999", "16"]
epsilons = st.fractions(0, 16) | st.floats(0, 16).map(as_epsilon)
shares = st.fractions(Fraction(1, 1000), Fraction(999, 1000))


class Stated(float):
    """Prints as another number."""

    __slots__ = ()

    def __str__(self) -> str:
        return "7"

    __repr__ = __str__


class Size(enum.IntEnum):
    """Whole numbers of yet another kind."""

    TWO = 2
    THREE = 3
    EIGHT = 8
    SIXTEEN = 16
    THIRTY_TWO = 32
    SIXTY_FOUR = 64


def slack(count: int) -> float:
    """How far a mean of so many numbers in [0, 1] is from its own mean, but once in ten million times."""
    return math.sqrt(math.log(2e7) / (2 * count))


# What an epsilon is


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("2.50"), Fraction(5, 2)),
        (np.int64(2), Fraction(2)),
        (np.float16(0.1), Fraction(1, 10)),
        (np.longdouble("0.1"), Fraction(1, 10)),
        (np.str_("0.1"), Fraction(1, 10)),
        (Stated(0.1), Fraction(1, 10)),
        (Fraction(np.int64(1), np.int64(3)), Fraction(1, 3)),  # type: ignore[call-overload]
        (1e-5, Fraction(1, 100_000)),
        (5e-324, Fraction(5, 10**324)),
        (0, Fraction(0)),
        (-0.0, Fraction(0)),
        (16, Fraction(16)),
    ],
)
def test_an_epsilon_is_what_a_person_writes(given: Any, meant: Fraction) -> None:
    assert as_epsilon(given) == meant


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (math.nan, "epsilon is NaN"),
        (Decimal("sNaN"), "epsilon is NaN"),
        (math.inf, "epsilon is infinite, which hides nothing"),
        ("-inf", "epsilon is infinite"),
        (-1, "epsilon = -1 is negative: give 0 (pure noise) or more"),
        (-1e-9, "is negative"),
        (16.000001, "epsilon = 16.000001 is above 16, where a report is false less than once in eight million"),
        (37, "epsilon = 37 is above 16"),
        (745.2, "is above 16"),
        (10**2000, "more than 1000 digits"),
        (Fraction(1, 10**2000), "more than 1000 digits"),
        ("1e999999999", "more than 1000 digits"),
        ("1e-999999999", "more than 1000 digits"),
        (True, "epsilon = True is not a number"),
        (np.True_, "is not a number"),
        ("one", "epsilon = 'one' is not a number"),
        ("", "is not a number"),
        ("1/0", "is not a number"),
        ("1/" + "9" * 5000, "is not a number"),
        (None, "is not a number"),
        (1j, "is not a number"),
        ([1], "is not a number"),
        (np.array([[1], [2]]), "is not a number"),
        (b"1", "is not a number"),
    ],
)
def test_what_is_no_epsilon_is_refused_with_the_reason(given: Any, reason: str) -> None:
    for kind in (as_epsilon, Randomizer, mechanism_for, lambda epsilon: KaryRandomizer(3, epsilon)):
        with pytest.raises(UserError, match="epsilon") as refusal:
            kind(given)
        assert reason in str(refusal.value)
        assert "\n" not in str(refusal.value)


@given(st.floats(0, 16))
def test_a_float_means_its_shortest_text(epsilon: float) -> None:
    assert as_epsilon(epsilon) == as_epsilon(repr(epsilon)) == as_epsilon(Decimal(repr(epsilon)))
    assert as_epsilon(as_text(as_epsilon(epsilon))) == as_epsilon(epsilon)


SETTINGS = [
    Context(traps=[Inexact, Rounded, Subnormal, FloatOperation]),
    Context(prec=2, Emin=0, Emax=5),
    Context(traps=[]),
    Context(rounding=ROUND_UP, capitals=0),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_settings_of_decimals_do_not_matter(settings: Context) -> None:
    def all_of_it() -> list[Any]:
        made = [Randomizer("1/3"), Randomizer(0.1), Randomizer("1e-30"), Randomizer.from_matrix("0.9", "0.8")]
        told = [(repr(one), one.flips, one.epsilon, str(one.exact_epsilon), float(one.exact_epsilon)) for one in made]
        with pytest.raises(UserError) as refusal:
            as_epsilon("one")
        return [
            told,
            str(refusal.value),
            as_text(Fraction(1, 7)),
            as_text(Fraction(1, 10**30)),
            as_sum(Fraction(22, 7)),
        ]

    usual = all_of_it()
    with localcontext(settings):
        assert all_of_it() == usual


def test_how_numpy_prints_does_not_matter() -> None:
    numbers = [0.99999999999999, np.float64(0.99999999999999), np.float32(0.12345678), np.float16(0.1)]
    usual = [as_epsilon(number) for number in numbers]  # type: ignore[arg-type]
    with np.printoptions(legacy="1.13", precision=2, floatmode="fixed"):
        assert [as_epsilon(number) for number in numbers] == usual  # type: ignore[arg-type]


# Thresholds


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("epsilon", GRID)
def test_thresholds_are_those_of_high_precision_arithmetic(epsilon: str, bits: int) -> None:
    exact = as_epsilon(epsilon)
    for answers in (2, 3, 100):
        assert threshold(exact, bits, answers) == naive.threshold(exact, bits, answers)


@given(epsilons, st.sampled_from([8, 16, 32, 64]), st.integers(2, 1000))
def test_thresholds_anywhere(epsilon: Fraction, bits: int, answers: int) -> None:
    assert threshold(epsilon, bits, answers) == naive.threshold(epsilon, bits, answers)


@given(st.fractions(0, 20), st.integers(1, 300))
def test_the_enclosure_of_the_exponential_holds_and_is_narrow(x: Fraction, precision: int) -> None:
    low, high = exp_between(x, precision)
    assert Fraction(low) <= Fraction(high)
    assert not naive.log_exceeds(Fraction(low, 1 << precision), x)
    assert high == 1 << precision or naive.log_exceeds(Fraction(high, 1 << precision), x)
    assert high - low <= (precision + 100) * math.exp(float(x)) + 100


def test_a_point_that_needs_more_digits_is_refined() -> None:
    # The ceiling turns at the logarithm of 13/3, so close that the first enclosures hold both sides of it.
    turn, step = naive.log(Fraction(13, 3)), Fraction(1, 10**90)
    for epsilon in (turn - step, turn + step):
        assert threshold(epsilon) == naive.threshold(epsilon, 64)
    assert threshold(turn + step) == 3 * 2**60
    assert threshold(turn - step) == 3 * 2**60 + 1


def test_epsilon_0_is_pure_noise() -> None:
    assert Randomizer(0).flips == (2**63, 2**63)
    assert Randomizer(0).exact_epsilon.odds == 1


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64, Size])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_sizes_of_any_whole_kind_are_the_same_sizes(kind: Any, bits: int) -> None:
    """A numpy integer overflows where Python's grows: 1 << 64 is 0, and a threshold of 0 never flips."""
    size, two, three = kind(bits), kind(2), kind(3)
    assert threshold(1, size) == threshold(1, bits)
    assert threshold(1, size, three) == threshold(1, bits, 3)
    assert Randomizer(1, bits=size).flips == Randomizer(1, bits=bits).flips
    assert Randomizer.from_matrix(0.9, 0.6, bits=size).flips == Randomizer.from_matrix(0.9, 0.6, bits=bits).flips
    assert KaryRandomizer(three, 1, bits=size).each == KaryRandomizer(3, 1, bits=bits).each
    assert KaryRandomizer(two, 1, bits=size).exact_epsilon == Randomizer(1, bits=bits).exact_epsilon
    assert type(Randomizer(1, bits=size).word_bits) is type(KaryRandomizer(three, 1).answers) is int


@pytest.mark.parametrize("factor", [Fraction(-(10**9)), Fraction(0), Fraction(1, 10)])
def test_a_threshold_that_cannot_be_makes_no_randomizer(factor: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def slipped(x: Fraction, precision: int) -> tuple[int, int]:
        wrong = math.floor(factor * exp_between(x, precision)[0])
        return wrong, wrong

    monkeypatch.setattr(exact, "exp_between", slipped)
    for make in (Randomizer, threshold, lambda epsilon: KaryRandomizer(3, epsilon)):
        with pytest.raises(ArithmeticError, match="cannot be those of one false answer"):
            make(1)


# The real epsilon


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("epsilon", GRID)
def test_the_real_epsilon_is_at_most_the_stated_one(epsilon: str, bits: int) -> None:
    randomizer = Randomizer(epsilon, bits=bits)
    stated, odds = as_epsilon(epsilon), randomizer.exact_epsilon.odds
    assert not naive.log_exceeds(odds, stated)
    assert randomizer.exact_epsilon.at_most(epsilon)
    if bits == 64:
        assert stated - naive.log(odds) < Fraction(1, 10**12)


@given(st.fractions(1, 9_000_000))
def test_statements_of_an_exact_epsilon(odds: Fraction) -> None:
    exact, unit = ExactEpsilon(odds), Fraction(1, 10**24)
    up = Fraction(exact.rounded_up())
    assert not naive.log_exceeds(odds, up)
    assert up == 0 or naive.log_exceeds(odds, up - unit)
    assert exact.at_most(up)
    assert up == 0 or not exact.at_most(up - unit)
    near = Fraction(float(exact))
    assert not naive.log_exceeds(odds, near)
    assert near - naive.log(odds) <= unit + 2 * Fraction(math.ulp(float(exact)))


def test_an_exact_epsilon_is_a_statement_about_whole_numbers() -> None:
    assert str(Randomizer(1).exact_epsilon) == (
        "ln(6742825251438785381/2480546785415990427) <= 0.999999999999999999960025"
    )
    assert not ExactEpsilon(Fraction(3)).at_most(1)
    assert ExactEpsilon(Fraction(1)).at_most(0)
    assert not ExactEpsilon(1 + Fraction(1, 2**64)).at_most(0)


def test_bounds_far_off_are_answered_at_once() -> None:
    start = time.perf_counter()
    for odds in (Fraction(1), Fraction(3), Randomizer(1).exact_epsilon.odds, Randomizer(16).exact_epsilon.odds):
        assert not any(ExactEpsilon(odds).at_most(bound) for bound in (-1e-9, -1, -20, "-1e300"))
        assert all(ExactEpsilon(odds).at_most(bound) for bound in (17, 64, 1000, "1e6", "1e300"))
    assert time.perf_counter() - start < 1


@given(st.floats(0.5, 0.9999998))
def test_opendp_has_the_same_epsilon_for_the_same_probability(truth: float) -> None:
    dp.enable_features("contrib")
    measured = dp.m.make_randomized_response_bool(truth).map(1)  # type: ignore[no-untyped-call]
    if truth > 0.5:
        # the probability itself, not the decimal that it is written as
        ours = Randomizer.from_matrix(Fraction(truth), Fraction(truth)).exact_epsilon
        assert float(ours) == pytest.approx(measured, abs=1e-12)


# All words


def all_masked(randomizer: Randomizer, bit: int) -> list[int]:
    """What every word makes of a bit."""
    words = np.arange(1 << randomizer.word_bits, dtype=f"<u{randomizer.word_bits // 8}")
    masked: list[int] = randomizer._masked(np.full(words.size, bit, dtype=np.uint8), words).tolist()
    return masked


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "4", "16"])
def test_of_all_words_exactly_the_threshold_flips(epsilon: str, bits: int) -> None:
    randomizer = Randomizer(epsilon, bits=bits)
    flipping = naive.threshold(as_epsilon(epsilon), bits)
    for bit in (0, 1):
        masked = all_masked(randomizer, bit)
        assert sum(answer != bit for answer in masked) == flipping
        assert masked == [naive.masked(bit, (flipping, flipping), word) for word in range(1 << bits)]
    assert randomizer.p00 == randomizer.p11 == 1 - Fraction(flipping, 1 << bits)


def test_an_array_is_masked_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.arange(1 << 16, dtype="<u2")
    monkeypatch.setattr(os, "urandom", lambda size: every.tobytes()[:size])
    randomizer = Randomizer.from_matrix("0.9", "0.6", bits=16)
    for bit in (0, 1):
        masked = randomizer.bits(np.full(1 << 16, bit))
        assert masked.tolist() == [naive.masked(bit, randomizer.flips, word) for word in range(1 << 16)]
    assert randomizer.bits([[True, False]]).shape == (1, 2)


def test_words_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    flips = Randomizer(1).flips[0]
    for word, bit in ((flips - 1, 1), (flips, 0)):
        monkeypatch.setattr(os, "urandom", lambda size, word=word: (word % (1 << 8 * size)).to_bytes(size, "little"))
        assert Randomizer(1)._drawn(np.zeros(1, dtype=np.uint8)).tolist() == [bit]
        assert Randomizer(1).bits([0]).tolist() == [bit]
        assert KaryRandomizer(2, 1).answer(0) == bit


def test_every_report_is_masked_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an audit of one way to a report is an audit of all."""
    randomizer, ledger = Randomizer(0), Ledger(0)
    for decision in range(64):
        ledger.reserve(decision, 0)
    monkeypatch.setattr(Randomizer, "_masked", lambda self, plain, words: plain)
    assert [randomizer.bit(bit) for bit in [0, 1] * 32] == [0, 1] * 32  # by chance: 2^-64
    assert [randomizer.report(bit).bit for bit in [0, 1] * 32] == [0, 1] * 32
    assert randomizer.bits([0, 1] * 32).tolist() == [0, 1] * 32
    assert [ledger.report(decision, decision % 2).bit for decision in range(64)] == [0, 1] * 32
    monkeypatch.setattr(Randomizer, "_masked", lambda self, plain, words: 1 - plain)
    assert [ledger.report(decision, 0).bit for decision in range(64)] == [0, 1] * 32  # remembered
    assert [randomizer.bit(bit) for bit in [0, 1] * 32] == [1, 0] * 32
    assert randomizer.bits([0, 1] * 32).tolist() == [1, 0] * 32


@given(shares, shares, st.sampled_from([8, 16, 64]))
def test_a_matrix_is_rounded_towards_privacy(p00: Fraction, p11: Fraction, bits: int) -> None:
    stated = naive.odds([[p00, 1 - p00], [1 - p11, p11]])
    real = Randomizer.from_matrix(p00, p11, bits=bits)
    assert real.exact_epsilon.odds == naive.odds([[real.p00, 1 - real.p00], [1 - real.p11, real.p11]])
    assert real.exact_epsilon.odds <= stated
    assert abs(real.p00 - p00) <= Fraction(1, 1 << bits)
    assert abs(real.p11 - p11) <= Fraction(1, 1 << bits)
    assert 0 <= float(real.epsilon) - float(naive.log(stated)) <= 1.1e-12


@pytest.mark.parametrize(("p00", "p11"), [("1e-30", "0.99999"), ("0.3", "0.7"), ("1/3", "2/3"), ("1e-9", "1e-9")])
@pytest.mark.parametrize("bits", [8, 64])
def test_matrices_at_the_edge(p00: str, p11: str, bits: int) -> None:
    a, b = Fraction(p00), Fraction(p11)
    stated = naive.odds([[a, 1 - a], [1 - b, b]])
    if stated > Fraction(8_886_110):
        with pytest.raises(UserError, match="have an epsilon above 16"):
            Randomizer.from_matrix(p00, p11, bits=bits)
        return
    assert Randomizer.from_matrix(p00, p11, bits=bits).exact_epsilon.odds <= stated


@pytest.mark.parametrize(
    ("p00", "p11", "reason"),
    [
        (1, 0.5, "p00 = 1 lets an answer prove what the bit was"),
        (0.5, 0, "p11 = 0 lets an answer prove"),
        (1.5, 0.5, "p00 = 1.5 is not a probability"),
        (0.5, math.nan, "p11 is NaN"),
        ("x", 0.5, "p00 = 'x' is not a number"),
        (1 - 1e-9, 1 - 1e-9, "have an epsilon above 16, which hides nothing"),
    ],
)
def test_matrices_that_hide_nothing_are_refused(p00: Any, p11: Any, reason: str) -> None:
    with pytest.raises(UserError, match=r"p00|p11") as refusal:
        Randomizer.from_matrix(p00, p11)
    assert reason in str(refusal.value)


# One of k answers


@pytest.mark.parametrize(("answers", "epsilon", "bits"), [(2, 1, 8), (3, 1, 8), (5, 2, 8), (4, 0, 8), (7, "0.5", 16)])
def test_of_all_words_every_false_answer_has_its_share(answers: int, epsilon: Any, bits: int) -> None:
    kary = KaryRandomizer(answers, epsilon, bits=bits)
    each = naive.threshold(as_epsilon(epsilon), bits, answers)
    rows = []
    for truth in range(answers):
        drawn = [kary._masked(truth, word) for word in range(1 << bits)]
        assert drawn == [naive.answered(truth, answers, each, word) for word in range(1 << bits)]
        counts = Counter(drawn)
        assert [counts[other] for other in range(answers) if other != truth] == [each] * (answers - 1)
        assert Fraction(counts[truth], 1 << bits) == kary.truth
        rows.append([Fraction(counts[answer], 1 << bits) for answer in range(answers)])
    assert kary.exact_epsilon.odds == naive.odds(rows)
    assert kary.exact_epsilon.at_most(epsilon)


def test_two_answers_are_a_bit() -> None:
    for epsilon in GRID:
        kary, randomizer = KaryRandomizer(2, epsilon, bits=8), Randomizer(epsilon, bits=8)
        for bit in (0, 1):
            assert [kary._masked(bit, word) for word in range(256)] == all_masked(randomizer, bit)
        assert KaryRandomizer(2, epsilon).exact_epsilon == Randomizer(epsilon).exact_epsilon


@given(st.integers(2, 2**40), epsilons)
def test_the_real_epsilon_of_many_answers(answers: int, epsilon: Fraction) -> None:
    try:
        kary = KaryRandomizer(answers, epsilon)
    except ValueError as refusal:
        assert "finer than one word" in str(refusal)  # noqa: PT017 -- not every draw is refused
        assert answers * naive.threshold(epsilon, 64, answers) > 2**64
        return
    assert kary.exact_epsilon.odds >= 1
    assert kary.exact_epsilon.at_most(epsilon)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: KaryRandomizer(1, 1), "answers = 1: a single answer says nothing"),
        (lambda: KaryRandomizer(2.5, 1), "answers is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: KaryRandomizer(3, 0), "epsilon = 0 with 3 answers is finer than one word of 64 bits can draw"),
        (lambda: KaryRandomizer(2**65, 1), "finer than one word"),
        (
            lambda: KaryRandomizer(4, 1).answer(4),
            "an answer that does not exist is not masked: they are numbered 0 to 3",
        ),
        (lambda: KaryRandomizer(4, 1).answer(-1), "an answer that does not exist"),
        (lambda: KaryRandomizer(4, 1).answer(1.0), "answer is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: threshold(Fraction(-1)), "epsilon = -1 is negative"),
        (lambda: threshold(17), "epsilon = 17 is above 16"),
        (lambda: threshold(1, 0), "bits = 0 is no size of a word"),
        (lambda: threshold(1, 64.0), "bits is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: threshold(1, 64, 1), "answers = 1: a single answer says nothing"),
        (lambda: Randomizer(1, bits=True), "bits = 1 is no size of a word"),
        (lambda: KaryRandomizer(4, 1, bits=63), "bits = 63 is no size of a word"),
        (lambda: Randomizer(1, bits=0), "bits = 0 is no size of a word: give one of 8, 16, 32, 64"),
        (lambda: Randomizer(1).bits([0, 2]), "must be bits"),
        (lambda: Randomizer(1).bits([0.5]), "must be bits"),
        (lambda: round_value(1.5), "a value outside [0, 1] is not masked"),
        (lambda: round_value(math.nan), "a value outside [0, 1]"),
        (lambda: Randomizer(1).bit(2), "a value outside [0, 1]"),
        (lambda: Randomizer(1).report("1"), "a value of type str is not masked"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_refused_in_one_line(make: Any, reason: str) -> None:
    with pytest.raises(UserError, match=r".") as refusal:
        make()
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_from_pure_noise_nothing_is_learnt() -> None:
    for source in (Randomizer(0), Randomizer(0).report(1)):
        with pytest.raises(ValueError, match="nothing could be learnt"):
            assert source.corruption


# Values between 0 and 1


@pytest.mark.parametrize("value", [0.0, 1 / 256, 0.25, 0.375, 0.99609375, 1.0])
def test_of_all_words_a_value_has_its_share(value: float) -> None:
    drawn = [mechanism._rounded(value, word, 8) for word in range(256)]
    assert sum(drawn) == value * 256
    assert drawn == [naive.rounded(value, word, 8) for word in range(256)]


@given(st.floats(0, 1), st.integers(0, 2**1080 - 1))
def test_rounding_compares_whole_numbers(value: float, word: int) -> None:
    assert mechanism._rounded(value, word, mechanism.ROUNDING_BITS) == naive.rounded(value, word, 1080)
    share = Fraction(value) * 2**1080  # of the words, how many make a 1: a whole number, so the mean is the value
    assert share.denominator == 1
    for near in {max(int(share) - 1, 0), min(int(share), 2**1080 - 1)}:
        assert mechanism._rounded(value, near, 1080) == (near < share)


def test_a_value_costs_the_same_draws_as_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))  # type: ignore[func-returns-value]
    draws = []
    values: list[Any] = [0, 1, True, 0.0, 1.0, 0.5, 5e-324, np.float32(0.1), np.int64(1)]
    for value in values:
        asked.clear()
        Randomizer(1).report(value)
        draws.append(tuple(asked))
    assert set(draws) == {(135, 8)}


def test_the_mean_of_a_rounded_value() -> None:
    count = 20_000
    for value in (0.1, 0.7):
        assert abs(sum(round_value(value) for _ in range(count)) / count - value) < slack(count)
    assert {round_value(0) for _ in range(100)} == {0}
    assert {round_value(1) for _ in range(100)} == {1}


class Sly(float):
    """Becomes another number on its way."""

    __slots__ = ()

    def __float__(self) -> float:
        return 7.0


SECRET = 0.8731
TAKEN_BY_NONE = [Fraction("0.8731"), Decimal("0.8731"), np.longdouble(SECRET), "0.8731", np.array(SECRET), [SECRET]]
OUTSIDE = [8731, -8731, 1.8731, -0.8731, 8731 * 10**400, math.inf, math.nan, np.float32(8.731), np.int64(8731)]


@pytest.mark.parametrize("value", [*TAKEN_BY_NONE, *OUTSIDE, 8731j, b"8731", Sly(SECRET)], ids=repr)
def test_no_error_repeats_what_was_to_be_masked(value: Any) -> None:
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
            told = "".join(traceback.format_exception_only(refusal.value))
            assert "731" not in told
            assert told.count("\n") == 1
            assert refusal.value.__cause__ is None
            assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
        assert ledger.recall("a") is None


def test_values_of_every_kind_that_is_taken() -> None:
    kinds: list[Any] = [int, float, bool, np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64]
    for kind in kinds:
        assert [round_value(kind(value)) for value in (0, 1)] == [0, 1]
    narrow: list[Any] = [np.float16(0.1), np.float32(0.1)]
    for value in narrow:
        share = int(Fraction(float(value)) * 2**1080)
        assert [mechanism._rounded(value, word, 1080) for word in (share - 1, share)] == [1, 0]


def test_both_sides_of_the_comparison_are_equally_long() -> None:
    sizes: set[int] = set()

    class Word(int):
        def __add__(self, other: int) -> Word:
            return Word(int(self) + other)

        def __lt__(self, other: int) -> bool:
            sizes.update((sys.getsizeof(int(self)), sys.getsizeof(other)))
            return int(self) < other

    for value in (0.0, 5e-324, 0.1, 0.5, 1.0):
        for word in (0, 1, 2**1079, 2**1080 - 1):
            assert mechanism._rounded(value, Word(word), 1080) == naive.rounded(value, word, 1080)
    assert len(sizes) == 1


# Reports


def test_frequencies_of_reports() -> None:
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


def test_a_report_carries_its_epsilon() -> None:
    report = Randomizer(0.1).report(1)
    assert report.epsilon == Fraction(1, 10)
    assert report.corruption == Randomizer(0.1).corruption
    assert Randomizer(0.1).as_report(report.bit) == report
    assert report.corruption.epsilon == pytest.approx(0.1, abs=1e-12)
    lopsided = Randomizer.from_matrix(0.9, 0.6)
    assert (lopsided.report(1).corruption.p00, lopsided.report(0).corruption.p11) == (0.9, 0.6)


def test_a_report_has_the_same_size_whatever_the_bit() -> None:
    reports = {report.bit: report for report in (Randomizer(1).report(1) for _ in range(200))}
    assert set(reports) == {0, 1}  # 200 reports are all the same with a probability of 0.73^200
    for written in (pickle.dumps, lambda report: json.dumps([report.bit, str(report.epsilon)])):
        assert len({len(written(report)) for report in reports.values()}) == 1


@pytest.mark.parametrize("name", ["klucb-cf", "sw-klucb-cf"])
def test_a_policy_learns_from_reports_with_epsilons_of_their_own(name: str) -> None:
    randomizers = [Randomizer(0.5), Randomizer(1), Randomizer.from_matrix(0.3, 0.2), Randomizer(4)]
    count, mean = 20_000, 0.3
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
    debiased = (np.mean(answers) - np.mean(lows)) / np.mean(spans)
    assert policy.estimates()[0] == pytest.approx(debiased, abs=1e-9)
    assert abs(debiased - mean) < slack(count) / np.mean(spans)


# Optimality


def private_enough(p00: float, p11: float, epsilon: float) -> bool:
    most = math.exp(epsilon) * (1 + 1e-13)
    pairs = [(p00, 1 - p11), (1 - p11, p00), (p11, 1 - p00), (1 - p00, p11)]
    return all(a <= most * b for a, b in pairs)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_no_feasible_matrix_tells_more(epsilon: float) -> None:
    ours = mechanism_for(epsilon)
    grid = [step / 400 for step in range(401)]
    found = max(p00 + p11 for p00 in grid for p11 in grid if private_enough(p00, p11, epsilon))
    assert found <= float(ours.p00 + ours.p11) + 1e-12
    assert found >= float(ours.p00 + ours.p11) - 2 / 400  # the search comes close, so it would have found a better one


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 16))
def test_no_matrix_that_is_private_enough_tells_more(p00: float, p11: float, epsilon: float) -> None:
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


# Where the randomness comes from

FORBIDDEN_MODULES = {"random", "secrets", "numpy.random"}
FORBIDDEN_NAMES = {"random", "default_rng", "RandomState", "Generator", "seed", "SystemRandom", "SeedSequence"}


def seeded(source: str) -> list[str]:
    """Name everything in a source that could draw from a generator with a seed."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = {node.module, *(alias.name for alias in node.names)}
            found += sorted(str(name) for name in names & (FORBIDDEN_MODULES | FORBIDDEN_NAMES))
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_NAMES:
            found.append(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg in FORBIDDEN_NAMES:
            found.append(str(node.arg))
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES | {"__import__"}:
            found.append(node.id)
    return found


def test_nothing_in_this_package_has_a_seed() -> None:
    files = sorted(Path(maskedbandits.privacy.__path__[0]).rglob("*.py"))
    assert {"exact.py", "mechanism.py"} <= {file.name for file in files}
    assert {file.name: seeded(file.read_text(encoding="utf-8")) for file in files} == {file.name: [] for file in files}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy.random",
        "import secrets",
        "from numpy import random",
        "from numpy.random import PCG64",
        "import numpy as np\nnp.random.rand()",
        "def f(seed=0): ...",
        "f(seed=1)",
        "__import__('random')",
    ],
)
def test_a_seed_would_be_found(source: str) -> None:
    assert seeded(source)


def test_no_branch_between_the_bit_and_the_output() -> None:
    branches = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Match, ast.Try, ast.For, ast.comprehension)
    for step, compared in ((Randomizer._masked, 1), (Randomizer._drawn, 0), (KaryRandomizer._masked, 1)):
        tree = ast.parse(textwrap.dedent(inspect.getsource(step)))
        assert not [node for node in ast.walk(tree) if isinstance(node, branches)]
        assert sum(isinstance(node, ast.Compare) for node in ast.walk(tree)) == compared


def test_the_operating_system_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or real(size))  # type: ignore[func-returns-value]
    randomizer, kary = Randomizer(1), KaryRandomizer(3, 1)
    for _ in range(3):
        randomizer.bit(1)
        kary.answer(1)
    randomizer.bits(np.ones(5, dtype=np.int64))
    assert asked == [135, 8, 8] * 3 + [40]


def test_bytes_of_the_operating_system_are_even() -> None:
    counts = np.bincount(np.frombuffer(os.urandom(1 << 20), dtype=np.uint8), minlength=256)
    expected = (1 << 20) / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(1e-9, 255)  # passed by chance in all but one of 10^9 runs


def test_threads_share_nothing() -> None:
    randomizer = Randomizer(0)

    def stream(_: int) -> tuple[int, ...]:
        return tuple(randomizer.bit(1) for _ in range(256))

    with ThreadPoolExecutor(8) as pool:
        streams = list(pool.map(stream, range(64)))
    assert len(set(streams)) == 64  # two of them agree by chance with a probability below 2^-240
    assert abs(np.mean(streams) - 0.5) < slack(64 * 256)


FORKING = """
import os
from maskedbandits.privacy import Randomizer
randomizer = Randomizer(0)
randomizer.bit(1)
for _ in range(8):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        single = "".join(str(randomizer.bit(1)) for _ in range(128))
        array = "".join(map(str, randomizer.bits([1] * 128)))
        os.write(write, (single + array).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 1000).decode())
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_forked_processes_share_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=True)
    streams = done.stdout.split()
    assert [len(stream) for stream in streams] == [256] * 8
    halves = [half for stream in streams for half in (stream[:128], stream[128:])]
    assert len(set(halves)) == 16  # by chance two agree with a probability below 2^-120
