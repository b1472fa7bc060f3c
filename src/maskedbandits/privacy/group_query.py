"""A question to a device: which arm to play for which group of people, and one masked answer about what came of it.

The device knows its group and sees the reward; nobody else may learn either. The question is public: a *table* with an
arm for each group, and perhaps a *sign* for each. The arm that is played follows from the table and the group, so an
answer that hides group and reward hides the arm as well. There are two kinds of answers:

    one bit         the reward, turned round if the group's sign is 1, masked by randomised response
    one of 2 G      group and reward together, masked by randomised response with as many answers

A question may put groups together into *parts*, public, too; then an answer of the second kind tells the part and the
reward, and is one of twice as many as there are parts.

Each is epsilon-private in group, arm and reward together *whatever table, signs and parts are*: they decide what is
masked, never how. With signs the bit is one of two, without them the answer is one of 2 G, or of twice the parts, and
the thresholds follow from the epsilon alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, SupportsIndex

from ..errors import UserError
from .exact import Number, as_epsilon, as_text, as_whole
from .ledger import Ledger
from .ledger.storage import Decision
from .randomized_response import KaryRandomizer, Randomizer, round_value

MOST_GROUPS = 1 << 16


@dataclass(frozen=True)
class Question:
    """What a server asks: an arm for each group, signs if the answer is one bit, and the epsilon of the answer."""

    table: tuple[int, ...]
    signs: tuple[int, ...] | None
    epsilon: Fraction
    parts: tuple[int, ...] | None  # in which part each group is, if an answer tells parts rather than groups
    grain: int | None  # how coarsely the policy that asks tells groups apart; to a device it is nothing

    _of_bits: ClassVar[type[Randomizer]] = Randomizer  # what masks; who tries all words puts others in their place
    _of_many: ClassVar[type[KaryRandomizer]] = KaryRandomizer

    def __init__(
        self,
        table: Sequence[SupportsIndex],
        signs: Sequence[SupportsIndex] | None,
        epsilon: Number,
        parts: Sequence[SupportsIndex] | None = None,
        *,
        grain: SupportsIndex | None = None,
    ) -> None:
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
        object.__setattr__(self, "parts", None if parts is None else self._checked(parts))
        object.__setattr__(self, "grain", None if grain is None else as_whole("grain", grain))

    def _checked(self, parts: Sequence[SupportsIndex]) -> tuple[int, ...]:
        """Return the parts; refuse what are none."""
        if self.signs is not None or not isinstance(parts, Sequence):
            raise UserError("parts are a list, with a number for each group, and there are no signs: give one of them")
        found = tuple(as_whole("a part", part) for part in parts)
        if len(found) != self.groups or max(found) >= self.groups or set(found) != set(range(max(found) + 1)):
            raise UserError("parts are numbered from 0 on, none is left out, and every group is in one: these are not")
        return found

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return len(self.table)

    @property
    def answers(self) -> int:
        """How many answers there are: 2, or 2 G, or twice the parts."""
        if self.signs is not None:
            return 2
        return 2 * (self.groups if self.parts is None else max(self.parts) + 1)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, such as JSON has: ``Question(**question.as_dict())`` is the same again.

        >>> import json
        >>> question = Question([0, 2], [1, 0], "1/3")
        >>> Question(**json.loads(json.dumps(question.as_dict()))) == question
        True
        """
        return {
            "table": list(self.table),
            "signs": None if self.signs is None else list(self.signs),
            "epsilon": str(self.epsilon),
            "parts": None if self.parts is None else list(self.parts),
            "grain": self.grain,
        }

    def arm(self, group: SupportsIndex) -> int:
        """Return the arm to play for a group."""
        return self.table[self._place(group)]

    def answer(
        self,
        group: SupportsIndex,
        reward: float,
        ledger: Ledger | None = None,
        decision: Decision | None = None,
        *,
        most: Number | None = None,
    ) -> int:
        """Return the masked answer of somebody of this group to whom a reward, a number in [0, 1], came.

        With a ledger, ``ledger.reserve(decision, question.epsilon)`` was called before the reward was known; then a
        retry gets the same answer. One that is reserved at another epsilon is refused: it would be masked with that.
        ``most`` is the device's own largest epsilon: a question of a larger one is refused. Neither depends on what the
        group and the reward are.
        """
        if most is not None and self.epsilon > as_epsilon(most):
            raise UserError(
                f"the question asks for epsilon = {as_text(self.epsilon)}, above the device's own "
                f"{as_text(as_epsilon(most))}: it is not answered"
            )
        if ledger is not None:
            if decision is None:
                raise UserError("a ledger knows decisions by their names: give decision=, as it was reserved")
            self._refuse_unless_paid(ledger.epsilon_of(decision))
        truth = self._truth(self._place(group), round_value(reward))
        if ledger is not None and decision is not None:
            if self.signs is not None:
                return ledger.report(decision, truth).bit
            return ledger.answer(decision, truth, self.answers)
        if self.signs is None:
            return self._of_many(self.answers, self.epsilon).answer(truth)
        return self._of_bits(self.epsilon).bit(truth)

    def _refuse_unless_paid(self, reserved: Fraction) -> None:
        """Refuse to answer with another epsilon than that which is asked for, and believed."""
        if reserved != self.epsilon:
            raise UserError(
                f"the question asks for epsilon = {as_text(self.epsilon)}, and the decision is reserved at "
                f"{as_text(reserved)}: reserve it at question.epsilon"
            )

    def _truth(self, group: int, bit: int) -> int:
        """Return what is masked."""
        if self.signs is not None:
            return bit ^ self.signs[group]
        return 2 * (group if self.parts is None else self.parts[group]) + bit

    def _place(self, group: SupportsIndex) -> int:
        """Return the number of a group; no error repeats it."""
        place = as_whole("group", group)
        if not 0 <= place < self.groups:
            raise UserError(f"a group that does not exist is not masked: they are numbered 0 to {self.groups - 1}")
        return place
