"""A contextual policy: for each group of people a policy of its own, all fed by answers that hide who is in which.

To every group an answer looks like the feedback of a corrupt bandit (``masks.py``), so any policy learns from it.
"""

import copy
import os
import threading
from collections.abc import Collection, Mapping, Sequence, Set
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import copy_state, select_state, stack, stack_rows
from maskedbandits.contextual import masks
from maskedbandits.contextual.description import LEARNT, View
from maskedbandits.contextual.hierarchy import Grouping, Read
from maskedbandits.contextual.shares import remade
from maskedbandits.errors import UserError, WrongValueError, check_int
from maskedbandits.policies import Policy, validation
from maskedbandits.policies import arms as changes
from maskedbandits.policies import pending as pending_reports
from maskedbandits.policies.groups.levels import Grains
from maskedbandits.policies.index import report_masks
from maskedbandits.policies.runtime import get_entries, hold_group_during_forks
from maskedbandits.privacy import Question

AT_ONCE = 1 << 14  # answers times groups that are taken in at once, lest whoever asks wait for long

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Contextual(View):
    """Asks questions, and learns from masked answers; made by ``make_contextual``.

    Threads may share one. After a fork, parent and child ask different questions.
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
        self._grains = grouping.fresh(self.arms)
        self._lock = threading.Lock()
        self._stack()
        self._live = get_entries(self.kind.layout, self.name, ".groups")
        hold_group_during_forks(self)

    def _stack(self) -> None:
        """Lay the states of all policies into one."""
        self._state = stack([policy._state for policy in self._policies])
        for place, policy in enumerate(self._policies):
            policy._state = select_state(self._state, place)

    def __repr__(self) -> str:
        return f"<{self.name}, groups={self.groups}, arms={self.arms}, epsilon={float(self.epsilon):g}, {self.answers}>"

    def ask(self, among: ArrayLike | None = None) -> Question:
        """Return what to ask the next visitor; the answer is awaited until ``observe``, or ``expire``.

        With ``among`` the table has some arms alone.
        """
        grain, table = self.draw(among, decides=True)
        return self.question(grain, table, self.signs(grain))

    def draw(self, among: ArrayLike | None = None, *, decides: bool = False) -> tuple[int, Ints]:
        """Return the grain of the next question, and the arm for each of its parts; it is awaited if that decides."""
        places = None if among is None else self._open_ones(among)
        table = np.zeros(self._grains.told.size, dtype=np.int64)
        with self._lock:
            closed = stack_rows(self._state, "closed")
            before = None if places is None else closed.copy()
            try:
                if places is not None:
                    closed[:] = 1
                    closed[:, places] = 0
                grain = self._live.ask_groups(self._state, self._grains, table, int(places is not None), int(decides))
            finally:
                if before is not None:
                    closed[:] = before
        return grain, table[: self.grouping.sizes[grain]]

    def _open_ones(self, among: ArrayLike) -> Ints:
        changes.check(self.kind)
        places = validation.some("among", among, self.arms)
        retired = self._policies[0].retired[places]
        if retired.any():
            raise UserError(f"among: arm {places[retired][0]} is retired: leave it out")
        return places

    def signs(self, grain: int) -> Ints | None:
        """Draw a sign for each part of a grain; None if answers at this grain are one of many.

        They come from the operating system, but for a policy that was given a seed.
        """
        if self.grouping.kinds[grain] != masks.BIT:
            return None
        many = self.grouping.sizes[grain]
        if self._signs is None:
            return np.frombuffer(os.urandom(many), dtype=np.uint8).astype(np.int64) & 1
        with self._lock:
            return self._signs.integers(0, 2, many)

    def draw_apart(self) -> None:
        """Draw other signs from now on than others that were given the same seed; with the lock."""
        if self._signs is not None:
            self._signs = np.random.default_rng()

    def question(self, grain: int, table: Ints, signs: Ints | None, epsilon: Fraction | None = None) -> Question:
        """Return the question of an arm, and perhaps a sign, for each part of a grain."""
        part = self.grouping.parts[grain]
        told = None if signs is None else signs[part].tolist()
        parts = part.tolist() if signs is None and grain < self.grouping.finest else None
        own = self.epsilon if epsilon is None else epsilon
        return Question(table[part].tolist(), told, own, parts, grain=grain)

    def observe(self, question: Question, answer: int) -> None:
        """Take in the masked answer to a question; its epsilon may be another than usual."""
        self.observe_many([question], [answer])

    def observe_many(self, questions: Sequence[Question], values: Sequence[int]) -> None:
        """Take in masked answers to many questions, in their order: as ``observe`` does, and faster."""
        for name, many in (("questions", questions), ("answers", values)):
            if not isinstance(many, Collection) or isinstance(many, (Set, Mapping)):
                raise WrongValueError(name, many, "a list, in the order in which they are to be learnt from")
        if len(questions) != len(values):
            raise UserError(f"{len(questions)} questions and {len(values)} answers: give one answer to each")
        grains, tables, signs = (np.zeros((len(values), n), dtype=np.int64) for n in (1, self.groups, self.groups))
        told = np.zeros(len(values), dtype=np.int64)
        for place, (question, value) in enumerate(zip(questions, values, strict=True)):
            grains[place], table, own = self._fitting(question)
            tables[place, : table.size] = table
            if own is not None:
                signs[place, : own.size] = own
            told[place] = check_int("answer", value, 0, question.answers - 1)
        self.take_in(grains[:, 0].copy(), tables, signs, told, [question.epsilon for question in questions])

    def take_in(self, grains: Ints, tables: Ints, signs: Ints, values: Ints, epsilons: Sequence[Fraction]) -> None:
        """Take in answers whose questions were taken apart already; they are ours, and are not checked again."""
        told = masks.answers(self.grouping, grains, tables, signs, values, epsilons, self.epsilon)
        first = masks.first_masked(told)
        honest = 1.0 - self._policies[0].contamination
        if first < values.size and not self.kind.takes_masks:
            raise UserError(f"{self.name} takes no answers with an epsilon of their own: mask all with {self.epsilon}")
        some = max(1, AT_ONCE // self.groups)
        for piece in masks.pieces(masks.part(told, 0, first), some):
            with self._lock:
                self._live.take_in_answers(self._state, self._grains, piece, int(self._is_mixed), honest)
        for piece in masks.pieces(masks.part(told, first, values.size), some):
            with self._lock:
                if self.kind.on_axes and not self._is_mixed:
                    self._mix()
                self._live.take_in_answers(self._state, self._grains, piece, 1, honest)

    @property
    def _is_mixed(self) -> bool:
        return self._policies[0]._mixed

    def _mix(self) -> None:
        """Make room for masks of answers' own."""
        for policy in self._policies:
            policy._state, policy._mixed = report_masks.mixed(policy._state), True
        self._stack()

    def expire(self, question: Question) -> None:
        """Give up awaiting an answer that will never come."""
        grain, table, _ = self._fitting(question)
        self.note(grain, table, -1)

    def note(self, grain: int, table: Ints, n: int = 1) -> None:
        """Await n more answers to a question of this table, or fewer; some first parts alone, if it has no more."""
        parts = int(self._grains.firsts[grain]) + np.arange(table.size)
        with self._lock:
            pending_reports.note_many(self._state, parts, table, n)

    def await_exactly(self, pending: ArrayLike) -> None:
        """Await so many answers of each arm in each part of all grains, whatever was awaited before."""
        counts = np.asarray(pending, dtype=np.int64)
        with self._lock:
            for policy, each in zip(self._policies, counts, strict=True):
                pending_reports.set_pending(policy._state, each)

    def add_arm(self) -> int:
        """Add an arm, and return its number: every group explores it; what was learnt of the others stays."""
        with self._lock:
            added = [policy.add_arm() for policy in self._policies]
            self._stack()
            known = np.zeros(len(self._policies) * self.arms)
            self._grains = self._grains._replace(worths=known, means=known.copy())
        return added[0]

    def retire(self, arm: int) -> None:
        """Never let a table have an arm again; answers that come late are taken in."""
        with self._lock:
            for policy in self._policies:
                policy.retire(arm)

    def _fitting(self, question: Question) -> Read:
        """Return a question that is one of ours, taken apart; one without a grain may be of one grain alone."""
        found: list[Read] = []
        if isinstance(question, Question) and question.groups == self.groups and question.epsilon > 0:
            grains = range(len(self.grouping.kinds))
            asked = grains if question.grain is None else {question.grain} & set(grains)
            if max(question.table) < self.arms:
                found = [read for grain in asked if (read := self.grouping.read(grain, question)) is not None]
        if len(found) > 1:
            raise UserError(
                "the question may have been asked of groups as one, or of each: rebuild it with its grain, as by "
                "Question(**question.as_dict())"
            )
        if not found:
            raise UserError("the question is not one of this policy: give one that its ask() returned")
        return found[0]

    def for_simulation(self, horizon: int, memo: int) -> Any:
        """Return the state of fresh policies of this kind, of all groups."""
        return stack([policy.for_simulation(horizon, memo) for policy in self._policies])

    def fresh_grains(self) -> Grains:
        """Return the grains as they are before the first question."""
        return self.grouping.fresh(self.arms)

    def copied_parts(self) -> tuple[Any, dict[str, Any], np.random.Generator | None]:
        """Return copies of the policies' state, of what the grains have learnt, and of what draws signs, of one moment.

        Policies are made of it without the lock: whoever makes one waits for forks, and these wait for the lock.
        """
        with self._lock:
            learnt = {key: getattr(self._grains, key).copy() for key in LEARNT}
            return copy_state(self._state), learnt, copy.deepcopy(self._signs)

    def know(self, learnt: Mapping[str, Any]) -> None:
        """Take over what the grains of another have learnt."""
        for key in LEARNT:
            getattr(self._grains, key)[:] = learnt[key]

    def __copy__(self) -> "Contextual":
        state, learnt, signs = self.copied_parts()
        each = [remade(policy, select_state(state, place)) for place, policy in enumerate(self._policies)]
        made = Contextual(each, self.epsilon, self.grouping, self.known_shares, signs)
        made.know(learnt)
        return made

    def __deepcopy__(self, memo: Any) -> "Contextual":
        return self.__copy__()

    def __reduce__(self) -> Any:
        from maskedbandits.contextual import serialization

        return serialization.loads, (serialization.dumps(self),)

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_contextual``."""
        from maskedbandits.contextual import serialization

        serialization.save(self, path)
