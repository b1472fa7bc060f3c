"""A query to a device: which arm to play for which group of people, and one masked answer about the reward.

The device knows its group and sees the reward; no one else may learn either. The query is public: a *table* with an arm
for each group, and possibly a *sign* for each. The arm that is played follows from the table and the group, so an
answer that hides group and reward hides the arm as well. There are two kinds of answers:

    one bit         the reward, inverted if the group's sign is 1, masked by randomised response
    one of 2 G      group and reward together, masked by randomised response with as many answers

A query may combine groups into public *parts*. An answer of the second kind then has the part and the reward, one of
twice as many answers as there are parts.

Guarantee
---------
Each answer is epsilon-private in group, arm and reward together, *for every table, signs and parts*.

Proof. Table, signs and parts determine the true answer, one of k values: k = 2 with signs, else 2 G or twice the
number of parts. The true answer is masked by randomised response over k answers, whose thresholds follow from epsilon
and k alone (``randomized_response.py``). For any two inputs (group, reward), the distributions of the masked answer are
those of randomised response for two of the k values, and differ by a factor of at most e^eps.

Citations
---------
Kairouz, Bonawitz & Ramage 2016 (k-ary randomised response).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, SupportsIndex

from ..errors import UserError
from .exact import Number, as_epsilon, as_text, check_whole
from .ledger import Ledger
from .ledger.storage import DecisionName
from .randomized_response import KaryRandomizer, Randomizer, round_value

MAX_GROUPS = 1 << 16


@dataclass(frozen=True)
class GroupQuery:
    """A query from a server to all groups.

    Parameters
    ----------
    table
        The arm of each group.
    signs
        0 or 1 for each group if the answer is one bit, else None.
    epsilon
        The epsilon of the answer.
    parts
        The part of each group, numbered from 0, if answers have parts rather than groups.
    level
        The level of the policy's hierarchy that asks. Devices ignore it.

    Raises
    ------
    UserError
        The values do not fit together.

    Examples
    --------
    >>> query = GroupQuery([0, 2], [1, 0], "1/3")
    >>> query.groups, query.answers, query.arm(1)
    (2, 2, 2)

    """

    table: tuple[int, ...]
    signs: tuple[int, ...] | None
    epsilon: Fraction
    parts: tuple[int, ...] | None  # the part of each group, if answers have parts
    level: int | None  # the level of the policy's hierarchy that asks; devices ignore it

    _bit_mechanism: ClassVar[type[Randomizer]] = Randomizer  # replaced where all words are enumerated
    _kary_mechanism: ClassVar[type[KaryRandomizer]] = KaryRandomizer

    def __init__(
        self,
        table: Sequence[SupportsIndex],
        signs: Sequence[SupportsIndex] | None,
        epsilon: Number,
        parts: Sequence[SupportsIndex] | None = None,
        *,
        level: SupportsIndex | None = None,
    ) -> None:
        if not isinstance(table, Sequence) or not (signs is None or isinstance(signs, Sequence)):
            raise UserError("table and signs must be lists with one number per group; signs may be None")
        arms = tuple(check_whole("an arm of the table", arm) for arm in table)
        if not 1 <= len(arms) <= MAX_GROUPS or min(arms) < 0:
            raise UserError(f"table must name one arm, 0 or more, for each of 1 to {MAX_GROUPS:,} groups")
        sign_values = None if signs is None else tuple(check_whole("a sign", sign) for sign in signs)
        if sign_values is not None and (len(sign_values) != len(arms) or not set(sign_values) <= {0, 1}):
            raise UserError("signs must be 0 or 1, one for each group of the table")
        object.__setattr__(self, "table", arms)
        object.__setattr__(self, "signs", sign_values)
        object.__setattr__(self, "epsilon", as_epsilon(epsilon))
        object.__setattr__(self, "parts", None if parts is None else self._check_parts(parts))
        object.__setattr__(self, "level", None if level is None else check_whole("level", level))

    def _check_parts(self, parts: Sequence[SupportsIndex]) -> tuple[int, ...]:
        """Return the parts; raise ``UserError`` if they are not numbered from 0 without gaps."""
        if self.signs is not None or not isinstance(parts, Sequence):
            raise UserError("parts must be a list with one number per group, and exclude signs: give parts or signs")
        numbers = tuple(check_whole("a part", part) for part in parts)
        if len(numbers) != self.groups or max(numbers) >= self.groups or set(numbers) != set(range(max(numbers) + 1)):
            raise UserError("parts must give each group a number, counted from 0 without gaps")
        return numbers

    def __repr__(self) -> str:
        arms = ", ".join(map(str, self.table[:8])) + (", ..." if self.groups > 8 else "")
        asks = "one bit" if self.signs is not None else f"one of {self.answers} answers"
        return f"<GroupQuery: {self.groups} groups, arms ({arms}), {asks}, epsilon {float(self.epsilon):g}>"

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return len(self.table)

    @property
    def answers(self) -> int:
        """Number of answers: 2, or 2 G, or twice the parts."""
        if self.signs is not None:
            return 2
        return 2 * (self.groups if self.parts is None else max(self.parts) + 1)

    def as_dict(self) -> dict[str, Any]:
        """Return the query as plain JSON values.

        Returns
        -------
        dict
            Keyword arguments that build the same query.

        Examples
        --------
        >>> import json
        >>> query = GroupQuery([0, 2], [1, 0], "1/3")
        >>> GroupQuery(**json.loads(json.dumps(query.as_dict()))) == query
        True

        """
        return {
            "table": list(self.table),
            "signs": None if self.signs is None else list(self.signs),
            "epsilon": str(self.epsilon),
            "parts": None if self.parts is None else list(self.parts),
            "level": self.level,
        }

    def arm(self, group: SupportsIndex) -> int:
        """Return the arm to play for a group.

        Parameters
        ----------
        group
            The number of the group.

        Returns
        -------
        int
            The arm.

        Raises
        ------
        UserError
            There is no such group. The error does not repeat it.

        Examples
        --------
        >>> GroupQuery([0, 2], None, 1).arm(1)
        2

        """
        return self.table[self._check_group(group)]

    def answer(
        self,
        group: SupportsIndex,
        reward: float,
        ledger: Ledger | None = None,
        decision: DecisionName | None = None,
        *,
        max_epsilon: Number | None = None,
    ) -> int:
        """Return the masked answer of a person. Call it on the device.

        Parameters
        ----------
        group
            The person's group.
        reward
            A number in [0, 1].
        ledger
            The device's ledger. Call ``ledger.reserve(decision, query.epsilon)`` before the reward is known; a retry
            then gets the same answer.
        decision
            The name of the reserved decision, with a ledger.
        max_epsilon
            The device's own maximal epsilon.

        Returns
        -------
        int
            The masked answer, from 0 to ``answers`` - 1.

        Raises
        ------
        UserError
            The epsilon is above ``max_epsilon``, or the decision was reserved at another one, or an argument is out of
            range. Apart from invalid groups and rewards this does not depend on group and reward.

        Examples
        --------
        >>> query = GroupQuery([0, 2], [1, 0], 1)
        >>> query.answer(group=1, reward=1) in (0, 1)
        True

        A ledger makes the answer permanent:

        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("visit 1", query.epsilon)
        >>> answer = query.answer(1, 1, ledger, "visit 1")
        >>> answer == query.answer(1, 1, ledger, "visit 1")
        True

        """
        if max_epsilon is not None and self.epsilon > as_epsilon(max_epsilon):
            raise UserError(
                f"the question asks for epsilon = {as_text(self.epsilon)}, above max_epsilon = "
                f"{as_text(as_epsilon(max_epsilon))}: it is not answered"
            )
        if ledger is not None:
            if decision is None:
                raise UserError("a ledger requires decision=: give the name under which the decision was reserved")
            self._check_reserved(ledger.epsilon_of(decision))
        truth = self._true_answer(self._check_group(group), round_value(reward))
        if ledger is not None and decision is not None:
            if self.signs is not None:
                return ledger.report(decision, truth).bit
            return ledger.answer(decision, truth, self.answers)
        if self.signs is None:
            return self._kary_mechanism(self.answers, self.epsilon).answer(truth)
        return self._bit_mechanism(self.epsilon).bit(truth)

    def _check_reserved(self, reserved: Fraction) -> None:
        """Refuse to answer with another epsilon than the requested one, which the server relies on."""
        if reserved != self.epsilon:
            raise UserError(
                f"the question asks for epsilon = {as_text(self.epsilon)}, but the decision is reserved at "
                f"{as_text(reserved)}: reserve it at question.epsilon"
            )

    def _true_answer(self, group: int, bit: int) -> int:
        """Return the answer before masking."""
        if self.signs is not None:
            return bit ^ self.signs[group]
        return 2 * (group if self.parts is None else self.parts[group]) + bit

    def _check_group(self, group: SupportsIndex) -> int:
        """Return the number of a group. Errors never repeat it."""
        index = check_whole("group", group)
        if not 0 <= index < self.groups:
            raise UserError(f"no such group: give a number from 0 to {self.groups - 1}")
        return index


Question = GroupQuery  # the public name of what a contextual policy's ``ask`` returns
