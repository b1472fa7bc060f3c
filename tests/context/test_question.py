"""Questions to a device: what an answer says, and that no table and no sign makes it say more."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from maskedbandits.errors import UserError
from maskedbandits.privacy import KaryRandomizer, Ledger, LedgerError, Question, Randomizer, mechanism

WORDS = 256  # of eight bits


def chances(question: Question, group: int, reward: int, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many of all words of eight bits make each answer."""
    monkeypatch.setattr("maskedbandits.privacy.question.Randomizer", lambda epsilon: Randomizer(epsilon, bits=8))
    monkeypatch.setattr(
        "maskedbandits.privacy.question.KaryRandomizer", lambda many, epsilon: KaryRandomizer(many, epsilon, bits=8)
    )
    found: Counter[int] = Counter()
    for word in range(WORDS):
        monkeypatch.setattr(mechanism, "_word", lambda bits, word=word: word if bits == 8 else 0)
        found[question.answer(group, reward)] += 1
    return found


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_whatever_is_asked_an_answer_tells_at_most_epsilon(
    groups: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All words, tables of two arms, signs, groups and rewards: no ratio of chances is above e^eps."""
    every_sign = [None, *itertools.product((0, 1), repeat=groups)]
    for table in itertools.product((0, 1), repeat=groups):
        for signs in every_sign:
            question = Question(table, signs, epsilon)
            told = [chances(question, group, reward, monkeypatch) for group in range(groups) for reward in (0, 1)]
            for one, other in itertools.permutations(told, 2):
                for answer in range(question.answers):
                    assert one[answer] > 0
                    assert one[answer] <= math.exp(epsilon) * other[answer]


def test_the_arm_is_that_of_the_group() -> None:
    question = Question([3, 1, 4], None, 1)
    assert [question.arm(group) for group in range(3)] == [3, 1, 4]
    assert (question.groups, question.answers, question.epsilon) == (3, 6, Fraction(1))
    assert Question([3, 1], [0, 1], 0.1).answers == 2


@pytest.mark.parametrize("signs", [None, [0, 1, 1]])
def test_a_retry_gets_the_same_answer_from_a_ledger(signs: list[int] | None) -> None:
    question, ledger = Question([0, 1, 2], signs, 0.5), Ledger(cap=20)
    for decision in range(40):
        ledger.reserve(decision, question.epsilon)
        answers = {question.answer(group, reward, ledger, decision) for group in range(3) for reward in (0, 1)}
        assert len(answers) == 1
    assert ledger.remaining == 0


def test_a_ledger_tells_bits_from_answers() -> None:
    ledger = Ledger(cap=3)
    for decision in ("a", "b", "c"):
        ledger.reserve(decision, 1)
    ledger.report("a", 1)
    with pytest.raises(LedgerError, match="was not answered with one of 6 answers before"):
        ledger.answer("a", 3, 6)
    ledger.answer("b", 3, 6)
    with pytest.raises(LedgerError, match="with one of several answers, not with a bit"):
        ledger.report("b", 1)
    ledger.settle("b")
    with pytest.raises(LedgerError, match="'b' is settled"):
        ledger.answer("b", 3, 6)


@pytest.mark.parametrize(
    ("table", "signs", "complaint"),
    [
        ([], None, "the table has an arm"),
        ([0, -1], None, "the table has an arm"),
        ([0.5], None, "not a whole number"),
        ([0, 1], [0], "signs are 0 or 1, one for each group"),
        ([0, 1], [0, 2], "signs are 0 or 1, one for each group"),
        (5, None, "table and signs are lists"),
        ([0, 1], 1, "table and signs are lists"),
    ],
)
def test_what_is_no_question_is_refused(table: Any, signs: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Question(table, signs, 1)


@pytest.mark.parametrize("group", [-1, 2, 1.5, "a"])
def test_no_error_repeats_the_group(group: Any) -> None:
    with pytest.raises(UserError) as caught:
        Question([0, 1], None, 1).answer(group, 1)
    assert repr(group) not in str(caught.value).replace("0 to 1", "")
    with pytest.raises(UserError, match="a ledger knows decisions by their names"):
        Question([0, 1], None, 1).answer(0, 1, Ledger(cap=1))
