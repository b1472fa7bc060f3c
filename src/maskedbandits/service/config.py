"""The configuration of an experiment as the store holds it, and the checks that it has to pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import msgspec
from msgspec import Struct

from maskedbandits._validation import check_parts_of_one
from maskedbandits.contextual import Contextual
from maskedbandits.device.protocol import Timing
from maskedbandits.errors import UserError, WrongValueError, check_int, suggest_nearest
from maskedbandits.policies import Policy, check_policy, kind_of
from maskedbandits.service.arm_selection import PARTS, to_parts
from maskedbandits.service.schemas import (
    MAX_ARMS,
    ExperimentConfig,
    SourceLimit,
    check_experiment,
    check_groups,
    check_source_limit,
    check_times,
    to_millionths,
)
from maskedbandits.service.state import build_policy, check_offered, get_mask
from maskedbandits.service.storage.models import MAX_MINUTE, OPEN, RETIRED, STATUSES, ArmRow, ExperimentRow

MAX_WINDOW = 1_000_000  # reports, which every process and each snapshot holds
MAX_SLOTS = 1 << 24  # the same for policies that hold some reports of each arm
NUMBERS_ONLY = ("sigma", "tail")  # parameters for feedback other than bits
LIBRARY_ONLY = "expire_after"  # in the service a report expires with its token
OPTIONAL_FIELDS = {"groups": None, "shares": None, "source_limit": None, "decide_with": "device"}  # with their defaults
DAMAGE = (UserError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
DEVICE_LIMITS = Timing()
MIN_GROUP_SHARE = 0.00002  # leaves the policy of a group something to learn even at an epsilon of a millionth


class StoredConfig(Struct, frozen=True):
    """The part of an experiment's configuration that decisions and reports depend on."""

    epsilon: float
    policy: str
    parameters: dict[str, Any]
    report_after: int
    expires_after: int
    floor: float
    holdout: float
    groups: list[str] | None = None  # names; neither groups nor shares ever change
    shares: list[float] | None = None
    source_limit: SourceLimit | None = None
    decide_with: str = "device"

    @classmethod
    def from_request(cls, config: ExperimentConfig) -> Self:
        """Return the configuration of a new experiment, after checking it."""
        check_experiment(config)
        stored = cls(**{name: getattr(config, name) for name in cls.__struct_fields__})
        stored.check(len(config.arms), len(config.arms))
        return stored

    @classmethod
    def decode(cls, text: str) -> Self:
        """Decode the text in the store; fields of later versions are ignored."""
        values = json.loads(text)
        known = {name: values[name] for name in cls.__struct_fields__ if name in values or name not in OPTIONAL_FIELDS}
        if (limit := known.get("source_limit")) is not None:
            known["source_limit"] = SourceLimit(**{name: limit.get(name) for name in SourceLimit.__struct_fields__})
        return cls(**known)

    def encode(self) -> str:
        """Return the text for the store."""
        values = msgspec.to_builtins(self)
        used = {
            name: each for name, each in values.items() if name not in OPTIONAL_FIELDS or each != OPTIONAL_FIELDS[name]
        }
        return json.dumps(used)

    @property
    def policies(self) -> int:
        """The number of policies: one, or with groups one for each and one for all."""
        return 1 if self.groups is None else len(self.groups) + 1

    @property
    def epsilon_millionths(self) -> int:
        """Epsilon as tokens carry it."""
        return to_millionths("epsilon", self.epsilon)

    def check(self, open_arms: int, arms: int) -> None:
        """Check everything; ``arms`` counts retired ones, which the policy still has."""
        if arms > MAX_ARMS:
            raise UserError(f"an experiment has at most {MAX_ARMS} arms, retired ones included: create another")
        if arms * self.policies > MAX_ARMS:
            most = MAX_ARMS // self.policies
            raise UserError(f"with {self.policies - 1} groups an experiment has at most {most} arms with retired ones")
        check_times(self.report_after, self.expires_after)
        check_offered(self.policy)
        self._check_groups()
        if self.source_limit is not None:
            check_source_limit(self.source_limit)
        self._check_parameters(arms)
        mask = get_mask(self.epsilon_millionths)
        if mask.slope == 0.0:
            raise UserError(f"epsilon = {self.epsilon}: too small to learn from reports; give a larger one")
        check_policy(self.policy, arms=arms, corruption=mask, **self.parameters)
        self.check_shares(open_arms)

    def _check_groups(self) -> None:
        """Check names and shares of groups."""
        if self.groups is None:
            if self.shares is not None:
                raise UserError("shares require groups: leave out shares, or name groups")
            return
        check_groups(self.groups)
        if (
            self.shares is not None
            and check_parts_of_one("shares", self.shares, len(self.groups)).min() < MIN_GROUP_SHARE
        ):
            raise UserError(f"shares: a group is too small to learn about: give each at least {MIN_GROUP_SHARE}")

    def _check_parameters(self, arms: int) -> None:
        """Check the parameters of the policy, with errors in the terms of the service."""
        kind, given = kind_of(self.policy), self.parameters
        known = [name for name in kind.parameters if name not in (*NUMBERS_ONLY, LIBRARY_ONLY)]
        for name in given:
            if name == LIBRARY_ONLY:
                raise UserError(f"parameter {name!r}: reports expire with their tokens here; set expires_after instead")
            if name not in kind.parameters:  # among them arms and corruption, which have fields of their own
                raise UserError(f"{self.policy} has no parameter {name!r}{suggest_nearest(name, known)}")
            if name in NUMBERS_ONLY and given[name] is not None:
                raise UserError(f"parameter {name!r} requires continuous feedback, and reports are bits: leave it out")
        if "window" in kind.parameters:
            plain = self.policy.removeprefix("sw-")
            most = min(MAX_WINDOW, MAX_SLOTS // self.policies)
            wanted = f"a number of reports, at most {most}; for no limit use policy = {plain!r}"
            _check_count("window", given.get("window"), most, wanted)
        if "width" in kind.parameters:
            most = max(1, MAX_SLOTS // (arms * self.policies))
            _check_count("width", given.get("width", kind.parameters["width"].default), most, f"at most {most}")

    def check_memory(self, arms: int) -> None:
        """Refuse a policy that does not fit into the memory of this process."""
        try:
            build_policy(json.loads(self.encode()), arms)
        except MemoryError:
            what = f"policy = {self.policy!r} for {arms} arms does not fit into memory"
            raise UserError(f"{what}: give fewer arms, or a smaller window") from None

    def check_shares(self, open_arms: int) -> None:
        """Check that floor and holdout leave the policy something to decide."""
        taken = to_parts(self.floor) * open_arms + to_parts(self.holdout)
        if taken >= PARTS:
            raise UserError(
                f"floor = {self.floor} for each of {open_arms} arms and holdout = {self.holdout} are {taken} of "
                f"{PARTS} parts together: leave the policy some, with a lower floor or holdout"
            )


def _check_count(name: str, value: Any, most: int, wanted: str) -> None:
    try:
        check_int(name, value, 1, most)
    except WrongValueError:
        raise WrongValueError(name, value, wanted) from None


def find_fault(row: ExperimentRow, arms: Sequence[ArmRow]) -> str | None:
    """Return why a stored experiment cannot run, such as damage by a disk; None if it can."""
    try:
        _check_stored(row, arms)
    except DAMAGE as error:
        reason = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return f"{row.name}: its configuration is damaged ({str(reason).splitlines()[0]}): restore another backup"
    return None


def find_log_mismatch(row: ExperimentRow, arms: Sequence[ArmRow], policy: Policy | Contextual) -> str | None:
    """Return how an experiment contradicts the policy that its log leads to; None if it does not."""
    if len(arms) < policy.arms:
        what = f"it has {len(arms)} arms, and its log {policy.arms}"
    elif (StoredConfig.decode(row.config).groups is not None) != isinstance(policy, Contextual):
        what = "its groups differ from those of its log"
    else:
        return None
    return f"{row.name}: its configuration is damaged ({what}): restore another backup"


def _check_stored(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Check a stored experiment as a new one is checked."""
    config, ordered = StoredConfig.decode(row.config), sorted(arms, key=lambda arm: arm.place)
    if [arm.place for arm in ordered] != list(range(len(ordered))):
        raise UserError("some of its arms are missing")
    if row.status not in STATUSES or any(arm.status not in (OPEN, RETIRED) for arm in ordered):
        raise UserError("a status is unknown")
    if not (0 <= row.default_arm < len(ordered) and ordered[row.default_arm].status == OPEN):
        raise UserError("its default arm is not an open arm")
    check_int("created_hour", row.created_hour, 0, MAX_MINUTE // 60)
    check_int("forgotten", row.forgotten, 0, MAX_MINUTE)
    values = msgspec.to_builtins(config)
    values |= {"name": row.name, "default_arm": ordered[row.default_arm].name}
    values["arms"] = [{"name": arm.name, "payload": json.loads(arm.payload)} for arm in ordered]
    check_experiment(msgspec.convert(values, ExperimentConfig))
    config.check(sum(arm.status == OPEN for arm in ordered), len(ordered))


def check_limits(report_after: int, expires_after: int) -> None:
    """Check that devices accept the times: with others the moment of a report could reveal its content."""
    least, most = int(DEVICE_LIMITS.min_report_after), int(DEVICE_LIMITS.max_expiry)
    if report_after < least:
        raise WrongValueError("report_after", report_after, f"at least {least} seconds: devices reject less")
    least = report_after + int(DEVICE_LIMITS.min_window)
    if not least <= expires_after <= most:
        wanted = f"{least} to {most} seconds with report_after = {report_after}: devices reject other values"
        raise WrongValueError("expires_after", expires_after, wanted)


def check_changed(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Check an experiment as it is after a change."""
    StoredConfig.decode(row.config).check(sum(arm.status == OPEN for arm in arms), len(arms))
