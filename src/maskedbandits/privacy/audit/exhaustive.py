"""Enumerate the epsilon of answers to queries: all words of the generator, all queries, groups and rewards.

Our own mechanisms run with words of 8 bits instead of 64, so that all words can be tried. For every table of two arms,
with every choice of signs, with none, and with every way to combine groups into parts, it counts how many words give
each answer for each group and reward. Answers are made by ``GroupQuery.answer``, as on devices, with a ledger and
without. The largest ratio of two such counts, of one answer to one query, must be at most e^eps.

A mechanism has few outcomes: instead of every word, every outcome is drawn once, weighted by its number of words. Parts
are numbered in the order in which groups join them: other numbers are other names of the same answers.
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
from maskedbandits.privacy.audit.inputs import BIT, ONE_OF_MANY, ONE_OF_PARTS
from maskedbandits.privacy.exact import Number, as_epsilon, is_at_most_exp
from maskedbandits.privacy.group_query import GroupQuery
from maskedbandits.privacy.ledger import Ledger
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer, Report, mask_with_word

WORD_BITS, ARMS = 8, 2
MAX_GROUPS = 6  # all queries take half a minute


@dataclass(frozen=True)
class Enumeration:
    """The result for all words and all queries of one size, with one kind of answers."""

    epsilon: Fraction
    groups: int
    answers: str
    questions: int  # number of tables with signs or parts
    ratio: Fraction | float | None  # the largest; infinite if an answer proves something; None if no word can draw it

    @property
    def holds(self) -> bool:
        """Tell whether the largest ratio is at most e^eps."""
        return self.ratio is None or (isinstance(self.ratio, Fraction) and is_at_most_exp(self.ratio, self.epsilon))


class WordSource:
    """Replace the random words: give a mechanism one outcome after another, with its number of words."""

    def __init__(self) -> None:
        self.outcome = 0
        self.begin(0)

    def begin(self, outcome: int) -> None:
        """Select the next outcome; until it is drawn, any word does."""
        self.outcome, self.outcomes, self.words = outcome, 1, 1 << WORD_BITS

    def of(self, counts: dict[int, int]) -> int:
        """Return an outcome of a mechanism."""
        found = list(counts)[self.outcome]
        self.outcomes, self.words = len(counts), counts[found]
        return found


@cache
def count_bit_words(epsilon: Fraction, truth: int) -> dict[int, int]:
    """Return how many words give each bit for a true bit."""
    flips = Randomizer(epsilon, bits=WORD_BITS).flips
    return dict(Counter(int(mask_with_word(truth, word, flips)) for word in range(1 << WORD_BITS)))


@cache
def count_kary_words(answers: int, epsilon: Fraction, truth: int) -> dict[int, int]:
    """Return how many words give each answer for a true answer."""
    mask = KaryRandomizer(answers, epsilon, bits=WORD_BITS)
    return dict(Counter(mask.mask_with_word(truth, word) for word in range(1 << WORD_BITS)))


def build_enumerable_query(source: WordSource) -> tuple[type[GroupQuery], Ledger]:
    """Return a query class and a ledger that draw from a source of words."""

    class EnumeratedBits:
        def __init__(self, epsilon: Fraction) -> None:
            self.epsilon = epsilon

        def bit(self, value: int) -> int:
            return source.of(count_bit_words(self.epsilon, value))

    class EnumeratedAnswers:
        def __init__(self, answers: int, epsilon: Fraction) -> None:
            self.answers, self.epsilon = answers, epsilon

        def answer(self, truth: int) -> int:
            return source.of(count_kary_words(self.answers, self.epsilon, truth))

    class EnumerableQuery(GroupQuery):
        _bit_mechanism, _kary_mechanism = cast(Any, EnumeratedBits), cast(Any, EnumeratedAnswers)

    class EnumeratedLedger:
        """A ledger with every decision reserved at the epsilon that is its name."""

        def epsilon_of(self, decision: str) -> Fraction:
            return Fraction(decision)

        def report(self, decision: str, value: int) -> Report:
            epsilon = Fraction(decision)
            return Report(EnumeratedBits(epsilon).bit(value), epsilon, Fraction(1), Fraction(1))

        def answer(self, decision: str, truth: int, answers: int) -> int:
            return EnumeratedAnswers(answers, Fraction(decision)).answer(truth)

    return EnumerableQuery, cast(Ledger, EnumeratedLedger())


def enumerate_words(epsilon: Number, groups: int) -> list[Enumeration]:
    """Enumerate all words for all queries to up to ``groups`` groups, for all kinds of answers.

    Parameters
    ----------
    epsilon
        The stated epsilon.
    groups
        The largest number of groups, at most 6.

    Returns
    -------
    list of Enumeration
        One for each number of groups and kind of answers.

    Raises
    ------
    UserError
        A parameter is out of range.

    """
    exact, most = as_epsilon(epsilon), check_int("groups", groups, 1, MAX_GROUPS)
    found = []
    for size in range(1, most + 1):
        found.append(enumerate_queries(exact, size, BIT, [(signs, None) for signs in product((0, 1), repeat=size)]))
        found.append(enumerate_queries(exact, size, ONE_OF_MANY, [(None, None)]))
        found.append(enumerate_queries(exact, size, ONE_OF_PARTS, [(None, parts) for parts in list_partitions(size)]))
    return found


def enumerate_queries(epsilon: Fraction, groups: int, kind: str, ways: Iterable[tuple[Any, Any]]) -> Enumeration:
    """Enumerate all words for queries with all tables and these signs and parts."""
    source = WordSource()
    query_type, ledger = build_enumerable_query(source)
    queries = [
        query_type(table, signs, epsilon, parts)
        for table in product(range(ARMS), repeat=groups)
        for signs, parts in ways
    ]
    try:
        for answers in {query.answers for query in queries if query.signs is None}:
            count_kary_words(answers, epsilon, 0)
    except UserError:  # too fine for one word
        return Enumeration(epsilon, groups, kind, len(queries), None)
    ratio = max(
        find_largest_ratio(
            [count_answers(query, source, group, reward, ledger_arguments) for group, reward in list_inputs(groups)]
        )
        for query in queries
        for ledger_arguments in ((), (ledger, str(epsilon)))
    )
    return Enumeration(epsilon, groups, kind, len(queries), ratio)


def list_inputs(groups: int) -> Iterator[tuple[int, int]]:
    """Yield every group and reward."""
    return product(range(groups), (0, 1))


def list_partitions(groups: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to combine groups into parts."""
    found: list[tuple[int, ...]] = [(0,)]
    for _ in range(groups - 1):
        found = [(*parts, part) for parts in found for part in range(max(parts) + 2)]
    return iter(found)


def count_answers(
    query: GroupQuery, source: WordSource, group: int, reward: int, ledger_arguments: Sequence[Any]
) -> Counter[Any]:
    """Return how many words give each answer for a group and reward."""
    found: Counter[Any] = Counter()
    outcome, outcomes = 0, 1
    while outcome < outcomes:
        source.begin(outcome)
        try:
            answer = query.answer(group, reward, *ledger_arguments)
        except UserError:  # silence is an answer, too
            answer = None
        found[answer] += source.words
        outcome, outcomes = outcome + 1, source.outcomes
    return found


def find_largest_ratio(counts: Sequence[Counter[Any]]) -> Fraction | float:
    """Return the largest ratio of counts of an answer under two inputs; infinite if one never gives it."""
    ratio: Fraction | float = Fraction(1)
    for answer in set().union(*counts):
        many = [found[answer] for found in counts]
        if min(many) == 0:
            return math.inf
        ratio = max(ratio, Fraction(max(many), min(many)))
    return ratio
