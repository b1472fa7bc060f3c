"""Arm selection with exact probabilities: a floor for every arm and a holdout beside the policy.

With probability sum(f) an arm is drawn from f, the shares of the floor and the holdout. Otherwise the policy decides.
Shares are whole 1024ths. An index policy chooses one arm with certainty. A policy with a posterior draws 64 arms at
once, and one of them is picked at random: a decision has the distribution of the policy's own draw. Given the 64 draws
its probability is a whole number of 65,536ths, which a token carries without rounding. Off-policy evaluation needs
these exact probabilities.

Beside an arm that looks perfect a posterior may never draw a new one. So while an arm is untried (no report received or
pending), one of the 64 draws goes to it, or to a random one of several.

With groups a selection has an arm for each part of a question. The holdout has the default arm for all of them. For the
floor each part is drawn by itself. The arm that is shown stays unknown, so there is no probability to keep exact: a
policy with a posterior makes one draw.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual import Contextual
from maskedbandits.policies import Policy
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT, FLAG_SHOWN, FLAG_SUBSET

PARTS = 1024  # shares of the floor and the holdout are whole numbers of these
DRAWS = 64  # of a posterior at once
WHOLE = PARTS * DRAWS  # probabilities are whole numbers of these
MAX_STALE_USES = 8  # decisions from one block of draws after the policy received a report
MAX_WORK = 1 << 14  # draws times arms: with more arms fewer draws are made at once, so that others need not wait

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Selection(NamedTuple):
    """An arm, its probability in 65,536ths, and flags that tell whether the floor or the holdout chose it."""

    arm: int
    probability: int
    flags: int


class GroupSelection(NamedTuple):
    """An arm for each part of a level, and flags that tell whether the floor or the holdout chose some."""

    level: int
    arms: Ints
    flags: int


def to_parts(share: float) -> int:
    """Return a share in 1024ths, rounded up so that a floor is never less than requested."""
    return math.ceil(share * PARTS - 1e-9)


class ArmSelector:
    """Selects arms for one experiment until its arms or settings change."""

    def __init__(
        self,
        policy: Policy,
        open_arms: Sequence[int],
        floor: float,
        holdout: float,
        default: int,
        find_untried: Callable[[], Flags] | None = None,
    ) -> None:
        self.policy, self.find_untried = policy, find_untried
        self.open_arms = list(open_arms)
        self.floor, self.holdout, self.default = to_parts(floor), to_parts(holdout), default
        self.is_randomized = policy.kind.draws_from == "posterior"
        self.draws = self._count_draws()
        self.block: list[int] = []
        self.counts: dict[int, int] = {}
        self.used = 0
        self.is_stale = False
        self.shares = self._list_shares(self.open_arms)

    def _count_draws(self) -> int:
        """Return how many draws to make at once: a power of two, so that probabilities stay exact."""
        fitting = max(1, min(DRAWS, MAX_WORK // max(1, self.policy.arms)))
        return 1 << (fitting.bit_length() - 1)

    def _list_shares(self, arms: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return the shares beside the policy: arm, share in 1024ths, flag."""
        shares = [(arm, self.floor, FLAG_FLOOR) for arm in arms if self.floor]
        if self.holdout and self.default in arms:
            shares.append((self.default, self.holdout, FLAG_HOLDOUT))
        return shares

    def mark_stale(self) -> None:
        """Note that the policy received a report."""
        self.is_stale = True

    def decide(self, among: Sequence[int] | None = None) -> Selection:
        """Select an arm; an index policy expects a report of it."""
        if among is None:
            return self._select(self.shares, None, 0)
        return self._select(self._list_shares(among), among, FLAG_SUBSET)

    def show(self, among: Sequence[int] | None = None) -> Selection:
        """Select the policy's arm without participation: no report is expected, and no share applies."""
        counts, arm = self._ask_policy(among)
        return Selection(arm, PARTS * counts[arm], FLAG_SHOWN)

    def _select(self, shares: list[tuple[int, int, int]], among: Sequence[int] | None, flags: int) -> Selection:
        if not shares and not self.is_randomized:  # the usual case of an index needs no random number
            arm = self.policy.choose() if among is None else self.policy.choose(among=among)
            return Selection(arm, WHOLE, flags)
        counts, arm = self._ask_policy(among)
        total = sum(share for _, share, _ in shares)
        drawn = random.randrange(PARTS)  # noqa: S311 -- the arm that is shown is not secret
        if drawn < total:
            arm, flag = _pick_share(shares, drawn)
            flags |= flag
        own = sum(share for each, share, _ in shares if each == arm)
        if not self.is_randomized:  # a posterior spreads a burst by itself, and ignores pending reports
            self.policy.note(arm)
        return Selection(arm, DRAWS * own + (PARTS - total) * counts.get(arm, 0), flags)

    def _ask_policy(self, among: Sequence[int] | None) -> tuple[dict[int, int], int]:
        """Return how many of 64 draws of the policy are of each arm, and a random one of them."""
        if not self.is_randomized:
            chosen = self.policy.sample(1) if among is None else self.policy.sample(1, among=among)
            return {int(chosen[0]): DRAWS}, int(chosen[0])
        if among is not None:
            block = self._add_untried(self.policy.sample(self.draws, among=among).tolist(), among)
            return _count_arms(block), random.choice(block)  # noqa: S311
        if self.used >= DRAWS or not self.block or (self.is_stale and self.used >= MAX_STALE_USES):
            self.block = self._add_untried(self.policy.sample(self.draws).tolist(), self.open_arms)
            self.counts = _count_arms(self.block)
            self.used, self.is_stale = 0, False
        self.used += 1
        return self.counts, random.choice(self.block)  # noqa: S311

    def _add_untried(self, block: list[int], among: Sequence[int]) -> list[int]:
        """Give one in 64 draws to an untried arm, however many are made at once."""
        if self.find_untried is None or random.randrange(DRAWS) >= len(block):  # noqa: S311
            return block
        arms = np.fromiter(among, np.int64, len(among))
        untried = arms[self.find_untried()[arms]]
        if untried.size and not np.isin(untried, block).any():
            block[0] = int(untried[random.randrange(untried.size)])  # noqa: S311
        return block


def _pick_share(shares: list[tuple[int, int, int]], drawn: int) -> tuple[int, int]:
    """Return the arm and the flag of the share that a number below their sum falls into."""
    for arm, share, flag in shares:
        if drawn < share:
            return arm, flag
        drawn -= share
    raise AssertionError("a random number is not below the sum of the shares")


def _count_arms(block: list[int]) -> dict[int, int]:
    """Return how many of 64 draws are of each arm; where fewer were made, each counts several times."""
    weight = DRAWS // len(block)
    counts: dict[int, int] = {}
    for arm in block:
        counts[arm] = counts.get(arm, 0) + weight
    return counts


class GroupArmSelector:
    """Selects an arm for each part of a question, for one experiment until its arms or settings change."""

    def __init__(
        self, policy: Contextual, open_arms: Sequence[int], floor: float, holdout: float, default: int
    ) -> None:
        self.policy, self.open_arms = policy, list(open_arms)
        self.floor, self.holdout, self.default = to_parts(floor), to_parts(holdout), default
        self.is_randomized = policy.kind.draws_from == "posterior"

    def decide(self, among: Sequence[int] | None = None) -> GroupSelection:
        """Select arms; answers are expected."""
        level, arms = self.policy.draw(among)
        flags = 0 if among is None else FLAG_SUBSET
        flags |= self._apply_shares(arms, self.open_arms if among is None else among)
        self.expect_answers(level, arms)
        return GroupSelection(level, arms, flags)

    def show(self, among: Sequence[int] | None = None) -> GroupSelection:
        """Select arms without participation: no answer is expected."""
        return GroupSelection(*self.policy.draw(among), 0)

    def list_counted(self, arms: Ints) -> Ints:
        """Return the arms of the parts whose pending answers are counted.

        Randomised policies ignore pending answers, so the first part stands for the whole question.
        """
        return arms[:1] if self.is_randomized else arms

    def expect_answers(self, level: int, arms: Ints, n: int = 1) -> None:
        """Expect n more answers (or fewer, if negative) to a question with these arms."""
        self.policy.note(level, self.list_counted(arms), n)

    def _apply_shares(self, arms: Ints, among: Sequence[int]) -> int:
        """Overwrite arms by the holdout or the floor at random; return the flag of the one that did."""
        held = self.holdout if self.default in among else 0
        drawn = random.randrange(PARTS)  # noqa: S311 -- the arms that are sent are not secret
        if drawn < held:
            arms[:] = self.default
            return FLAG_HOLDOUT
        flags = 0
        for part in range(arms.size) if self.floor else ():
            drawn = random.randrange(PARTS - held)  # noqa: S311 -- of what the holdout leaves, so that shares are of all
            if drawn < self.floor * len(among):
                arms[part] = among[drawn // self.floor]
                flags = FLAG_FLOOR
        return flags
