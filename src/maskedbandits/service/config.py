"""The terms of an experiment: what its configuration says, checked, as it stands in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import msgspec
from msgspec import Struct

from maskedbandits._validation import parts_of_one
from maskedbandits.contextual import Contextual
from maskedbandits.device.protocol import Timing
from maskedbandits.errors import UserError, WrongValueError, check_int, nearest
from maskedbandits.policies import Policy, check_policy, kind_of
from maskedbandits.service.arm_selection import PARTS, in_parts
from maskedbandits.service.schemas import (
    MOST_ARMS,
    ExperimentConfig,
    SourceLimit,
    check_experiment,
    check_groups,
    check_source_limit,
    check_times,
    millionths,
)
from maskedbandits.service.state import made, mask_of, refuse_unless_offered
from maskedbandits.service.storage.models import MAX_MINUTE, OPEN, RETIRED, STATUSES, ArmRow, ExperimentRow

MOST_WINDOW = 1_000_000  # reports: every process keeps them, and each snapshot holds them
MOST_SLOTS = 1 << 24  # the same, for policies that keep some of each arm
NUMBERS_ONLY = ("sigma", "tail")
LIBRARY_ONLY = "expire_after"  # the service gives up on a report when its token expires
OPTIONAL = ("groups", "shares", "source_limit")
DAMAGE = (UserError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
LIMITS = Timing()  # those of people's devices
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
    source_limit: SourceLimit | None = None

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
        known = {name: told[name] for name in cls.__struct_fields__ if name in told or name not in OPTIONAL}
        if (limit := known.get("source_limit")) is not None:
            known["source_limit"] = SourceLimit(**{name: limit.get(name) for name in SourceLimit.__struct_fields__})
        return cls(**known)

    def written(self) -> str:
        """Return them as the store holds them."""
        told = msgspec.to_builtins(self)
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
        if self.source_limit is not None:
            check_source_limit(self.source_limit)
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
        known = [name for name in kind.parameters if name not in (*NUMBERS_ONLY, LIBRARY_ONLY)]
        for name in given:
            if name == LIBRARY_ONLY:
                raise UserError(f"parameter {name!r}: reports expire with their tokens here; set expires_after instead")
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
        check_int(name, value, 1, most)
    except WrongValueError:
        raise WrongValueError(name, value, wanted) from None


def fault_of(row: ExperimentRow, arms: Sequence[ArmRow]) -> str | None:
    """Return why an experiment cannot run, as when a disk has damaged its configuration or arms; None if it can."""
    try:
        _check_stored(row, arms)
    except DAMAGE as error:
        reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return f"{row.name}: its configuration is damaged ({str(reason).splitlines()[0]}): restore another backup"
    return None


def fault_beside(row: ExperimentRow, arms: Sequence[ArmRow], policy: Policy | Contextual) -> str | None:
    """Return why an experiment contradicts the policy that its log leads to; None if it does not."""
    if len(arms) < policy.arms:
        what = f"it has {len(arms)} arms, and its log {policy.arms}"
    elif (Terms.read(row.config).groups is not None) != isinstance(policy, Contextual):
        what = "it and its log differ in groups"
    else:
        return None
    return f"{row.name}: its configuration is damaged ({what}): restore another backup"


def _check_stored(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Refuse what could not have been created, by the checks that creating it runs."""
    terms, ordered = Terms.read(row.config), sorted(arms, key=lambda arm: arm.place)
    if [arm.place for arm in ordered] != list(range(len(ordered))):
        raise UserError("some of its arms are missing")
    if row.status not in STATUSES or any(arm.status not in (OPEN, RETIRED) for arm in ordered):
        raise UserError("a status is unknown")
    if not (0 <= row.default_arm < len(ordered) and ordered[row.default_arm].status == OPEN):
        raise UserError("its default arm is no open arm")
    check_int("created_hour", row.created_hour, 0, MAX_MINUTE // 60)
    check_int("forgotten", row.forgotten, 0, MAX_MINUTE)
    told = msgspec.to_builtins(terms)
    told |= {"name": row.name, "default_arm": ordered[row.default_arm].name}
    told["arms"] = [{"name": arm.name, "payload": json.loads(arm.payload)} for arm in ordered]
    check_experiment(msgspec.convert(told, ExperimentConfig))
    terms.check(sum(arm.status == OPEN for arm in ordered), len(ordered))


def check_limits(report_after: int, expires_after: int) -> None:
    """Refuse times in which no device takes part: they would let the moment of a report tell what is in it."""
    least, most = int(LIMITS.min_report_after), int(LIMITS.max_expiry)
    if report_after < least:
        raise WrongValueError("report_after", report_after, f"at least {least} seconds: devices refuse less")
    least = report_after + int(LIMITS.min_window)
    if not least <= expires_after <= most:
        wanted = f"{least} to {most} seconds with report_after = {report_after}: devices refuse less and more"
        raise WrongValueError("expires_after", expires_after, wanted)


def check_standing(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Refuse an experiment that could not go on as it would stand."""
    Terms.read(row.config).check(sum(arm.status == OPEN for arm in arms), len(arms))
