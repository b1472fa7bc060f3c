"""Tables for questions, an arm for each group: the policies' choice, with a floor and a holdout beside it, by lot.

The holdout is a table that has the default arm for everybody. For the floor every part of a question draws a lot of its
own. Nobody knows which arm is shown, so there is no probability to keep exact: what draws from a posterior is asked
for one draw.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual import Contextual
from maskedbandits.service.arm_selection import PARTS, in_parts
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT, FLAG_SUBSET

Ints = NDArray[np.int64]


class Table(NamedTuple):
    """An arm for each part of a grain, and whether some were drawn beside the policy."""

    grain: int
    arms: Ints
    flags: int


class Tables:
    """Makes tables for one experiment, until its arms or settings change."""

    def __init__(
        self, policy: Contextual, open_arms: Sequence[int], floor: float, holdout: float, default: int
    ) -> None:
        self.policy, self.open_arms = policy, list(open_arms)
        self.floor, self.holdout, self.default = in_parts(floor), in_parts(holdout), default
        self.draws_lots = policy.kind.draws_from == "posterior"

    def decide(self, among: Sequence[int] | None = None) -> Table:
        """Decide; answers to it are awaited."""
        grain, arms = self.policy.draw(among)
        flags = 0 if among is None else FLAG_SUBSET
        flags |= self._beside(arms, self.open_arms if among is None else among)
        self.await_answers(grain, arms)
        return Table(grain, arms, flags)

    def show(self, among: Sequence[int] | None = None) -> Table:
        """Return the table that somebody is shown who takes no part; nothing is awaited."""
        return Table(*self.policy.draw(among), 0)

    def counted(self, arms: Ints) -> Ints:
        """Return for how many of the first parts an answer is awaited.

        For whoever draws lots, the first stands for all: such policies spread a burst anyway, and take no notice.
        """
        return arms[:1] if self.draws_lots else arms

    def await_answers(self, grain: int, arms: Ints, n: int = 1) -> None:
        """Await n answers more, or fewer, to a question with this table."""
        self.policy.note(grain, self.counted(arms), n)

    def _beside(self, arms: Ints, among: Sequence[int]) -> int:
        """Draw what the holdout and the floor take from the policy; return which of them did."""
        held = self.holdout if self.default in among else 0
        lot = random.randrange(PARTS)  # noqa: S311 -- which table is sent is nobody's secret
        if lot < held:
            arms[:] = self.default
            return FLAG_HOLDOUT
        flags = 0
        for part in range(arms.size) if self.floor else ():
            lot = random.randrange(PARTS - held)  # noqa: S311 -- of what the holdout leaves, so that shares are of all
            if lot < self.floor * len(among):
                arms[part] = among[lot // self.floor]
                flags = FLAG_FLOOR
        return flags
