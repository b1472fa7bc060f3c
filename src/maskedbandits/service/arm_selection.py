"""Decisions with exact probabilities: a floor under every arm and a holdout beside the policy, each drawn by lot.

With probability sum(f) an arm is drawn from f, the shares that the floor and the holdout give to arms; else the policy
decides. Shares are whole 1024ths. A policy that follows an index chooses one arm, with certainty. One that draws from a
posterior is asked for 64 draws at once, and one of these is drawn by lot: a decision is distributed as the policy's own
draw, and given the 64 its probability is a whole number of 65,536ths, which a token carries without rounding. That is
what off-line evaluation needs: whom it weighs by, it knows exactly.

Beside an arm that looks perfect a posterior may never draw one that is new. So while there is an untried arm, of which
no report has come or is awaited, one of the 64 draws is given to it, by lot if there are several.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.policies import Policy
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT, FLAG_SHOWN, FLAG_SUBSET

PARTS = 1024  # of which shares of the floor and the holdout are whole numbers
DRAWS = 64  # of a posterior at once
WHOLE = PARTS * DRAWS  # of which probabilities are whole numbers
STALE = 8  # decisions from one set of draws after which news of the log asks for another
MOST_WORK = 1 << 14  # draws times arms: with more arms fewer draws are made at once, lest others wait for them

Flags = NDArray[np.bool_]


class Decision(NamedTuple):
    """An arm to show, how likely it was, in 65,536ths, and whether it was drawn beside the policy."""

    arm: int
    probability: int
    flags: int


def in_parts(share: float) -> int:
    """Return a share in 1024ths, rounded up: a floor is not less than what was asked for."""
    return math.ceil(share * PARTS - 1e-9)


class Chooser:
    """Decides for one experiment, beside its policy, until its arms or settings change."""

    def __init__(
        self,
        policy: Policy,
        open_arms: Sequence[int],
        floor: float,
        holdout: float,
        default: int,
        is_untried: Callable[[], Flags] | None = None,
    ) -> None:
        self.policy, self.is_untried = policy, is_untried
        self.open_arms = list(open_arms)
        self.floor, self.holdout, self.default = in_parts(floor), in_parts(holdout), default
        self.draws_lots = policy.kind.draws_from == "posterior"
        self.draws = self._draws_at_once()
        self.block: list[int] = []
        self.counts: dict[int, int] = {}
        self.used = 0
        self.is_stale = False
        self.beside = self._shares(self.open_arms)

    def _draws_at_once(self) -> int:
        """Return how many draws of a posterior are made at once: a power of two, so that shares stay exact."""
        fitting = max(1, min(DRAWS, MOST_WORK // max(1, self.policy.arms)))
        return 1 << (fitting.bit_length() - 1)

    def _shares(self, arms: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return what is drawn beside the policy: arm, share in 1024ths, flag."""
        shares = [(arm, self.floor, FLAG_FLOOR) for arm in arms if self.floor]
        if self.holdout and self.default in arms:
            shares.append((self.default, self.holdout, FLAG_HOLDOUT))
        return shares

    def news(self) -> None:
        """Hear that the policy has learnt something."""
        self.is_stale = True

    def decide(self, among: Sequence[int] | None = None) -> Decision:
        """Decide; a policy that follows an index awaits a report of whatever arm it is."""
        if among is None:
            return self._decided(self.beside, None, 0)
        return self._decided(self._shares(among), among, FLAG_SUBSET)

    def show(self, among: Sequence[int] | None = None) -> Decision:
        """Decide as the policy would now, for somebody who takes no part; nothing is awaited, or drawn beside it."""
        counts, arm = self._of_policy(among)
        return Decision(arm, PARTS * counts[arm], FLAG_SHOWN)

    def _decided(self, beside: list[tuple[int, int, int]], among: Sequence[int] | None, flags: int) -> Decision:
        if not beside and not self.draws_lots:  # the usual case of an index needs no lot
            arm = self.policy.choose() if among is None else self.policy.choose(among=among)
            return Decision(arm, WHOLE, flags)
        counts, arm = self._of_policy(among)
        taken = sum(share for _, share, _ in beside)
        lot = random.randrange(PARTS)  # noqa: S311 -- which arm is shown is nobody's secret
        if lot < taken:
            arm, drawn_by = _drawn(beside, lot)
            flags |= drawn_by
        own = sum(share for place, share, _ in beside if place == arm)
        if not self.draws_lots:  # whoever draws spreads a burst anyway, and takes no notice
            self.policy.note(arm)
        return Decision(arm, DRAWS * own + (PARTS - taken) * counts.get(arm, 0), flags)

    def _of_policy(self, among: Sequence[int] | None) -> tuple[dict[int, int], int]:
        """Return how many of 64 draws of the policy are of each arm, and one of them."""
        if not self.draws_lots:
            drawn = self.policy.sample(1) if among is None else self.policy.sample(1, among=among)
            return {int(drawn[0]): DRAWS}, int(drawn[0])
        if among is not None:
            block = self._with_untried(self.policy.sample(self.draws, among=among).tolist(), among)
            return _counted(block), random.choice(block)  # noqa: S311
        if self.used >= DRAWS or not self.block or (self.is_stale and self.used >= STALE):
            self.block = self._with_untried(self.policy.sample(self.draws).tolist(), self.open_arms)
            self.counts = _counted(self.block)
            self.used, self.is_stale = 0, False
        self.used += 1
        return self.counts, random.choice(self.block)  # noqa: S311

    def _with_untried(self, block: list[int], among: Sequence[int]) -> list[int]:
        """Return draws of which one in 64 is of an untried arm, however many are made at once."""
        if self.is_untried is None or random.randrange(DRAWS) >= len(block):  # noqa: S311
            return block
        arms = np.fromiter(among, np.int64, len(among))
        untried = arms[self.is_untried()[arms]]
        if untried.size and not np.isin(untried, block).any():
            block[0] = int(untried[random.randrange(untried.size)])  # noqa: S311
        return block


def _drawn(beside: list[tuple[int, int, int]], lot: int) -> tuple[int, int]:
    """Return the arm, and the flag, of a lot below the sum of the shares."""
    for arm, share, flag in beside:
        if lot < share:
            return arm, flag
        lot -= share
    raise AssertionError("a lot is below the sum of the shares")


def _counted(block: list[int]) -> dict[int, int]:
    """Return how many of 64 draws are of each arm; where fewer were made, each counts for several."""
    worth = DRAWS // len(block)
    counts: dict[int, int] = {}
    for arm in block:
        counts[arm] = counts.get(arm, 0) + worth
    return counts
