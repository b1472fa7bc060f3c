"""A contextual policy: for each group of people a policy of its own, all fed by answers that hide who is in which.

To every group an answer looks like the feedback of a corrupt bandit (``masks.py``), so any policy learns from it.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import arrays
from maskedbandits.context import masks
from maskedbandits.errors import DAMAGED, UserError, nearest, whole
from maskedbandits.files import write_whole
from maskedbandits.policies import Policy, kind_of, make_policy, saved
from maskedbandits.policies.entries import Entries, entries
from maskedbandits.policies.groups import nth, stacked
from maskedbandits.policies.kinds import Kind
from maskedbandits.privacy import Question, as_epsilon

FORMAT = 1
MOST_GROUPS = 1 << 12

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_contextual(
    name: str,
    *,
    groups: int,
    arms: int,
    epsilon: float,
    shares: ArrayLike | None = None,
    answers: str | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> "Contextual":
    """Return a contextual policy that has seen nothing: a policy of this name for every group.

    Shares are how many of the visitors belong to each group; without them all groups are taken for equally large, and
    answers of one of many tell what they are. ``answers`` are a "bit" or "one of many"; without it the kind is taken
    that needs fewer visitors.

    >>> question = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1).ask()
    >>> question.table
    (0, 0)
    """
    exact = as_epsilon(epsilon)
    many = whole("groups", groups, 1, MOST_GROUPS)
    given = None if shares is None else arrays.parts_of_one("shares", shares, many)
    known = np.full(many, 1.0 / many) if given is None else given
    if exact == 0:
        raise UserError("epsilon = 0 leaves nothing to learn: give a number above 0")
    if not kind_of(name).sees_corruption or kind_of(name).sees_rewards:
        raise UserError(f"{name} does not learn through a mask: take one that does, such as auto or klucb-cf")
    if answers is not None and answers not in masks.KINDS:
        raise UserError(f"answers = {answers!r}: give {' or '.join(masks.KINDS)}{nearest(answers, masks.KINDS)}")
    kind = answers or masks.better_kind(float(exact), known)
    seeds = np.random.SeedSequence(None if seed is None else whole("seed", seed, 0)).generate_state(many + 1)
    each = [
        make_policy(name, arms=arms, corruption=mask, seed=int(own), **parameters)
        for mask, own in zip(masks.masks(kind, float(exact), known), seeds[1:], strict=True)
    ]
    return Contextual(each, exact, kind, given, np.random.default_rng(int(seeds[0])))


class Contextual:
    """Asks questions, and learns from masked answers; made by ``make_contextual``. Threads may share one."""

    def __init__(
        self, policies: list[Policy], epsilon: Any, answers: str, shares: Floats | None, signs: np.random.Generator
    ) -> None:
        self.epsilon, self.answers = epsilon, answers
        self._policies, self._known, self._signs = policies, shares, signs
        self._named = np.zeros(len(policies), dtype=np.int64)  # how often answers named each group
        self._lock = threading.Lock()
        self._state = stacked([policy._state for policy in policies])
        for group, policy in enumerate(policies):
            policy._state = nth(self._state, group)
        self._live = entries(self.kind.layout, self.name, ".groups")

    @property
    def name(self) -> str:
        """What kind of policy every group has."""
        return self._policies[0].name

    @property
    def kind(self) -> Kind:
        """What its name stands for."""
        return self._policies[0].kind

    @property
    def entries(self) -> Entries:
        """The compiled code of a group's policy."""
        return self._policies[0].entries

    @property
    def sigma(self) -> None:
        """Answers are no numbers of any size."""
        return

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return len(self._policies)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return self._policies[0].arms

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of every group's policy."""
        return self._policies[0].parameters

    def __repr__(self) -> str:
        return f"<{self.name}, groups={self.groups}, arms={self.arms}, epsilon={float(self.epsilon):g}, {self.answers}>"

    def ask(self) -> Question:
        """Return what to ask the next visitor; the answer is awaited until ``observe``, or ``expire``."""
        table = np.zeros(self.groups, dtype=np.int64)
        with self._lock:
            self._live.ask_groups(self._state, table)
            signs = self._signs.integers(0, 2, self.groups).tolist() if self.answers == masks.BIT else None
        return Question(table.tolist(), signs, self.epsilon)

    def observe(self, question: Question, answer: int) -> None:
        """Take in the masked answer to a question."""
        table = self._fitting(question)
        told = whole("answer", answer, 0, question.answers - 1)
        with self._lock:
            if question.signs is not None:
                self._live.take_in_bits(self._state, table, np.array(question.signs), told)
                return
            group, bit = divmod(told, 2)
            self._named[group] += 1
            self._live.take_in_one(self._state, table, group, float(bit))

    def expire(self, question: Question) -> None:
        """Give up awaiting an answer that will never come."""
        table = self._fitting(question)
        with self._lock:
            for policy, arm in zip(self._policies, table, strict=True):
                policy.expire(int(arm))

    def _fitting(self, question: Question) -> Ints:
        """Return the table of a question that is one of ours."""
        fits = isinstance(question, Question) and question.groups == self.groups and max(question.table) < self.arms
        if not fits or (question.signs is None) == (self.answers == masks.BIT) or question.epsilon != self.epsilon:
            raise UserError("the question is not one of this policy: give one that its ask() returned")
        return np.array(question.table)

    def estimates(self) -> Floats:
        """Return the estimated mean of every arm in every group, (G, K); NaN where nothing is known."""
        with self._lock:
            return np.array([policy.estimates() for policy in self._policies])

    def shares(self) -> Floats:
        """Return the shares of the groups: as given, or as answers of one of many tell them, or equal ones.

        Answers that are bits say nothing of shares.
        """
        equal = np.full(self.groups, 1.0 / self.groups)
        if self._known is not None:
            return self._known.copy()
        with self._lock:
            total = int(self._named.sum())
            if self.answers == masks.BIT or total == 0:
                return equal
            truth, other = masks.truth_and_other(float(self.epsilon), self.groups)
            found = np.clip((self._named / total - 2.0 * other) / (truth - other), 0.0, 1.0)
        return np.asarray(found / found.sum())

    def for_simulation(self, horizon: int, memo: int) -> Any:
        """Return the state of fresh policies of this kind, of all groups."""
        return stacked([policy.for_simulation(horizon, memo) for policy in self._policies])

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_contextual``."""
        about = {
            "format": FORMAT,
            "epsilon": str(self.epsilon),
            "answers": self.answers,
            "shares": None if self._known is None else self._known.tolist(),
        }
        with self._lock:
            texts: dict[str, Any] = {
                f"group_{place}": np.frombuffer(saved.dumps(policy), dtype=np.uint8)
                for place, policy in enumerate(self._policies)
            }
            named = self._named.copy()
        write_whole(
            Path(path), lambda stream: np.savez(stream, about=np.array(json.dumps(about)), named=named, **texts)
        )


def load_contextual(path: str | Path) -> Contextual:
    """Return the contextual policy that was saved; it knows all that the saved one knew, and draws lots of its own."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            named = np.array(file["named"], dtype=np.int64)
            each = [saved.loads(file[f"group_{place}"].tobytes()) for place in range(named.size)]
            shares = None if about["shares"] is None else arrays.parts_of_one("shares", about["shares"], named.size)
            epsilon, answers = as_epsilon(str(about["epsilon"])), str(about["answers"])
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved contextual policy, or is damaged: save it again ({error})") from None
    if about["format"] != FORMAT:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it")
    alike = {(own.name, own.arms, own.kind.layout.name) for own in each}
    if len(alike) != 1 or named.min() < 0 or answers not in masks.KINDS:
        raise UserError(f"{path} is damaged: its groups do not fit together; load an older copy")
    made = Contextual(each, epsilon, answers, shares, np.random.default_rng())
    made._named[:] = named
    return made
