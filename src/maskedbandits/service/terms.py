"""The terms of an experiment: what its configuration says, checked, as it stands in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from msgspec import Struct

from maskedbandits.arrays import parts_of_one
from maskedbandits.errors import UserError, WrongValueError, nearest, whole
from maskedbandits.policies import check_policy, kind_of
from maskedbandits.service.decisions import PARTS, in_parts
from maskedbandits.service.fold import made, mask_of, refuse_unless_offered
from maskedbandits.service.messages import MOST_ARMS, ExperimentConfig, check_groups, check_times, millionths
from maskedbandits.service.stores.rows import OPEN, ArmRow, ExperimentRow

MOST_WINDOW = 1_000_000  # reports: every process keeps them, and each snapshot holds them
MOST_SLOTS = 1 << 24  # the same, for policies that keep some of each arm
NUMBERS_ONLY = ("sigma", "tail")
OPTIONAL = ("groups", "shares")
LEAST_SHARE = 0.00002  # of a group: with it even an epsilon of a millionth leaves its policy something


class Terms(Struct, frozen=True):
    """What decisions and reports of an experiment go by."""

    epsilon: float
    policy: str
    parameters: dict[str, Any]
    report_after: int
    expires_after: int
    floor: float
    holdout: float
    groups: list[str] | None = None  # names; both are fixed for good
    shares: list[float] | None = None

    @classmethod
    def of(cls, config: ExperimentConfig) -> Self:
        """Return the terms that somebody asks for, after checking them."""
        told = {name: getattr(config, name) for name in cls.__struct_fields__}
        terms = cls(**told)
        terms.check(len(config.arms), len(config.arms))
        return terms

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the terms that the store holds; what a later version has added is left aside."""
        told = json.loads(text)
        return cls(**{name: told[name] for name in cls.__struct_fields__ if name in told or name not in OPTIONAL})

    def written(self) -> str:
        """Return them as the store holds them."""
        told = {name: getattr(self, name) for name in self.__struct_fields__}
        return json.dumps({name: value for name, value in told.items() if name not in OPTIONAL or value is not None})

    @property
    def policies(self) -> int:
        """How many policies there are: one, or one for each group and one for all."""
        return 1 if self.groups is None else len(self.groups) + 1

    @property
    def millionths(self) -> int:
        """Epsilon as tokens carry it."""
        return millionths("epsilon", self.epsilon)

    def check(self, open_arms: int, arms: int) -> None:
        """Refuse what cannot be, in one line; the policy knows of retired arms, too."""
        if arms > MOST_ARMS:
            raise UserError(f"an experiment has at most {MOST_ARMS} arms, retired ones too: create another")
        if arms * self.policies > MOST_ARMS:
            most = MOST_ARMS // self.policies
            raise UserError(f"with {self.policies - 1} groups an experiment has at most {most} arms, retired ones too")
        check_times(self.report_after, self.expires_after)
        refuse_unless_offered(self.policy)
        self._check_groups()
        self._check_parameters(arms)
        mask = mask_of(self.millionths)
        if mask.slope == 0.0:
            raise UserError(f"epsilon = {self.epsilon}: it leaves nothing to learn; give a larger one")
        check_policy(self.policy, arms=arms, corruption=mask, **self.parameters)
        self.check_shares(open_arms)

    def _check_groups(self) -> None:
        """Refuse groups that cannot be told apart, and shares that are none."""
        if self.groups is None:
            if self.shares is not None:
                raise UserError("shares are those of groups, and there are none: leave them out, or name groups")
            return
        check_groups(self.groups)
        if self.shares is not None and parts_of_one("shares", self.shares, len(self.groups)).min() < LEAST_SHARE:
            raise UserError(f"shares: nobody learns of a group so small: give each at least {LEAST_SHARE}")

    def _check_parameters(self, arms: int) -> None:
        """Refuse parameters in the words of a service, which knows no files and no infinity."""
        kind, given = kind_of(self.policy), self.parameters
        known = [name for name in kind.parameters if name not in NUMBERS_ONLY]
        for name in given:
            if name not in kind.parameters:  # arms and corruption, which a policy is given otherwise, among them
                raise UserError(f"{self.policy} has no parameter {name!r}{nearest(name, known)}")
            if name in NUMBERS_ONLY and given[name] is not None:
                raise UserError(f"parameter {name!r} is for feedback of any size, and reports are bits: leave it out")
        if "window" in kind.parameters:
            plain = self.policy.removeprefix("sw-")
            most = min(MOST_WINDOW, MOST_SLOTS // self.policies)
            wanted = f"how many of the last reports count, at most {most}; for no limit take policy = {plain!r}"
            _within("window", given.get("window"), most, wanted)
        if "width" in kind.parameters:
            most = max(1, MOST_SLOTS // (arms * self.policies))
            _within("width", given.get("width", kind.parameters["width"].default), most, f"at most {most}")

    def try_out(self, arms: int) -> None:
        """Refuse a policy that does not fit into the memory of this process."""
        try:
            made(json.loads(self.written()), arms)
        except MemoryError:
            what = f"policy = {self.policy!r} for {arms} arms does not fit into memory"
            raise UserError(f"{what}: give fewer arms, or a smaller window") from None

    def check_shares(self, open_arms: int) -> None:
        """Refuse a floor and a holdout that leave the policy nothing to decide."""
        taken = in_parts(self.floor) * open_arms + in_parts(self.holdout)
        if taken >= PARTS:
            raise UserError(
                f"floor = {self.floor} for each of {open_arms} arms and holdout = {self.holdout} are {taken} of "
                f"{PARTS} parts together: leave the policy some, with a lower floor or holdout"
            )


def _within(name: str, value: Any, most: int, wanted: str) -> None:
    try:
        whole(name, value, 1, most)
    except WrongValueError:
        raise WrongValueError(name, value, wanted) from None


def check_standing(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Refuse an experiment that could not go on as it would stand."""
    Terms.read(row.config).check(sum(arm.status == OPEN for arm in arms), len(arms))
