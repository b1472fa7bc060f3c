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
from maskedbandits.context.grouping import Asked, Grouping
from maskedbandits.errors import DAMAGED, UserError, WrongValueError, nearest, whole
from maskedbandits.files import write_whole
from maskedbandits.policies import Policy, kind_of, make_policy, saved
from maskedbandits.policies.entries import Entries, entries
from maskedbandits.policies.grains import Grains
from maskedbandits.policies.kinds import Kind
from maskedbandits.policies.stacks import nth, stacked
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
    pool: bool | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> "Contextual":
    """Return a contextual policy that has seen nothing: a policy of this name for every group.

    Shares are how many of the visitors belong to each group; without them all groups are taken for equally large, and
    answers of one of many tell what they are. ``answers`` are a "bit" or "one of many"; without it the kind is taken
    that needs fewer visitors. With ``pool`` some questions, or most, treat all groups as one, by how well that predicts
    what is answered, until they are seen to differ (``policies/grains.py``); without a word they are pooled where
    answers are bits, as one of many answers tells groups apart soon enough.

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
    if pool not in (None, True, False):
        raise WrongValueError("pool", pool, "True, False, or nothing")
    kind = answers or masks.better_kind(float(exact), known)
    alone = np.arange(many)
    pooled = (kind == masks.BIT if pool is None else pool) and many > 1
    parts, kinds = (np.stack([0 * alone, alone]), (masks.BIT, kind)) if pooled else (alone[None, :], (kind,))
    grouping = Grouping(parts, kinds, float(exact), known)
    seen = grouping.masks
    seeds = np.random.SeedSequence(None if seed is None else whole("seed", seed, 0)).generate_state(len(seen) + 1)
    each = [
        make_policy(name, arms=arms, corruption=mask, seed=int(own), **parameters)
        for mask, own in zip(seen, seeds[1:], strict=True)
    ]
    return Contextual(each, exact, grouping, given, np.random.default_rng(int(seeds[0])))


class Contextual:
    """Asks questions, and learns from masked answers; made by ``make_contextual``. Threads may share one."""

    def __init__(
        self,
        policies: list[Policy],
        epsilon: Any,
        grouping: Grouping,
        shares: Floats | None,
        signs: np.random.Generator,
    ) -> None:
        self.epsilon, self.grouping = epsilon, grouping
        self._policies, self._known, self._signs = policies, shares, signs
        self._named = np.zeros(self.groups, dtype=np.int64)  # how often answers named each group
        self._grains = grouping.fresh(self.arms)
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
        return self.grouping.groups

    @property
    def answers(self) -> str:
        """What an answer is that tells groups apart: a bit, or one of many."""
        return self.grouping.kinds[-1]

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
        table = np.zeros(self._grains.told.size, dtype=np.int64)
        with self._lock:
            grain = self._live.ask_groups(self._state, self._grains, table)
            part = self.grouping.parts[grain]
            signs = None
            if self.grouping.kinds[grain] == masks.BIT:
                signs = self._signs.integers(0, 2, self.grouping.sizes[grain])[part].tolist()
        return Asked(table[part].tolist(), signs, self.epsilon, grain)

    def observe(self, question: Question, answer: int) -> None:
        """Take in the masked answer to a question."""
        grain, table, signs = self._fitting(question)
        told = whole("answer", answer, 0, question.answers - 1)
        with self._lock:
            if signs is not None:
                self._live.take_in_bits(self._state, self._grains, grain, table, signs, told)
                return
            group, bit = divmod(told, 2)
            self._named[group] += 1
            self._live.take_in_one(self._state, self._grains, grain, table, group, float(bit))

    def expire(self, question: Question) -> None:
        """Give up awaiting an answer that will never come."""
        grain, table, _ = self._fitting(question)
        first = int(self._grains.firsts[grain])
        with self._lock:
            for policy, arm in zip(self._policies[first : first + table.size], table, strict=True):
                policy.expire(int(arm))

    def _fitting(self, question: Question) -> tuple[int, Ints, Ints | None]:
        """Return the grain of a question that is one of ours, and the arm and the sign of each part."""
        fits = isinstance(question, Question) and question.groups == self.groups and max(question.table) < self.arms
        grain = question.grain if isinstance(question, Asked) else len(self.grouping.kinds) - 1
        if fits and 0 <= grain < len(self.grouping.kinds) and question.epsilon == self.epsilon:
            table = self.grouping.by_part(grain, question.table)
            signs = None if question.signs is None else self.grouping.by_part(grain, question.signs)
            if (
                table is not None
                and (question.signs is None) == (signs is None)
                and (signs is not None) == (self.grouping.kinds[grain] == masks.BIT)
            ):
                return grain, table, signs
        raise UserError("the question is not one of this policy: give one that its ask() returned")

    def estimates(self) -> Floats:
        """Return the estimated mean of every arm in every group, (G, K); NaN where nothing is known."""
        with self._lock:
            return np.array([policy.estimates() for policy in self._policies[-self.groups :]])

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

    @property
    def pooled(self) -> float:
        """How likely the next question is to treat all groups as one: 0 as soon as they were seen to differ."""
        with self._lock:
            weights = np.exp(self._grains.weights)
        return float(weights[0] / weights.sum()) if weights.size > 1 else 0.0

    def for_simulation(self, horizon: int, memo: int) -> Any:
        """Return the state of fresh policies of this kind, of all groups."""
        return stacked([policy.for_simulation(horizon, memo) for policy in self._policies])

    def fresh_grains(self) -> Grains:
        """Return the grains as they are before the first question."""
        return self.grouping.fresh(self.arms)

    def save(self, path: str | Path) -> None:
        """Write everything down, for ``load_contextual``."""
        about = {
            "format": FORMAT,
            "epsilon": str(self.epsilon),
            "kinds": self.grouping.kinds,
            "parts": self.grouping.parts.tolist(),
            "shares": None if self._known is None else self._known.tolist(),
        }
        with self._lock:
            texts: dict[str, Any] = {
                f"policy_{place}": np.frombuffer(saved.dumps(policy), dtype=np.uint8)
                for place, policy in enumerate(self._policies)
            }
            texts |= {"named": self._named.copy(), "weights": self._grains.weights.copy()}
        write_whole(Path(path), lambda stream: np.savez(stream, about=np.array(json.dumps(about)), **texts))


def load_contextual(path: str | Path) -> Contextual:
    """Return the contextual policy that was saved; it knows all that the saved one knew, and draws lots of its own."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            named, weights = np.array(file["named"], dtype=np.int64), np.array(file["weights"], dtype=np.float64)
            shares = None if about["shares"] is None else arrays.parts_of_one("shares", about["shares"], named.size)
            known = np.full(named.size, 1.0 / named.size) if shares is None else shares
            epsilon, kinds = as_epsilon(str(about["epsilon"])), tuple(map(str, about["kinds"]))
            grouping = Grouping(np.array(about["parts"], dtype=np.int64), kinds, float(epsilon), known)
            each = [saved.loads(file[f"policy_{place}"].tobytes()) for place in range(sum(grouping.sizes))]
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path} is not a saved contextual policy, or is damaged: save it again ({error})") from None
    if about["format"] != FORMAT:
        raise UserError(f"{path} was saved in another format: load it with the version that saved it")
    alike = {(own.name, own.arms, own.kind.layout.name) for own in each}
    weighed = weights.shape == (len(kinds),) and not np.any(np.isnan(weights)) and weights.max() == 0.0
    if len(alike) != 1 or named.min() < 0 or not weighed or not grouping.fits():
        raise UserError(f"{path} is damaged: its groups do not fit together; load an older copy")
    made = Contextual(each, epsilon, grouping, shares, np.random.default_rng())
    made._named[:] = named
    made._grains.weights[:] = weights
    return made
