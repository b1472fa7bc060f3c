"""Requests over HTTP as types, and the messages for bodies that do not fit them.

What is asked over HTTP: every request as a type, and what an experiment may look like.

msgspec reads and writes them, and their JSON schemas are what `/openapi.json` shows. What is wrong with a request is
said in one line, and never repeats more of it than the name of a field.

What is wrong with a body, in words: which fields and values are known, and what a pattern means.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, inspect

from maskedbandits.errors import UserError, WrongValueError, check_int, line, nearest, number
from maskedbandits.privacy.exact import MAX_EPSILON

MILLION = 1_000_000
MOST_ARMS = 1 << 16  # a token has two bytes for an arm
MOST_DECISIONS = 1000  # in one request
MOST_REPORTS = 1000  # likewise
MOST_GROUPS = 256
LONGEST_NAME = 200  # letters of an arm's, or a group's, name
LONGEST_VISITOR = 500
DAY = 86_400
SLUG = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$(?!\n)"  # to Python, $ is also before a newline; \Z is not JSON schema's

Slug = Annotated[
    str, Meta(pattern=SLUG, description="Letters a to z, digits and hyphens, at most 64, with a hyphen at neither end.")
]
ArmName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Epsilon = Annotated[
    float, Meta(gt=0, le=MAX_EPSILON, description="Of one report; a multiple of a millionth.", examples=[1.0])
]
GroupNames = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]], Meta(min_length=2, max_length=MOST_GROUPS)
]
Shares = Annotated[list[Annotated[float, Meta(gt=0, le=1)]], Meta(min_length=2, max_length=MOST_GROUPS)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[int, Meta(ge=0, le=30 * DAY)]  # how few of them devices accept, see terms.check_limits
Lifetime = Annotated[int, Meta(ge=1, le=30 * DAY)]
Status = Literal["running", "paused", "archived"]
SOURCE_WINDOW = 1000  # consecutive reports, of which a source limit speaks
OfSources = Annotated[int, Meta(ge=1, lt=SOURCE_WINDOW)] | None


class NewArm(Struct, forbid_unknown_fields=True, frozen=True):
    """An option: its name is never used again in its experiment; the payload is handed to whoever shall see it."""

    name: ArmName
    payload: Any = None


class SourceLimit(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """How many of any 1,000 consecutive reports that the experiment learns from may have the same source.

    `address` is an address block, IPv4 /24 or IPv6 /48. `second` is the second in which a report arrives.
    """

    address: OfSources = None
    key: OfSources = None
    second: OfSources = None


class ExperimentConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """An experiment, as it is asked for."""

    name: Slug
    arms: Annotated[list[NewArm], Meta(min_length=1, max_length=MOST_ARMS)]
    epsilon: Epsilon
    policy: str = "auto"
    parameters: dict[str, Any] = {}
    report_after: Annotated[Seconds, Meta(description="Seconds from a decision until its report, at least 60.")] = 60
    expires_after: Annotated[
        Lifetime, Meta(description="Seconds from a decision until a report is late; at least report_after + 3600.")
    ] = DAY
    floor: Annotated[Share, Meta(description="Least share of every arm, rounded up to 1024ths.")] = 0.0
    holdout: Annotated[Share, Meta(description="Share that gets the default arm, rounded up to 1024ths.")] = 0.0
    default_arm: Annotated[ArmName | None, Meta(description="The first, unless given.")] = None
    groups: Annotated[
        GroupNames | None, Meta(description="Kinds of people, whom nobody but their own device tells apart.")
    ] = None
    shares: Annotated[Shares | None, Meta(description="Of the groups, together 1; equal ones, unless given.")] = None
    source_limit: Annotated[SourceLimit | None, Meta(description="No limit, unless given.")] = None


class ExperimentChange(Struct, forbid_unknown_fields=True, frozen=True):
    """What may change in an experiment; what is left out stays."""

    status: Status | UnsetType = UNSET
    epsilon: Epsilon | UnsetType = UNSET
    report_after: Seconds | UnsetType = UNSET
    expires_after: Lifetime | UnsetType = UNSET
    floor: Share | UnsetType = UNSET
    holdout: Share | UnsetType = UNSET
    default_arm: ArmName | UnsetType = UNSET
    source_limit: SourceLimit | UnsetType | None = UNSET  # as a whole; null for no limit

    def given(self) -> dict[str, Any]:
        """Return what is to change, as plain values."""
        values = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        return {name: msgspec.to_builtins(value) for name, value in values.items()}


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """Ask for one decision, or for n; a visitor who asks again is shown the same arm, under the same token.

    A device whose cap is reached says `participate: false`. It gets an arm and never a token, not even its visitor's
    earlier one, and no report is awaited.
    """

    n: Annotated[int, Meta(ge=1, le=MOST_DECISIONS)] | None = None
    eligible_arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST_ARMS)] | None = None
    visitor: Annotated[str, Meta(min_length=1, max_length=LONGEST_VISITOR)] | None = None
    participate: bool = True  # False: what is shown will not be reported, as when a device's cap is reached


class BitRequest(Struct, forbid_unknown_fields=True):
    """A masked bit; epsilon only if it was masked with a smaller one than the decision's."""

    token: str
    bit: int
    epsilon: float | None = None


class AnswerRequest(Struct, forbid_unknown_fields=True):
    """Where there are groups, a masked answer: 0 or 1, or, if there were no signs, 2 times the group and the reward."""

    token: str
    answer: int
    epsilon: float | None = None


class ReportRequest(Struct, forbid_unknown_fields=True):
    """One of several reports: a bit or, where there are groups, an answer."""

    token: str
    bit: int | None = None
    epsilon: float | None = None
    answer: int | None = None


class ReportBody(Struct, forbid_unknown_fields=True):
    """What is read in one go: a report, or several."""

    token: str | None = None
    bit: int | None = None
    epsilon: float | None = None
    answer: int | None = None
    reports: Annotated[list[ReportRequest], Meta(min_length=1, max_length=MOST_REPORTS)] | None = None


class LooseBody(Struct, forbid_unknown_fields=True):
    """Reports of which one at least does not fit: each is to be read by itself."""

    token: str | None = None
    bit: Raw = Raw()
    epsilon: Raw = Raw()
    answer: Raw = Raw()
    reports: Annotated[list[Raw], Meta(min_length=1, max_length=MOST_REPORTS)] | None = None


class TokenAlone(Struct):
    """What is needed of a report to say whose it is, whatever else it has."""

    token: str


class ReportsRequest(Struct, forbid_unknown_fields=True):
    """Several reports at once; each has a status of its own."""

    reports: Annotated[list[ReportRequest], Meta(min_length=1, max_length=MOST_REPORTS)]


NO_BIT = -1  # in place of what is none
NAMELESS = ReportRequest("", NO_BIT)  # in place of a report without a token


def millionths(name: str, epsilon: float) -> int:
    """Return an epsilon in millionths, which a token can carry without rounding; refuse any other."""
    found = round(number(name, epsilon, 0, MAX_EPSILON, above=True) * MILLION)
    if found / MILLION != epsilon:  # both sides are the float that is nearest to the same decimal
        raise WrongValueError(name, epsilon, "a multiple of one millionth")
    return found


def check_experiment(config: ExperimentConfig) -> None:
    """Refuse what its types alone do not; whether the policy is offered is asked elsewhere."""
    millionths("epsilon", config.epsilon)
    names = [arm.name for arm in config.arms]
    for arm in config.arms:
        check_arm(arm)
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise UserError(f"two arms are called {twice!r}: give each a name of its own")
    if config.default_arm is not None and config.default_arm not in names:
        some = nearest(config.default_arm, names[:20])  # to compare it with thousands would take long
        raise UserError(f"default_arm = {config.default_arm!r} is none of the arms{some}")
    check_times(config.report_after, config.expires_after)


def check_groups(groups: list[str]) -> None:
    """Refuse names of groups that are no names, or one of two."""
    if not 2 <= len(groups) <= MOST_GROUPS:
        raise UserError(f"groups: give the names of 2 to {MOST_GROUPS}, or leave them out")
    for name in groups:
        line("groups", name)
    if len(set(groups)) < len(groups):
        twice = Counter(groups).most_common(1)[0][0]
        raise UserError(f"two groups are called {twice!r}: give each a name of its own")


def check_arm(arm: NewArm) -> None:
    """Refuse a name that a terminal or a page could not show on one line."""
    line("name", arm.name)


def check_source_limit(limit: SourceLimit) -> None:
    """Refuse a limit that limits nothing, or by numbers that it cannot have."""
    given = {name: value for name in limit.__struct_fields__ if (value := getattr(limit, name)) is not None}
    if not given:
        raise UserError("source_limit is empty: give address, key or second, or null for no limit")
    for name, value in given.items():
        check_int(f"source_limit.{name}", value, 1, SOURCE_WINDOW - 1)


def check_times(report_after: int, expires_after: int) -> None:
    """Refuse tokens that expire before their report is due."""
    if expires_after <= report_after:
        raise WrongValueError("expires_after", expires_after, f"more seconds than report_after = {report_after}")


Read = TypeVar("Read")


class Reader(Generic[Read]):
    """Reads JSON as one type; the complaint is one line."""

    def __init__(self, wanted: type[Read]) -> None:
        self._wanted, self._decode = wanted, msgspec.json.Decoder(wanted).decode

    def __call__(self, body: bytes) -> Read:
        """Return what a body says."""
        try:
            return self._decode(body)
        except RecursionError:
            raise UserError("the body is nested too deeply: send plain JSON") from None
        except msgspec.ValidationError as error:
            return self._unfit(body, error)
        except ValueError as error:  # not JSON, or not UTF-8
            raise UserError(no_json(body, error)) from None

    def _unfit(self, body: bytes, error: msgspec.ValidationError) -> Read:
        """Say what does not fit."""
        raise UserError(unfit(self._wanted, str(error))) from None


class ReportReader(Reader[ReportBody]):
    """Reads reports; one that does not fit is one without a bit, and keeps no other from being taken."""

    def __init__(self) -> None:
        super().__init__(ReportBody)
        self._loosely = Reader(LooseBody)
        self._one, self._named = msgspec.json.Decoder(ReportRequest).decode, msgspec.json.Decoder(TokenAlone).decode

    def _unfit(self, body: bytes, error: msgspec.ValidationError) -> ReportBody:
        """Read a body whose reports do not all fit; anything else about it is refused."""
        loose = self._loosely(body)
        is_given = any(bytes(each) for each in (loose.bit, loose.epsilon, loose.answer))
        reports = None if loose.reports is None else [self._alone(each) for each in loose.reports]
        return ReportBody(loose.token, NO_BIT if is_given else None, reports=reports)

    def _alone(self, report: Raw) -> ReportRequest:
        """Return one report of several."""
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._one(report)
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ReportRequest(self._named(report).token, NO_BIT)
        return NAMELESS


AT = r"(?: - at `(?P<path>\$[^`]*)`)?$"
UNKNOWN = re.compile(r"Object contains unknown field `(?P<what>.*?)`" + AT, re.DOTALL)
PATTERN = re.compile(r"Expected `str` matching regex .*?" + AT, re.DOTALL)
VALUE = re.compile(r"Invalid enum value (?P<what>.*?)" + AT, re.DOTALL)
STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")  # of a character


def unfit(wanted: Any, text: str) -> str:
    """Return what does not fit a type, by what msgspec says of it."""
    if found := UNKNOWN.match(text):
        path, what = found["path"] or "$", found["what"]
        kind = _bare(_at(wanted, path))
        known = [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []
        where = "" if path == "$" else f" of {path.removeprefix('$.')}"
        return f"no field{where} is called {what!r}{nearest(what, known)}"
    if (found := VALUE.match(text)) and isinstance(
        kind := _bare(_at(wanted, found["path"] or "$")), inspect.LiteralType
    ):
        return f"the body does not fit: {text}{nearest(found['what'][1:-1], map(str, kind.values))}"
    if (found := PATTERN.match(text)) and isinstance(kind := _at(wanted, found["path"] or "$"), inspect.Metadata):
        described = (kind.extra_json_schema or {}).get("description", "")
        return (
            f"the body does not fit: `{found['path']}` is to be of {described[:1].lower()}{described[1:].rstrip('.')}"
        )
    return f"the body does not fit: {text}"


def no_json(body: bytes, error: ValueError) -> str:
    """Return why a body is not JSON."""
    if not body.strip():
        what = "it is empty"
    elif not isinstance(error, msgspec.DecodeError):
        what = "it is not UTF-8"
    elif HALF.search(body):
        what = r"half a character is in it, such as \ud83d without its other half"
    else:
        what = str(error).partition("\n")[0]
    return f"the body is not JSON: {what}; send a JSON object"


def _at(wanted: Any, path: str) -> inspect.Type:
    """Return the type of what is at a path, such as `$.arms[0]`."""
    kind = inspect.type_info(wanted)
    for name in STEP.findall(path):
        kind = _bare(kind)
        if isinstance(kind, inspect.StructType):
            kind = next((field.type for field in kind.fields if field.encode_name == name), inspect.AnyType())
        else:
            kind = kind.item_type if isinstance(kind, inspect.ListType) else inspect.AnyType()
    return kind


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without what is said about it, and without that it may be left out."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind
