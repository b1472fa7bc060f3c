"""Exact randomisers: every word enumerated, for a bit, a matrix and one of k answers."""

from __future__ import annotations

import math
import os
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomizers import GRID, epsilons, shares

from maskedbandits.errors import UserError
from maskedbandits.privacy import (
    KaryRandomizer,
    Ledger,
    Randomizer,
    as_epsilon,
    randomized_response,
    round_value,
    threshold,
)
from naive import mechanism as naive

# All words


def all_masked(randomizer: Randomizer, bit: int) -> list[int]:
    """Return what every word makes of a bit, one by one and as an array."""
    words = np.arange(1 << randomizer.word_bits, dtype=f"<u{randomizer.word_bits // 8}")
    masked = [
        int(randomized_response.mask_with_word(bit, word, randomizer.flips))
        for word in range(1 << randomizer.word_bits)
    ]
    array = randomized_response.mask_with_word(
        np.full(words.size, bit, dtype=np.uint8), words, np.array(randomizer.flips, words.dtype)
    )
    assert array.tolist() == masked
    return masked


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "4", "16"])
def test_exactly_the_threshold_of_words_flips(epsilon: str, bits: int) -> None:
    randomizer = Randomizer(epsilon, bits=bits)
    flipping = naive.threshold(as_epsilon(epsilon), bits)
    for bit in (0, 1):
        masked = all_masked(randomizer, bit)
        assert sum(answer != bit for answer in masked) == flipping
        assert masked == [naive.masked(bit, (flipping, flipping), word) for word in range(1 << bits)]
    assert randomizer.p00 == randomizer.p11 == 1 - Fraction(flipping, 1 << bits)


def test_array_is_masked_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.arange(1 << 16, dtype="<u2")
    monkeypatch.setattr(os, "urandom", lambda size: every.tobytes()[:size])
    randomizer = Randomizer.from_matrix("0.9", "0.6", bits=16)
    for bit in (0, 1):
        masked = randomizer.bits(np.full(1 << 16, bit))
        assert masked.tolist() == [naive.masked(bit, randomizer.flips, word) for word in range(1 << 16)]
    assert randomizer.bits([[True, False]]).shape == (1, 2)


def test_words_are_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    flips = Randomizer(1).flips[0]
    for word, bit in ((flips - 1, 1), (flips, 0)):
        monkeypatch.setattr(os, "urandom", lambda size, word=word: (word % (1 << 8 * size)).to_bytes(size, "little"))
        assert Randomizer(1).bit(0) == bit  # its 1080 bits of rounding make a 0 of a 0, whatever they are
        assert Randomizer(1).bits([0]).tolist() == [bit]
        assert KaryRandomizer(2, 1).answer(0) == bit


def test_every_report_is_masked_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of one way to a report then covers all."""
    randomizer, ledger = Randomizer(0), Ledger(0)
    for decision in range(64):
        ledger.reserve(decision, 0)
    monkeypatch.setattr(randomized_response, "mask_with_word", lambda plain, word, flips: plain)
    assert [randomizer.bit(bit) for bit in [0, 1] * 32] == [0, 1] * 32  # by chance: 2^-64
    assert [randomizer.report(bit).bit for bit in [0, 1] * 32] == [0, 1] * 32
    assert randomizer.bits([0, 1] * 32).tolist() == [0, 1] * 32
    assert [ledger.report(decision, decision % 2).bit for decision in range(64)] == [0, 1] * 32
    monkeypatch.setattr(randomized_response, "mask_with_word", lambda plain, word, flips: 1 - plain)
    assert [ledger.report(decision, 0).bit for decision in range(64)] == [0, 1] * 32  # remembered
    assert [randomizer.bit(bit) for bit in [0, 1] * 32] == [1, 0] * 32
    assert randomizer.bits([0, 1] * 32).tolist() == [1, 0] * 32


@given(shares, shares, st.sampled_from([8, 16, 64]))
def test_matrix_is_rounded_towards_privacy(p00: Fraction, p11: Fraction, bits: int) -> None:
    stated = naive.odds([[p00, 1 - p00], [1 - p11, p11]])
    real = Randomizer.from_matrix(p00, p11, bits=bits)
    assert real.exact_epsilon.odds == naive.odds([[real.p00, 1 - real.p00], [1 - real.p11, real.p11]])
    assert real.exact_epsilon.odds <= stated
    assert abs(real.p00 - p00) <= Fraction(1, 1 << bits)
    assert abs(real.p11 - p11) <= Fraction(1, 1 << bits)
    assert 0 <= float(real.epsilon) - float(naive.log(stated)) <= 1.1e-12


@pytest.mark.parametrize(("p00", "p11"), [("1e-30", "0.99999"), ("0.3", "0.7"), ("1/3", "2/3"), ("1e-9", "1e-9")])
@pytest.mark.parametrize("bits", [8, 64])
def test_extreme_matrices_are_private(p00: str, p11: str, bits: int) -> None:
    a, b = Fraction(p00), Fraction(p11)
    stated = naive.odds([[a, 1 - a], [1 - b, b]])
    if stated > Fraction(8_886_110):
        with pytest.raises(UserError, match="epsilon above 16"):
            Randomizer.from_matrix(p00, p11, bits=bits)
        return
    assert Randomizer.from_matrix(p00, p11, bits=bits).exact_epsilon.odds <= stated


@pytest.mark.parametrize(
    ("p00", "p11", "reason"),
    [
        (1, 0.5, "p00 = 1 would reveal the bit"),
        (0.5, 0, "p11 = 0 would reveal the bit"),
        (1.5, 0.5, "p00 = 1.5 is not a probability"),
        (0.5, math.nan, "p11 is NaN"),
        ("x", 0.5, "p00 = 'x' is not a number"),
        (1 - 1e-9, 1 - 1e-9, "have an epsilon above 16, which hides nothing"),
    ],
)
def test_revealing_matrices_are_refused(p00: Any, p11: Any, reason: str) -> None:
    with pytest.raises(UserError, match=r"p00|p11") as refusal:
        Randomizer.from_matrix(p00, p11)
    assert reason in str(refusal.value)


# One of k answers


@pytest.mark.parametrize(("answers", "epsilon", "bits"), [(2, 1, 8), (3, 1, 8), (5, 2, 8), (4, 0, 8), (7, "0.5", 16)])
def test_every_false_answer_has_its_share_of_words(answers: int, epsilon: Any, bits: int) -> None:
    kary = KaryRandomizer(answers, epsilon, bits=bits)
    each = naive.threshold(as_epsilon(epsilon), bits, answers)
    rows = []
    for truth in range(answers):
        drawn = [kary.mask_with_word(truth, word) for word in range(1 << bits)]
        assert drawn == [naive.answered(truth, answers, each, word) for word in range(1 << bits)]
        counts = Counter(drawn)
        assert [counts[other] for other in range(answers) if other != truth] == [each] * (answers - 1)
        assert Fraction(counts[truth], 1 << bits) == kary.truth
        rows.append([Fraction(counts[answer], 1 << bits) for answer in range(answers)])
    assert kary.exact_epsilon.odds == naive.odds(rows)
    assert kary.exact_epsilon.at_most(epsilon)


def test_two_answers_equal_a_bit() -> None:
    for epsilon in GRID:
        kary, randomizer = KaryRandomizer(2, epsilon, bits=8), Randomizer(epsilon, bits=8)
        for bit in (0, 1):
            assert [kary.mask_with_word(bit, word) for word in range(256)] == all_masked(randomizer, bit)
        assert KaryRandomizer(2, epsilon).exact_epsilon == Randomizer(epsilon).exact_epsilon


@given(st.integers(2, 2**40), epsilons)
def test_real_epsilon_of_many_answers_is_exact(answers: int, epsilon: Fraction) -> None:
    try:
        kary = KaryRandomizer(answers, epsilon)
    except ValueError as refusal:
        assert "too fine for words" in str(refusal)  # noqa: PT017 -- not every draw is refused
        assert answers * naive.threshold(epsilon, 64, answers) > 2**64
        return
    assert kary.exact_epsilon.odds >= 1
    assert kary.exact_epsilon.at_most(epsilon)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: KaryRandomizer(1, 1), "answers = 1: give 2 or more"),
        (lambda: KaryRandomizer(2.5, 1), "answers is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: KaryRandomizer(3, 0), "epsilon = 0 with 3 answers is too fine for words of 64 bits"),
        (lambda: KaryRandomizer(2**65, 1), "too fine for words"),
        (
            lambda: KaryRandomizer(4, 1).answer(4),
            "no such answer: give a number from 0 to 3",
        ),
        (lambda: KaryRandomizer(4, 1).answer(-1), "no such answer"),
        (lambda: KaryRandomizer(4, 1).answer(1.0), "answer is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: threshold(Fraction(-1)), "epsilon = -1 is negative"),
        (lambda: threshold(17), "epsilon = 17 is above 16"),
        (lambda: threshold(1, 0), "bits = 0 is not a word size"),
        (lambda: threshold(1, 64.0), "bits is of type float, not a whole number"),  # type: ignore[arg-type]
        (lambda: threshold(1, 64, 1), "answers = 1: give 2 or more"),
        (lambda: Randomizer(1, bits=True), "bits = 1 is not a word size"),
        (lambda: KaryRandomizer(4, 1, bits=63), "bits = 63 is not a word size"),
        (lambda: Randomizer(1, bits=0), "bits = 0 is not a word size: give one of 8, 16, 32, 64"),
        (lambda: Randomizer(1).bits([0, 2]), "must contain bits"),
        (lambda: Randomizer(1).bits([0.5]), "must contain bits"),
        (lambda: round_value(1.5), "a value outside [0, 1] cannot be masked"),
        (lambda: round_value(math.nan), "a value outside [0, 1]"),
        (lambda: Randomizer(1).bit(2), "a value outside [0, 1]"),
        (lambda: Randomizer(1).report("1"), "a value of type str cannot be masked"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_one_line(make: Any, reason: str) -> None:
    with pytest.raises(UserError, match=r".") as refusal:
        make()
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_pure_noise_has_no_corruption() -> None:
    for source in (Randomizer(0), Randomizer(0).report(1)):
        with pytest.raises(ValueError, match="independent of the reward"):
            assert source.corruption
