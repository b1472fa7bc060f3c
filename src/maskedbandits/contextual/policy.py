"""The contextual policy: one policy for each group of people, all fed by answers that hide the visitor's group.

To every group an answer looks like the feedback of a corrupt bandit (``masks.py``), so any policy can learn from it.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
from collections.abc import Collection, Mapping, Sequence, Set
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import copy_state, select_state, stack, stack_rows
from maskedbandits.contextual import hierarchy, masks
from maskedbandits.contextual.hierarchy import Grouping, ParsedQuestion
from maskedbandits.contextual.shares import bounds_for_any_share, estimate_shares, slope_factors, with_slope, with_state
from maskedbandits.errors import UserError, WrongValueError, check_int
from maskedbandits.policies import Policy, validation
from maskedbandits.policies import arms as arm_changes
from maskedbandits.policies import pending as pending_reports
from maskedbandits.policies.groups import Levels
from maskedbandits.policies.index import report_masks
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import Entries, get_entries, hold_group_during_forks
from maskedbandits.privacy import Question

MAX_ANSWERS_TIMES_GROUPS = 1 << 14  # taken in at once, so that `ask` never waits for long
LEARNED = ("weights", "named", "expected")  # the arrays of the levels that depend on answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Readers(NamedTuple):
    """Copies of policies from which means are read."""

    parts: Ints  # (G,) the index of each group's policy
    policies: list[Policy]
    for_any_share: bool  # whether each policy reads answers as if all visitors were of its part


class Contextual:
    """Ask questions, and learn from masked answers.

    Create one with `make_contextual`. Threads may share a policy. After a fork, parent and child ask different
    questions.

    Examples
    --------
    >>> from maskedbandits import make_contextual
    >>> policy = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1)
    >>> question = policy.ask()
    >>> answer = question.answer(group=1, reward=1)  # on the visitor's device
    >>> policy.observe(question, answer)
    >>> policy.observations
    1

    """

    def __init__(
        self,
        policies: list[Policy],
        epsilon: Any,
        grouping: Grouping,
        shares: Floats | None,
        signs: np.random.Generator | None = None,
    ) -> None:
        self.epsilon: Fraction = epsilon
        self.grouping, self.known_shares = grouping, shares
        self._policies, self._signs = policies, signs
        self._levels = grouping.build_levels(self.arms)
        self._lock = threading.Lock()
        self._stack()
        self._live = get_entries(self.kind.layout, self.name, ".groups")
        hold_group_during_forks(self)

    def _stack(self) -> None:
        """Put the states of all policies into one."""
        self._state = stack([policy._state for policy in self._policies])
        for index, policy in enumerate(self._policies):
            policy._state = select_state(self._state, index)

    def __repr__(self) -> str:
        return f"<{self.name}, groups={self.groups}, arms={self.arms}, epsilon={float(self.epsilon):g}, {self.answers}>"

    @property
    def name(self) -> str:
        """Name of the policy that every group has."""
        return self._policies[0].name

    @property
    def kind(self) -> Kind:
        """Description of the policy's name: its code and its parameters."""
        return self._policies[0].kind

    @property
    def entries(self) -> Entries:
        """Compiled entry points of a group's policy."""
        return self._policies[0].entries

    @property
    def sigma(self) -> None:
        """Always None, because answers are bounded."""
        return

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return self.grouping.groups

    @property
    def answers(self) -> str:
        """Kind of answer that tells groups apart: ``"bit"`` or ``"one of many"``."""
        return self.grouping.kinds[-1]

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return self._policies[0].arms

    @property
    def nbytes(self) -> int:
        """Size of the states of all policies in bytes."""
        return sum(own.nbytes for own in self._policies)

    @property
    def by_group(self) -> list[Policy]:
        """The policies of single groups, for reading. While other threads learn, read from a copy."""
        return self._policies[-self.groups :]

    @property
    def observations(self) -> int:
        """Number of answers that the policy has learned from."""
        with self._lock:
            firsts, times = self._levels.firsts, self._state.scalars["time"]
            ends = np.where(self._levels.one_bit == 1, firsts[:-1] + 1, firsts[1:])  # all parts see the same bit
            return int(sum(times[begin:end].sum() for begin, end in zip(firsts, ends, strict=False)))

    @property
    def pending(self) -> Ints:
        """Number of pending answers of each arm, with a row for each part of each level."""
        with self._lock:
            return np.array(stack_rows(self._state, "pending"))

    @property
    def alarms(self) -> int:
        """Number of changes detected by the policies of single groups, in total."""
        with self._lock:
            return int(self._state.scalars["alarms"][-self.groups :].sum())

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of every group's policy."""
        return self._policies[0].parameters

    def ask(self, among: ArrayLike | None = None) -> Question:
        """Return the question for the next visitor. Its answer is pending until `observe` or `expire`.

        Parameters
        ----------
        among : array_like of int, optional
            Arms that the table may hold. By default all arms that are not retired.

        Returns
        -------
        Question
            The table of arms by group, and the signs if the answer is a bit.

        """
        level, table = self.draw(among, decides=True)
        return self.question(level, table, self.signs(level))

    def draw(self, among: ArrayLike | None = None, *, decides: bool = False) -> tuple[int, Ints]:
        """Draw the level of the next question, and the arm for each of its parts.

        Parameters
        ----------
        among : array_like of int, optional
            Arms that the table may hold.
        decides : bool, optional
            Whether an answer is pending from now on.

        Returns
        -------
        level : int
            The level of the question.
        table : ndarray
            The arm for each part of this level.

        """
        open_arms = None if among is None else self._check_open(among)
        table = np.zeros(self._levels.feedbacks.size, dtype=np.int64)
        with self._lock:
            is_limited = int(open_arms is not None)
            with arm_changes.only_open(stack_rows(self._state, "closed"), open_arms):
                level = self._live.ask_groups(self._state, self._levels, table, is_limited, int(decides))
        return level, table[: self.grouping.sizes[level]]

    def _check_open(self, among: ArrayLike) -> Ints:
        """Return some arms, if the arms of this kind can change."""
        arm_changes.check_kind(self.kind)
        return validation.some("among", among, self.arms)

    def signs(self, level: int) -> Ints | None:
        """Draw a sign for each part of a level.

        The signs come from the operating system, unless the policy was given a seed.

        Parameters
        ----------
        level : int
            The level of the question.

        Returns
        -------
        ndarray or None
            A 0 or 1 for each part; None if answers at this level are one of many.

        """
        if self.grouping.kinds[level] != masks.BIT:
            return None
        many = self.grouping.sizes[level]
        if self._signs is None:
            return np.frombuffer(os.urandom(many), dtype=np.uint8).astype(np.int64) & 1
        with self._lock:
            return self._signs.integers(0, 2, many)

    def draw_apart(self) -> None:
        """Draw other signs from now on than policies with the same seed. Internal; the caller holds the lock."""
        if self._signs is not None:
            self._signs = np.random.default_rng()

    def question(self, level: int, table: Ints, signs: Ints | None, epsilon: Fraction | None = None) -> Question:
        """Build a question from an arm, and possibly a sign, for each part of a level.

        Parameters
        ----------
        level : int
            The level of the question.
        table : ndarray
            The arm for each part.
        signs : ndarray or None
            The sign for each part, if the answer is a bit.
        epsilon : Fraction, optional
            The epsilon of the answer, by default the policy's.

        Returns
        -------
        Question
            The question with an arm, and possibly a sign, for each group.

        """
        part = self.grouping.parts[level]
        signs_of_groups = None if signs is None else signs[part].tolist()
        parts = part.tolist() if signs is None and level < self.grouping.finest else None
        own = self.epsilon if epsilon is None else epsilon
        return Question(table[part].tolist(), signs_of_groups, own, parts, level=level)

    def observe(self, question: Question, answer: int) -> None:
        """Update the policy with the masked answer to a question.

        Parameters
        ----------
        question : Question
            A question of this policy. Its epsilon may differ from the policy's.
        answer : int
            The masked answer, as `Question.answer` returns it.

        Raises
        ------
        UserError
            If the question belongs to another policy, or the answer is out of range.

        """
        self.observe_many([question], [answer])

    def observe_many(self, questions: Sequence[Question], values: Sequence[int]) -> None:
        """Update the policy with many masked answers, in order. Equal to `observe` for each, and faster.

        Parameters
        ----------
        questions : sequence of Question
            Questions of this policy.
        values : sequence of int
            The masked answer to each of them.

        Raises
        ------
        UserError
            If a question or an answer is invalid. Then the policy does not change.

        """
        for name, many in (("questions", questions), ("answers", values)):
            if not isinstance(many, Collection) or isinstance(many, (Set, Mapping)):
                raise WrongValueError(name, many, "a list, in the order of learning")
        if len(questions) != len(values):
            raise UserError(f"{len(questions)} questions and {len(values)} answers: give one answer to each question")
        levels, tables, signs = (np.zeros((len(values), n), dtype=np.int64) for n in (1, self.groups, self.groups))
        checked = np.zeros(len(values), dtype=np.int64)
        for index, (question, value) in enumerate(zip(questions, values, strict=True)):
            levels[index], table, own = self._parse(question)
            tables[index, : table.size] = table
            if own is not None:
                signs[index, : own.size] = own
            checked[index] = check_int("answer", value, 0, question.answers - 1)
        self.take_in(levels[:, 0].copy(), tables, signs, checked, [question.epsilon for question in questions])

    def take_in(self, levels: Ints, tables: Ints, signs: Ints, values: Ints, epsilons: Sequence[Fraction]) -> None:
        """Update the policy with answers to parsed questions. Internal: nothing is checked.

        Arms and signs are by part, and padded with zeros to the number of groups.
        """
        answers = hierarchy.build_answers(self.grouping, levels, tables, signs, values, epsilons, self.epsilon)
        first = hierarchy.first_masked(answers)
        honest = 1.0 - self._policies[0].contamination
        if first < values.size and not self.kind.takes_masks:
            raise UserError(f"{self.name} does not support answers with another epsilon: mask all with {self.epsilon}")
        at_once = max(1, MAX_ANSWERS_TIMES_GROUPS // self.groups)
        for batch in hierarchy.split_answers(hierarchy.slice_answers(answers, 0, first), at_once):
            with self._lock:
                self._live.take_in_answers(self._state, self._levels, batch, int(self._is_mixed), honest)
        for batch in hierarchy.split_answers(hierarchy.slice_answers(answers, first, values.size), at_once):
            with self._lock:
                if self.kind.on_axes and not self._is_mixed:
                    self._add_mask_sums()
                self._live.take_in_answers(self._state, self._levels, batch, 1, honest)

    @property
    def _is_mixed(self) -> bool:
        return self._policies[0]._mixed

    def _add_mask_sums(self) -> None:
        """Make room for the masks of single answers."""
        for policy in self._policies:
            policy._state, policy._mixed = report_masks.add_mask_sums(policy._state), True
        self._stack()

    def expire(self, question: Question) -> None:
        """Give up on a pending answer.

        Parameters
        ----------
        question : Question
            The question whose answer will not come.

        """
        level, table, _ = self._parse(question)
        self.note(level, table, -1)

    def note(self, level: int, table: Ints, n: int = 1) -> None:
        """Expect n more answers to a question, or fewer if n is negative; the table may have some first parts only."""
        parts = int(self._levels.firsts[level]) + np.arange(table.size)
        with self._lock:
            pending_reports.note_many(self._state, parts, table, n)

    def await_exactly(self, pending: ArrayLike) -> None:
        """Set the number of pending answers of every arm in every part.

        Parameters
        ----------
        pending : array_like of int
            An array like `pending`: a row for each part of each level.

        """
        counts = np.asarray(pending, dtype=np.int64)
        with self._lock:
            for policy, each in zip(self._policies, counts, strict=True):
                pending_reports.set_pending(policy._state, each)

    def add_arm(self) -> int:
        """Add an arm, and keep everything learned about the others. Every group explores the new arm.

        Returns
        -------
        int
            The number of the new arm.

        """
        with self._lock:
            added = [policy.add_arm() for policy in self._policies]
            self._stack()
            empty = np.zeros(len(self._policies) * self.arms)
            self._levels = self._levels._replace(worths=empty, means=empty.copy(), informed=empty.copy())
        return added[0]

    def retire(self, arm: int) -> None:
        """Never ask for an arm again. The policy still learns from late answers.

        Parameters
        ----------
        arm : int
            The arm to retire.

        """
        with self._lock:
            for policy in self._policies:
                policy.retire(arm)

    def _parse(self, question: Question) -> ParsedQuestion:
        """Return a question by part; a question that names no level must fit exactly one."""
        matches: list[ParsedQuestion] = []
        if isinstance(question, Question) and question.groups == self.groups and question.epsilon > 0:
            levels = range(len(self.grouping.kinds))
            candidates = levels if question.level is None else {question.level} & set(levels)
            if max(question.table) < self.arms:
                parsed = (self.grouping.parse(level, question) for level in candidates)
                matches = [each for each in parsed if each is not None]
        if len(matches) > 1:
            raise UserError(
                "the level of the question is missing: rebuild it with its level, as by Question(**question.as_dict())"
            )
        if not matches:
            raise UserError("the question belongs to another policy: give one that ask() of this policy returned")
        return matches[0]

    def estimates(self) -> Floats:
        """Return the estimated mean reward of every arm in every group.

        The estimates are those of the level that predicts best. In a tree, that is a grid of cells; with pooling it
        may be all groups together. If no shares were given, they use those of `shares`.

        Returns
        -------
        ndarray
            An array of shape (G, K), with NaN where nothing was observed.

        """
        readers = self._readers(by_best=True)
        return np.asarray(np.array([policy.estimates() for policy in readers.policies])[readers.parts])

    def intervals(self, delta: float = 0.05) -> Floats:
        """Return a confidence interval for the mean reward of every arm in every group.

        They have the guarantee of `Policy.intervals`. Each group's interval uses the answers that distinguish it from
        other groups, so it also holds where groups only seem alike. In a tree it is the interval of the group's cell in
        the grid that predicts best. If shares are estimated from answers, the intervals are as reliable as the shares.
        If the shares are unknown, the intervals hold for any shares: they show on which side of 1/2 a mean is, and its
        least distance from 1/2.

        Parameters
        ----------
        delta : float, optional
            The probability that an interval misses the mean.

        Returns
        -------
        ndarray
            Lower and upper bounds, of shape (G, K, 2).

        """
        readers = self._readers(by_best=self.grouping.tree, is_certain=True)
        bounds = np.array([policy.intervals(delta) for policy in readers.policies])[readers.parts]
        return bounds_for_any_share(bounds) if readers.for_any_share else np.asarray(bounds)

    def suspects(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Return which arms in which groups have answers that honest devices cannot produce.

        They are those of the same level as `estimates`. If the shares are unknown, no shares can explain these answers.

        Parameters
        ----------
        delta : float, optional
            The probability of a false accusation, for each group.

        Returns
        -------
        ndarray of bool
            An array of shape (G, K).

        """
        readers = self._readers(by_best=True, is_certain=True)
        return np.asarray(np.array([policy.suspects(delta) for policy in readers.policies])[readers.parts])

    def _readers(self, *, by_best: bool, is_certain: bool = False) -> Readers:
        """Return policies that read means with the known shares, of the best level or of the finest.

        If the result must be certain and nothing reveals the shares, each part reads as if all visitors were of it.
        """
        with self._lock:
            shares = self._revealed_shares()
            level = int(np.argmax(self._levels.weights)) if by_best else self.grouping.finest
            first, last = self.grouping.firsts[level : level + 2]
            states = [policy.snapshot() for policy in self._policies[first:last]]
        each = [with_state(*pair) for pair in zip(self._policies[first:last], states, strict=True)]
        for_any_share = is_certain and shares is None and self.known_shares is None and len(each) > 1
        if shares is not None or for_any_share:
            factors = slope_factors(self.grouping, level, shares)
            each = [with_slope(policy, factor) for policy, factor in zip(each, factors, strict=True)]
        return Readers(self.grouping.parts[level], each, for_any_share)

    def _revealed_shares(self) -> Floats | None:
        """Return the shares as answers reveal them, or None; the caller holds the lock."""
        if self.known_shares is not None or not self._levels.named.any():
            return None
        return estimate_shares(self._levels.named, *self._levels.expected)

    def shares(self) -> Floats:
        """Return the share of every group among visitors.

        Returns
        -------
        ndarray
            The shares as given, or as estimated from one-of-many answers, or equal ones. Bits reveal no shares. Each
            share is above 0, so `make_contextual` accepts them.

        """
        with self._lock:
            revealed = self._revealed_shares()
        return self.grouping.shares.copy() if revealed is None else revealed

    @property
    def pooled(self) -> float:
        """Probability that the next question treats all groups as one: 0 once they were seen to differ.

        In a tree, it is the probability if finer cells had learned enough to decide.
        """
        with self._lock:
            weights = np.exp(self._levels.weights)
        return float(weights[0] / weights.sum()) if weights.size > 1 else 0.0

    def fold_digest(self) -> str:
        """Return the SHA-256 of everything learned.

        Policies that observed the same answers in the same order have the same digest, whatever they asked in between.

        Returns
        -------
        str
            64 hexadecimal digits.

        """
        with self._lock:
            combined = hashlib.sha256("".join(policy.fold_digest() for policy in self._policies).encode())
            for key in LEARNED:
                combined.update(getattr(self._levels, key).tobytes())
        return combined.hexdigest()

    def for_simulation(self, horizon: int, memo: int) -> Any:
        """Return the initial state of the policies of all groups. Internal: the simulator plays it."""
        return stack([policy.for_simulation(horizon, memo) for policy in self._policies])

    def fresh_levels(self) -> Levels:
        """Return the levels as they are before the first question. Internal: the simulator uses them."""
        return self.grouping.build_levels(self.arms)

    def snapshot(self) -> tuple[Any, dict[str, Any], np.random.Generator | None]:
        """Return copies of the state, of what the levels learned, and of the generator of signs. Internal.

        Policies are built from it without the lock: building one waits for forks, and forks wait for the lock.
        """
        with self._lock:
            learned = {key: getattr(self._levels, key).copy() for key in LEARNED}
            return copy_state(self._state), learned, copy.deepcopy(self._signs)

    def restore(self, learned: Mapping[str, Any]) -> None:
        """Take over what the levels of another policy learned. Internal."""
        for key in LEARNED:
            getattr(self._levels, key)[:] = learned[key]

    def __copy__(self) -> Contextual:
        state, learned, signs = self.snapshot()
        each = [with_state(policy, select_state(state, index)) for index, policy in enumerate(self._policies)]
        new = Contextual(each, self.epsilon, self.grouping, self.known_shares, signs)
        new.restore(learned)
        return new

    def __deepcopy__(self, memo: Any) -> Contextual:
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.contextual import serialization

        return serialization.loads, (serialization.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, for `load_contextual`.

        Parameters
        ----------
        path : str or Path
            The file. It appears whole or not at all.

        """
        from maskedbandits.contextual import serialization

        serialization.save(self, path)
