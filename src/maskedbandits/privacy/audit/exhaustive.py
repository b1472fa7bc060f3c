"""The epsilon of answers to questions, counted: all words of the generator, all questions, groups and rewards.

Our own masks run with words of 8 bits instead of 64, so that all words can be tried. For every table of two arms, with
every choice of signs, with none, and with every way to put groups together into parts, it is counted how many words
make each answer of somebody of each group and reward. Answers are made by ``Question.answer``, as devices make them,
with a ledger and without. The largest ratio of two such counts, of one answer to one question, must not be above e^eps.

A mask has few outcomes: instead of every word, every outcome is drawn once, and counts as often as words make it. Parts
are numbered in the order in which groups come to them: any other numbers are other names of the same answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, cast

from maskedbandits.errors import UserError, check_int
from maskedbandits.privacy.audit.group_inputs import BIT, ONE_OF_MANY, ONE_OF_PARTS
from maskedbandits.privacy.exact import Number, as_epsilon, at_most_exp
from maskedbandits.privacy.group_query import Question
from maskedbandits.privacy.ledger import Ledger
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer, Report, _masked

BITS, ARMS = 8, 2
MOST_GROUPS = 6  # of which all questions can be tried in half a minute


@dataclass(frozen=True)
class Enumerated:
    """What all words say of all questions of one size, of one kind of answers."""

    epsilon: Fraction
    groups: int
    answers: str
    questions: int  # tables, and signs or parts
    ratio: Fraction | float | None  # the largest; infinite if an answer proves something; none where no word draws it

    @property
    def holds(self) -> bool:
        """Tell whether the largest ratio is at most e^eps."""
        return self.ratio is None or (isinstance(self.ratio, Fraction) and at_most_exp(self.ratio, self.epsilon))


class Draw:
    """Stands for the words: lets a mask have one outcome after the other, and tells how many words make it."""

    def __init__(self) -> None:
        self.place = 0
        self.begin(0)

    def begin(self, place: int) -> None:
        """Let the outcome of this number come next; until then any word does."""
        self.place, self.outcomes, self.words = place, 1, 1 << BITS

    def of(self, counts: dict[int, int]) -> int:
        """Return an outcome of a mask."""
        found = list(counts)[self.place]
        self.outcomes, self.words = len(counts), counts[found]
        return found


@cache
def words_of_bits(epsilon: Fraction, truth: int) -> dict[int, int]:
    """Return how many words make each bit of one."""
    flips = Randomizer(epsilon, bits=BITS).flips
    return dict(Counter(int(_masked(truth, word, flips)) for word in range(1 << BITS)))


@cache
def words_of_many(answers: int, epsilon: Fraction, truth: int) -> dict[int, int]:
    """Return how many words make each of so many answers of one."""
    mask = KaryRandomizer(answers, epsilon, bits=BITS)
    return dict(Counter(mask._masked(truth, word) for word in range(1 << BITS)))


def questions_of(draw: Draw) -> tuple[type[Question], Ledger]:
    """Return questions, and a ledger, that ask nobody for words."""

    class Bits:
        def __init__(self, epsilon: Fraction) -> None:
            self.epsilon = epsilon

        def bit(self, value: int) -> int:
            return draw.of(words_of_bits(self.epsilon, value))

    class Many:
        def __init__(self, answers: int, epsilon: Fraction) -> None:
            self.answers, self.epsilon = answers, epsilon

        def answer(self, truth: int) -> int:
            return draw.of(words_of_many(self.answers, self.epsilon, truth))

    class Tried(Question):
        _of_bits, _of_many = cast(Any, Bits), cast(Any, Many)

    class Kept:
        """Has everything reserved at the epsilon that is its name."""

        def epsilon_of(self, decision: str) -> Fraction:
            return Fraction(decision)

        def report(self, decision: str, value: int) -> Report:
            epsilon = Fraction(decision)
            return Report(Bits(epsilon).bit(value), epsilon, Fraction(1), Fraction(1))

        def answer(self, decision: str, truth: int, answers: int) -> int:
            return Many(answers, Fraction(decision)).answer(truth)

    return Tried, cast(Ledger, Kept())


def enumerated(epsilon: Number, groups: int) -> list[Enumerated]:
    """Return what all words say of all questions to so many groups or fewer, of all kinds of answers."""
    exact, most = as_epsilon(epsilon), check_int("groups", groups, 1, MOST_GROUPS)
    found = []
    for size in range(1, most + 1):
        found.append(tried(exact, size, BIT, [(signs, None) for signs in product((0, 1), repeat=size)]))
        found.append(tried(exact, size, ONE_OF_MANY, [(None, None)]))
        found.append(tried(exact, size, ONE_OF_PARTS, [(None, parts) for parts in parts_of(size)]))
    return found


def tried(epsilon: Fraction, groups: int, kind: str, ways: Iterable[tuple[Any, Any]]) -> Enumerated:
    """Return what all words make of questions with all tables, and these signs and parts."""
    draw = Draw()
    made, ledger = questions_of(draw)
    asked = [
        made(table, signs, epsilon, parts) for table in product(range(ARMS), repeat=groups) for signs, parts in ways
    ]
    try:
        for answers in {question.answers for question in asked if question.signs is None}:
            words_of_many(answers, epsilon, 0)
    except UserError:  # finer than one word can draw
        return Enumerated(epsilon, groups, kind, len(asked), None)
    ratio = max(
        largest([counts(question, draw, group, reward, how) for group, reward in inputs(groups)])
        for question in asked
        for how in ((), (ledger, str(epsilon)))
    )
    return Enumerated(epsilon, groups, kind, len(asked), ratio)


def inputs(groups: int) -> Iterator[tuple[int, int]]:
    """Yield every group and reward."""
    return product(range(groups), (0, 1))


def parts_of(groups: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to put groups together into parts."""
    found: list[tuple[int, ...]] = [(0,)]
    for _ in range(groups - 1):
        found = [(*parts, part) for parts in found for part in range(max(parts) + 2)]
    return iter(found)


def counts(question: Question, draw: Draw, group: int, reward: int, how: Sequence[Any]) -> Counter[Any]:
    """Return how many words make each answer of somebody."""
    found: Counter[Any] = Counter()
    place, outcomes = 0, 1
    while place < outcomes:
        draw.begin(place)
        try:
            answer = question.answer(group, reward, *how)
        except UserError:  # silence tells, too
            answer = None
        found[answer] += draw.words
        place, outcomes = place + 1, draw.outcomes
    return found


def largest(told: Sequence[Counter[Any]]) -> Fraction | float:
    """Return the largest ratio of counts of one answer, under two truths; infinite if one of them never gives it."""
    ratio: Fraction | float = Fraction(1)
    for answer in set().union(*told):
        many = [found[answer] for found in told]
        if min(many) == 0:
            return math.inf
        ratio = max(ratio, Fraction(max(many), min(many)))
    return ratio
