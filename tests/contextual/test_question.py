"""Questions to a device: what an answer says, and that no table and no sign makes it say more."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from maskedbandits.contextual import masks
from maskedbandits.errors import UserError
from maskedbandits.privacy import KaryRandomizer, Ledger, LedgerError, Question, Randomizer, randomized_response
from maskedbandits.privacy.ledger import ledger as account

WORDS = 256  # of eight bits


def chances(question: Question, group: int, reward: int, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many of all words of eight bits make each answer."""
    monkeypatch.setattr(Question, "_bit_mechanism", partial(Randomizer, bits=8))
    monkeypatch.setattr(Question, "_kary_mechanism", partial(KaryRandomizer, bits=8))
    words = iter(range(WORDS))
    monkeypatch.setattr(randomized_response, "draw_word", lambda bits: next(words) if bits == 8 else 0)
    return Counter(question.answer(group, reward) for _ in range(WORDS))


@pytest.mark.parametrize(
    ("groups", "epsilon"),
    [
        (1, 0.5),
        (1, 2),
        (2, 1),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, 1), (2, 0.5), (2, 2), (3, 0.5), (3, 1), (3, 2))),
    ],
)
def test_answer_reveals_at_most_epsilon(groups: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words, tables of two arms, signs, parts, groups and rewards: no ratio of chances is above e^eps."""
    every_sign = [(signs, None) for signs in itertools.product((0, 1), repeat=groups)]
    every_part = [
        (None, parts)
        for parts in itertools.product(range(groups), repeat=groups)
        if set(parts) == set(range(max(parts) + 1))
    ]
    for table in itertools.product((0, 1), repeat=groups):
        for signs, parts in [(None, None), *every_sign, *every_part]:
            question = Question(table, signs, epsilon, parts)
            observed = [chances(question, group, reward, monkeypatch) for group in range(groups) for reward in (0, 1)]
            for one, other in itertools.permutations(observed, 2):
                for answer in range(question.answers):
                    assert one[answer] > 0
                    assert one[answer] <= math.exp(epsilon) * other[answer]


SHARES = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
MEANS = [[Fraction(1, 10), Fraction(9, 10)], [Fraction(2, 3), Fraction(1, 4)], [Fraction(1), Fraction(2, 5)]]
TABLES = [(0, 0, 0), (0, 1, 1), (1, 0, 1)]


def answered(question: Question, monkeypatch: pytest.MonkeyPatch) -> dict[int, Fraction]:
    """Return the exact probability of each answer of the next visitor."""
    found = dict.fromkeys(range(question.answers), Fraction(0))
    for (group, share), reward in itertools.product(enumerate(SHARES), (0, 1)):
        mean = MEANS[group][question.arm(group)]
        for answer, words in chances(question, group, reward, monkeypatch).items():
            found[answer] += share * (mean if reward else 1 - mean) * Fraction(words, WORDS)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_bit_is_feedback_of_corrupt_bandit(table: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity, summed over all signs, visitors, rewards and words: 1/2 + s p_k (mean - 1/2), to the last digit."""
    flips = Randomizer(1, bits=8).flips[0]
    slope = 1 - 2 * Fraction(flips, WORDS)
    ones = [Fraction(0)] * 3
    for signs in itertools.product((0, 1), repeat=3):
        observed = answered(Question(table, signs, 1), monkeypatch)
        for group, sign in enumerate(signs):
            ones[group] += observed[1 ^ sign] / 8
    for group, share in enumerate(SHARES):
        assert ones[group] == Fraction(1, 2) + slope * share * (MEANS[group][table[group]] - Fraction(1, 2))
    monkeypatch.undo()
    seen = [mask.slope for mask in masks.masks(masks.BIT, 1.0, np.array(SHARES, dtype=float))]
    assert seen == pytest.approx([float((2 * Randomizer(1).p00 - 1) * share) for share in SHARES], rel=1e-12)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("parts", [None, (0, 1, 0)])
def test_one_of_many_is_feedback_of_corrupt_bandit(
    table: tuple[int, ...], parts: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Summed as above: named with 2q + (p - q) p_g, and a one among these by a slope of (p - q) p_g over that.

    To a part it is one group with the shares of all its groups, if these have one mean.
    """
    question = Question(table, None, 2, parts)
    mask = KaryRandomizer(question.answers, 2, bits=8)
    truth, other = mask.truth, Fraction(mask.words_per_answer, WORDS)
    observed = answered(question, monkeypatch)
    for part in range(question.answers // 2):
        members = [group for group in range(3) if (parts or (0, 1, 2))[group] == part]
        share = sum(SHARES[group] for group in members)
        mean = sum(SHARES[group] * MEANS[group][table[group]] for group in members) / share
        named = observed[2 * part] + observed[2 * part + 1]
        assert named == 2 * other + (truth - other) * share
        slope = (truth - other) * share / (2 * other + (truth - other) * share)
        assert observed[2 * part + 1] / named == Fraction(1, 2) + slope * (mean - Fraction(1, 2))
    monkeypatch.undo()
    real = KaryRandomizer(6, 2)
    gap = float(real.truth - (1 - real.truth) / 5)
    named_by = [2 * float(1 - real.truth) / 5 + gap * float(share) for share in SHARES]
    seen = [mask.slope for mask in masks.masks(masks.ONE_OF_MANY, 2.0, np.array(SHARES, dtype=float))]
    assert seen == pytest.approx([gap * float(share) / each for share, each in zip(SHARES, named_by, strict=True)])


@pytest.mark.parametrize(
    ("signs", "parts"), [([0, 1], None), ([1, 1], None), (None, None), (None, (0, 0)), (None, (1, 0))]
)
def test_ledger_does_not_change_answers(
    signs: list[int] | None, parts: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question([0, 1], signs, 1, parts)
    for group, reward in itertools.product(range(2), (0, 1)):
        straight = chances(question, group, reward, monkeypatch)
        monkeypatch.setattr(account, "mechanism_for", partial(Randomizer, bits=8))
        monkeypatch.setattr(account, "KaryRandomizer", partial(KaryRandomizer, bits=8))
        kept: Counter[int] = Counter()
        with Ledger(cap=WORDS) as ledger:
            for word in range(WORDS):
                monkeypatch.setattr(randomized_response, "draw_word", lambda bits, word=word: word if bits == 8 else 0)
                ledger.reserve(word, 1)
                kept[question.answer(group, reward, ledger, word)] += 1
        assert kept == straight


def test_arm_is_that_of_the_group() -> None:
    question = Question([3, 1, 4], None, 1)
    assert [question.arm(group) for group in range(3)] == [3, 1, 4]
    assert (question.groups, question.answers, question.epsilon) == (3, 6, Fraction(1))
    assert Question([3, 1], [0, 1], 0.1).answers == 2
    assert Question([3, 1, 4], None, 1, parts=[1, 0, 1]).answers == 4


@pytest.mark.parametrize("signs", [None, [0, 1, 1]])
def test_retry_gets_same_answer_from_ledger(signs: list[int] | None) -> None:
    question, ledger = Question([0, 1, 2], signs, 0.5), Ledger(cap=20)
    for decision in range(40):
        ledger.reserve(decision, question.epsilon)
        answers = {question.answer(group, reward, ledger, decision) for group in range(3) for reward in (0, 1)}
        assert len(answers) == 1
    assert ledger.remaining == 0


@pytest.mark.parametrize("signs", [None, [0, 1, 1]])
def test_ledger_masks_with_requested_epsilon_or_refuses(signs: list[int] | None) -> None:
    """Else a device's own largest epsilon would not bind, and an answer would be believed more, or less, than it is."""
    ledger = Ledger(cap=20)
    ledger.reserve("more", 16)
    ledger.reserve("less", "0.5")
    question = Question([0, 1, 2], signs, 1)
    for group, reward in itertools.product(range(3), (0, 1)):
        with pytest.raises(UserError, match="reserved at 16"):
            question.answer(group, reward, ledger, "more", max_epsilon=1)
        with pytest.raises(UserError, match=r"reserved at 0\.5"):
            question.answer(group, reward, ledger, "less")
    assert not ledger.is_drawn("more")
    assert not ledger.is_drawn("less")
    assert Question([0, 1, 2], signs, "0.50").answer(1, 1, ledger, "less", max_epsilon=1) in range(6)
    with pytest.raises(UserError, match="max_epsilon"):
        Question([0, 1, 2], signs, 16).answer(1, 1, ledger, "more", max_epsilon=1)
    with pytest.raises(LedgerError, match="never"):
        question.answer(1, 1, ledger, "never")
    assert (ledger.epsilon_of("more"), ledger.epsilon_of("less")) == (Fraction(16), Fraction(1, 2))


def test_ledger_distinguishes_bits_from_answers() -> None:
    ledger = Ledger(cap=3)
    for decision in ("a", "b", "c"):
        ledger.reserve(decision, 1)
    ledger.report("a", 1)
    with pytest.raises(LedgerError, match="6 answers"):
        ledger.answer("a", 3, 6)
    ledger.answer("b", 3, 6)
    with pytest.raises(LedgerError, match="bit"):
        ledger.report("b", 1)
    ledger.settle("b")
    with pytest.raises(LedgerError, match="'b'"):
        ledger.answer("b", 3, 6)


@pytest.mark.parametrize(
    ("table", "signs", "complaint"),
    [
        ([], None, "table must name one arm"),
        ([0, -1], None, "table must name one arm"),
        ([0.5], None, "not a whole number"),
        ([0, 1], [0], "signs must be 0 or 1"),
        ([0, 1], [0, 2], "signs must be 0 or 1"),
        (5, None, "must be lists"),
        ([0, 1], 1, "must be lists"),
    ],
)
def test_invalid_question_is_refused(table: Any, signs: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Question(table, signs, 1)


@pytest.mark.parametrize("group", [-1, 2, 1.5, "a"])
def test_errors_do_not_reveal_group(group: Any) -> None:
    with pytest.raises(UserError) as caught:
        Question([0, 1], None, 1).answer(group, 1)
    assert repr(group) not in str(caught.value).replace("0 to 1", "")
    with pytest.raises(UserError, match="ledger"):
        Question([0, 1], None, 1).answer(0, 1, Ledger(cap=1))


def test_huge_part_number_is_refused_at_once() -> None:
    """Whatever a server sends: a list of all numbers up to it would take all memory."""
    with pytest.raises(UserError, match="counted from 0"):
        Question([0, 1], None, 1, parts=[0, 10**15])
