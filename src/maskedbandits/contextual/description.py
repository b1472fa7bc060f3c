"""What a contextual policy tells of itself: nothing of this is a question, or changes what it knows."""

import hashlib
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import stack_rows
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.contextual.shares import of_any_share, remade, shares_from, stretched, stretches
from maskedbandits.policies import Policy
from maskedbandits.policies.groups.levels import Grains
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import Entries

LEARNT = ("weights", "named", "expected")  # what of the grains answers decide

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Telling(NamedTuple):
    """Those who tell of means."""

    parts: Ints  # (G,) which of the policies each group has
    policies: list[Policy]
    as_everybody: bool  # whether each tells as if all visitors were of its part


class View:
    """The half of a contextual policy that tells."""

    grouping: Grouping
    known_shares: Floats | None
    _policies: list[Policy]
    _grains: Grains
    _lock: threading.Lock
    _state: Any

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
    def nbytes(self) -> int:
        """How much memory the policies of all groups take up."""
        return sum(own.nbytes for own in self._policies)

    @property
    def by_group(self) -> list[Policy]:
        """The policies that tell every group from the others; to look at, and of a copy alone while others learn."""
        return self._policies[-self.groups :]

    @property
    def observations(self) -> int:
        """How many answers it has taken in."""
        with self._lock:
            firsts, times = self._grains.firsts, self._state.scalars["time"]
            ends = np.where(self._grains.one_bit == 1, firsts[:-1] + 1, firsts[1:])  # a bit is one to all of its parts
            return int(sum(times[begin:end].sum() for begin, end in zip(firsts, ends, strict=False)))

    @property
    def pending(self) -> Ints:
        """How many answers are awaited of each arm, a row for each part of each grain."""
        with self._lock:
            return np.array(stack_rows(self._state, "pending"))

    @property
    def alarms(self) -> int:
        """How many changes the policies of single groups have seen, all together."""
        with self._lock:
            return int(self._state.scalars["alarms"][-self.groups :].sum())

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of every group's policy."""
        return self._policies[0].parameters

    def estimates(self) -> Floats:
        """Return the estimated mean of every arm in every group, (G, K); NaN where nothing is known.

        They are of the grain that predicts best: in a tree of the cells in which groups lie, and where groups are
        pooled and seem alike, of everybody together. Where shares were not given, they are by those of ``shares()``.
        """
        told = self._telling(by_best=True)
        return np.asarray(np.array([policy.estimates() for policy in told.policies])[told.parts])

    def intervals(self, delta: float = 0.05) -> Floats:
        """Return for every arm in every group a lower and an upper confidence bound of its mean, (G, K, 2).

        As those of a policy, and of every group by the answers that tell it from the others: they hold also for one
        that differs where all seem alike. In a tree they are of the cells in which groups lie, in the grid that
        predicts best. If answers told the shares, bounds are as sure as these are. If nothing tells them, they hold
        whatever these are: they say on which side of 1/2 a mean is, and how far from it at least.
        """
        told = self._telling(by_best=self.grouping.tree, sure=True)
        bounds = np.array([policy.intervals(delta) for policy in told.policies])[told.parts]
        return of_any_share(bounds) if told.as_everybody else np.asarray(bounds)

    def suspects(self, delta: float = 0.001) -> NDArray[np.bool_]:
        """Tell of which arms in every group, (G, K), the answers lie outside what honest ones can give.

        They are of the same grain as ``estimates()``. If nothing tells the shares, outside what they can give with any.
        """
        told = self._telling(by_best=True, sure=True)
        return np.asarray(np.array([policy.suspects(delta) for policy in told.policies])[told.parts])

    def _telling(self, *, by_best: bool, sure: bool = False) -> "Telling":
        """Return policies that tell of means by the shares that are known, of the best grain or of the finest.

        If they are to be sure and nothing tells the shares, they tell as if each part were everybody.
        """
        with self._lock:
            shares = self._told_shares()
            grain = int(np.argmax(self._grains.weights)) if by_best else self.grouping.finest
            first, last = self.grouping.firsts[grain : grain + 2]
            states = [policy._snapshot() for policy in self._policies[first:last]]
        each = [remade(*pair) for pair in zip(self._policies[first:last], states, strict=True)]
        as_everybody = sure and shares is None and self.known_shares is None and len(each) > 1
        if shares is not None or as_everybody:
            times = stretches(self.grouping, grain, shares)
            each = [stretched(policy, own) for policy, own in zip(each, times, strict=True)]
        return Telling(self.grouping.parts[grain], each, as_everybody)

    def _told_shares(self) -> Floats | None:
        """Return the shares as answers tell them; None if they were given, or no answer tells any. With the lock."""
        if self.known_shares is not None or not self._grains.named.any():
            return None
        return shares_from(self._grains.named, *self._grains.expected)

    def shares(self) -> Floats:
        """Return the shares of the groups: as given, or as answers of one of many tell them, or equal ones.

        Answers that are bits say nothing of shares. Each is above 0, so ``make_contextual`` takes them.
        """
        with self._lock:
            told = self._told_shares()
        return self.grouping.shares.copy() if told is None else told

    @property
    def pooled(self) -> float:
        """How likely the next question is to treat all groups as one: 0 as soon as they were seen to differ.

        In a tree, how likely it would be if finer cells had learnt enough to decide.
        """
        with self._lock:
            weights = np.exp(self._grains.weights)
        return float(weights[0] / weights.sum()) if weights.size > 1 else 0.0

    def fold_digest(self) -> str:
        """Return the SHA-256 of all that was learnt, in hexadecimal digits: the same if the same was observed in order.

        It does not tell what was asked meanwhile.
        """
        with self._lock:
            told = hashlib.sha256("".join(policy.fold_digest() for policy in self._policies).encode())
            for key in LEARNT:
                told.update(getattr(self._grains, key).tobytes())
        return told.hexdigest()
