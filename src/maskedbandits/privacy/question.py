"""A question to a device: which arm to play for which group of people, and one masked answer about what came of it.

The device knows its group and sees the reward; nobody else may learn either. The question is public: a *table* with an
arm for each group, and perhaps a *sign* for each. The arm that is played follows from the table and the group, so an
answer that hides group and reward hides the arm as well. There are two kinds of answers:

    one bit         the reward, turned round if the group's sign is 1, masked by randomised response
    one of 2 G      group and reward together, masked by randomised response with as many answers

Each is epsilon-private in group, arm and reward together *whatever the table and the signs are*: they decide what is
masked, never how. With signs the bit is one of two, without them the answer is one of 2 G, and the thresholds follow
from the epsilon alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

from ..errors import UserError
from .exact import Number, as_epsilon, as_whole
from .ledger import Ledger
from .ledger.rows import Decision
from .mechanism import KaryRandomizer, Randomizer, round_value

MOST_GROUPS = 1 << 16


@dataclass(frozen=True)
class Question:
    """What a server asks: an arm for each group, signs if the answer is one bit, and the epsilon of the answer."""

    table: tuple[int, ...]
    signs: tuple[int, ...] | None
    epsilon: Fraction

    def __init__(self, table: Sequence[SupportsIndex], signs: Sequence[SupportsIndex] | None, epsilon: Number) -> None:
        if not isinstance(table, Sequence) or not (signs is None or isinstance(signs, Sequence)):
            raise UserError("table and signs are lists, with a number for each group: give such, or no signs")
        arms = tuple(as_whole("an arm of the table", arm) for arm in table)
        if not 1 <= len(arms) <= MOST_GROUPS or min(arms) < 0:
            raise UserError(
                f"the table has an arm, from 0 on, for each of 1 to {MOST_GROUPS:,} groups: this one has not"
            )
        own = None if signs is None else tuple(as_whole("a sign", sign) for sign in signs)
        if own is not None and (len(own) != len(arms) or not set(own) <= {0, 1}):
            raise UserError("signs are 0 or 1, one for each group of the table: these are not")
        object.__setattr__(self, "table", arms)
        object.__setattr__(self, "signs", own)
        object.__setattr__(self, "epsilon", as_epsilon(epsilon))

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return len(self.table)

    @property
    def answers(self) -> int:
        """How many answers there are: 2, or 2 G."""
        return 2 * self.groups if self.signs is None else 2

    def arm(self, group: SupportsIndex) -> int:
        """Return the arm to play for a group."""
        return self.table[self._place(group)]

    def answer(
        self, group: SupportsIndex, reward: float, ledger: Ledger | None = None, decision: Decision | None = None
    ) -> int:
        """Return the masked answer of somebody of this group to whom a reward, a number in [0, 1], came.

        With a ledger, ``ledger.reserve(decision, question.epsilon)`` was called before the reward was known; then a
        retry gets the same answer.
        """
        place, bit = self._place(group), round_value(reward)
        if ledger is not None:
            if decision is None:
                raise UserError("a ledger knows decisions by their names: give decision=, as it was reserved")
            truth = self._truth(place, bit)
            return (
                ledger.report(decision, truth).bit
                if self.signs is not None
                else ledger.answer(decision, truth, self.answers)
            )
        if self.signs is None:
            return KaryRandomizer(self.answers, self.epsilon).answer(self._truth(place, bit))
        return Randomizer(self.epsilon).bit(self._truth(place, bit))

    def _truth(self, group: int, bit: int) -> int:
        """Return what is masked."""
        return 2 * group + bit if self.signs is None else bit ^ self.signs[group]

    def _place(self, group: SupportsIndex) -> int:
        """Return the number of a group; no error repeats it."""
        place = as_whole("group", group)
        if not 0 <= place < self.groups:
            raise UserError(f"a group that does not exist is not masked: they are numbered 0 to {self.groups - 1}")
        return place
