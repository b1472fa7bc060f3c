"""The types of all requests and replies over HTTP, and the one-line errors for bodies that do not fit them.

msgspec decodes and encodes them, and ``/openapi.json`` has their JSON schemas: a field is defined here and nowhere
else. Docstrings and descriptions of the types are part of that document. An error repeats no more of a body than the
name of a field.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, inspect

from maskedbandits.errors import UserError, WrongValueError, check_int, check_line, check_number, suggest_nearest
from maskedbandits.privacy.exact import MAX_EPSILON
from maskedbandits.service.report_status import REPORT_STATUSES

if TYPE_CHECKING:
    ReportStatusName = str
else:
    ReportStatusName = Literal[tuple(REPORT_STATUSES)]

MILLION = 1_000_000
MAX_ARMS = 1 << 16  # a token has two bytes for an arm
MAX_DECISIONS = 1000  # in one request
MAX_REPORTS = 1000  # in one request
MAX_GROUPS = 256
MAX_NAME_LENGTH = 200  # of an arm or a group
MAX_VISITOR_LENGTH = 500
DAY_S = 86_400
SLUG = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$(?!\n)"  # to Python, $ is also before a newline; \Z is not JSON schema's

Slug = Annotated[
    str, Meta(pattern=SLUG, description="Letters a to z, digits and hyphens, at most 64, with a hyphen at neither end.")
]
ArmName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Epsilon = Annotated[
    float, Meta(gt=0, le=MAX_EPSILON, description="Of one report; a multiple of a millionth.", examples=[1.0])
]
GroupNames = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]], Meta(min_length=2, max_length=MAX_GROUPS)
]
Shares = Annotated[list[Annotated[float, Meta(gt=0, le=1)]], Meta(min_length=2, max_length=MAX_GROUPS)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[int, Meta(ge=0, le=30 * DAY_S)]  # how few of them devices accept, see `config.check_limits`
Lifetime = Annotated[int, Meta(ge=1, le=30 * DAY_S)]
Status = Literal["running", "paused", "archived"]
SOURCE_WINDOW = 1000  # consecutive reports, to which a source limit applies
OfSources = Annotated[int, Meta(ge=1, lt=SOURCE_WINDOW)] | None


# Requests


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
    arms: Annotated[list[NewArm], Meta(min_length=1, max_length=MAX_ARMS)]
    epsilon: Epsilon
    policy: str = "auto"
    parameters: dict[str, Any] = {}
    report_after: Annotated[Seconds, Meta(description="Seconds from a decision until its report, at least 60.")] = 60
    expires_after: Annotated[
        Lifetime, Meta(description="Seconds from a decision until a report is late; at least report_after + 3600.")
    ] = DAY_S
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that change, as plain values."""
        values = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        return {name: msgspec.to_builtins(value) for name, value in values.items()}


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """Ask for one decision, or for n; a visitor who asks again is shown the same arm, under the same token.

    A device whose cap is reached says `participate: false`. It gets an arm and never a token, not even its visitor's
    earlier one, and no report is awaited.
    """

    n: Annotated[int, Meta(ge=1, le=MAX_DECISIONS)] | None = None
    eligible_arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MAX_ARMS)] | None = None
    visitor: Annotated[str, Meta(min_length=1, max_length=MAX_VISITOR_LENGTH)] | None = None
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
    """Either one report or several, to decode both in one pass."""

    token: str | None = None
    bit: int | None = None
    epsilon: float | None = None
    answer: int | None = None
    reports: Annotated[list[ReportRequest], Meta(min_length=1, max_length=MAX_REPORTS)] | None = None


class LooseBody(Struct, forbid_unknown_fields=True):
    """Reports of which at least one is malformed: each is decoded by itself."""

    token: str | None = None
    bit: Raw = Raw()
    epsilon: Raw = Raw()
    answer: Raw = Raw()
    reports: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_REPORTS)] | None = None


class TokenAlone(Struct):
    """The token of a report that is otherwise malformed."""

    token: str


class ReportsRequest(Struct, forbid_unknown_fields=True):
    """Several reports at once; each has a status of its own."""

    reports: Annotated[list[ReportRequest], Meta(min_length=1, max_length=MAX_REPORTS)]


# Replies


class DecisionAnswer(Struct):
    """What to show; `token` is for the one report that may follow. Without one (`participate` false), none may."""

    token: str | None
    arm: str
    payload: Any
    epsilon: float
    report_at: Annotated[int, Meta(description="Unix seconds; the device adds a delay of its own.")]
    expires: Annotated[int, Meta(description="Unix seconds, after which a report is late.")]
    probability: Annotated[float, Meta(gt=0, le=1)]
    participate: bool


class QuestionAnswer(Struct):
    """What to show where there are groups: the arm of one's own; nobody else learns which that is.

    The report is one bit, the reward turned round if the group's sign is 1, or, without signs, one of 2 G answers:
    either is masked. Payloads are of all arms alike, so that to fetch them tells nothing.
    """

    token: str | None
    arms: Annotated[list[str], Meta(description="An arm for each group, in their order.")]
    signs: Annotated[list[int] | None, Meta(description="For each group; none if the answer is one of 2 G.")]
    payloads: Annotated[dict[str, Any], Meta(description="Of all open arms, by name.")]
    epsilon: float
    report_at: Annotated[int, Meta(description="Unix seconds; the device adds a delay of its own.")]
    expires: Annotated[int, Meta(description="Unix seconds, after which a report is late.")]
    participate: bool


class DecisionsAnswer(Struct):
    """As many decisions as were asked for."""

    decisions: list[DecisionAnswer]


class QuestionsAnswer(Struct):
    """As many decisions as were asked for, where there are groups."""

    decisions: list[QuestionAnswer]


class ReportAnswer(Struct, omit_defaults=True):
    """What became of a report; `error` says why it was refused."""

    status: ReportStatusName
    error: str | UnsetType = UNSET


class ReportsAnswer(Struct):
    """What became of each report, in the order in which they came."""

    results: list[ReportAnswer]


class ArmAnswer(Struct):
    """An arm of an experiment."""

    place: int
    name: str
    payload: Any
    status: Literal["open", "retired"]


class ExperimentAnswer(Struct):
    """An experiment."""

    name: str
    status: Status
    epsilon: float
    policy: str
    parameters: dict[str, Any]
    report_after: int
    expires_after: int
    floor: float
    holdout: float
    default_arm: str
    config_version: int
    seq: int
    created_hour: int
    arms: list[ArmAnswer]
    groups: Annotated[list[str] | None, Meta(description="None if there are no groups.")] = None
    shares: Annotated[list[float] | None, Meta(description="As given; none if they were not.")] = None
    source_limit: Annotated[SourceLimit | None, Meta(description="None if there is no limit.")] = None


class Summary(Struct):
    """An experiment in a list."""

    name: str
    status: Status
    policy: str
    epsilon: float
    arms: Annotated[int, Meta(description="How many are open.")]
    seq: int
    config_version: int
    created_hour: int


class ExperimentsAnswer(Struct):
    """All experiments, archived ones among them."""

    experiments: list[Summary]


class StateAnswer(Struct):
    """What an experiment has learnt from its log up to event `seq`; lists are by arm, in their places."""

    seq: int
    digest: Annotated[str, Meta(description="Of all that the log determines: maskedbandits replay can prove it.")]
    kernel: Annotated[str, Meta(description="What reckons: another may differ in the last bit.")]
    arms: list[str]
    observations: int
    alarms: Annotated[int, Meta(description="How many changes it has seen.")]
    estimates: list[float | None]
    intervals: list[list[float | None]]
    suspects: Annotated[list[bool], Meta(description="Arms whose reports no honest crowd gives.")]
    probabilities: list[float]
    pending: Annotated[list[int], Meta(description="Decisions that still await their report.")]
    reported: Annotated[list[int], Meta(description="Reports ever taken.")]
    held_back: Annotated[int, Meta(description="Reports over a source limit, from which no policy learns.")]
    issued: Annotated[list[int], Meta(description="Decisions ever made.")]
    missing: Annotated[list[int], Meta(description="Decisions that nobody reported in time.")]
    refused: Annotated[dict[str, int], Meta(description="Reports that were not taken, by reason.")]


class GroupsStateAnswer(Struct):
    """What an experiment with groups has learnt: by group, and then by arm.

    Nobody knows which arms were shown: so decisions and reports are counted for all arms together, in lists of one.
    """

    seq: int
    digest: str
    kernel: str
    arms: list[str]
    groups: list[str]
    answers: Annotated[str, Meta(description="What an answer is that tells groups apart: a bit, or one of many.")]
    shares: Annotated[list[float], Meta(description="As given, or as answers of one of many tell them, or equal ones.")]
    pooled: Annotated[float, Meta(description="How likely the next question is to treat all groups as one.")]
    observations: int
    alarms: Annotated[int, Meta(description="How many changes the policies of all groups have seen.")]
    estimates: list[list[float | None]]
    intervals: list[list[list[float | None]]]
    suspects: list[list[bool]]
    probabilities: list[list[float]]
    pending: list[int]
    reported: list[int]
    held_back: int
    issued: list[int]
    missing: list[int]
    refused: dict[str, int]


class Complaint(Struct):
    """Why a request was refused, in one line."""

    error: str


INVALID_BIT = -1  # in place of a malformed value
WITHOUT_TOKEN = ReportRequest("", INVALID_BIT)  # in place of a report without a token


def to_millionths(name: str, epsilon: float) -> int:
    """Return an epsilon in millionths, or refuse one that is no whole number of them: tokens carry no other."""
    rounded = round(check_number(name, epsilon, 0, MAX_EPSILON, above=True) * MILLION)
    if rounded / MILLION != epsilon:  # both sides are the float that is nearest to the same decimal
        raise WrongValueError(name, epsilon, "a multiple of one millionth")
    return rounded


def check_experiment(config: ExperimentConfig) -> None:
    """Check what types alone cannot; `config.py` checks the policy."""
    to_millionths("epsilon", config.epsilon)
    names = [arm.name for arm in config.arms]
    for arm in config.arms:
        check_arm(arm)
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise UserError(f"two arms are called {twice!r}: give each a name of its own")
    if config.default_arm is not None and config.default_arm not in names:
        some = suggest_nearest(config.default_arm, names[:20])  # comparing thousands of names would take long
        raise UserError(f"default_arm = {config.default_arm!r} is none of the arms{some}")
    check_times(config.report_after, config.expires_after)


def check_groups(groups: list[str]) -> None:
    """Check the number of groups and their names."""
    if not 2 <= len(groups) <= MAX_GROUPS:
        raise UserError(f"groups: give the names of 2 to {MAX_GROUPS}, or leave them out")
    for name in groups:
        check_line("groups", name)
    if len(set(groups)) < len(groups):
        twice = Counter(groups).most_common(1)[0][0]
        raise UserError(f"two groups are called {twice!r}: give each a name of its own")


def check_arm(arm: NewArm) -> None:
    """Check that a name fits on one line of a terminal or a page."""
    check_line("name", arm.name)


def check_source_limit(limit: SourceLimit) -> None:
    """Check that a limit has a value, and that all its values are in range."""
    given = {name: value for name in limit.__struct_fields__ if (value := getattr(limit, name)) is not None}
    if not given:
        raise UserError("source_limit is empty: give address, key or second, or null for no limit")
    for name, value in given.items():
        check_int(f"source_limit.{name}", value, 1, SOURCE_WINDOW - 1)


def check_times(report_after: int, expires_after: int) -> None:
    """Check that reports are due before their tokens expire."""
    if expires_after <= report_after:
        raise WrongValueError("expires_after", expires_after, f"more seconds than report_after = {report_after}")


T = TypeVar("T")


class BodyDecoder(Generic[T]):
    """Decodes JSON as one type, with errors in one line."""

    def __init__(self, wanted: type[T]) -> None:
        self._wanted, self._decode = wanted, msgspec.json.Decoder(wanted).decode

    def __call__(self, body: bytes) -> T:
        """Decode a body."""
        try:
            return self._decode(body)
        except RecursionError:
            raise UserError("the body is nested too deeply: send plain JSON") from None
        except msgspec.ValidationError as error:
            return self._handle_mismatch(body, error)
        except ValueError as error:  # not JSON, or not UTF-8
            raise UserError(explain_syntax(body, error)) from None

    def _handle_mismatch(self, body: bytes, error: msgspec.ValidationError) -> T:
        """Raise the error for JSON of another type."""
        raise UserError(explain_mismatch(self._wanted, str(error))) from None


class ReportDecoder(BodyDecoder[ReportBody]):
    """Decodes reports. A malformed one gets an invalid bit, so that the others of its batch are still accepted."""

    def __init__(self) -> None:
        super().__init__(ReportBody)
        self._decode_loosely = BodyDecoder(LooseBody)
        self._decode_one = msgspec.json.Decoder(ReportRequest).decode
        self._decode_token = msgspec.json.Decoder(TokenAlone).decode

    def _handle_mismatch(self, body: bytes, error: msgspec.ValidationError) -> ReportBody:
        """Decode each report by itself; refuse any other mismatch."""
        loose = self._decode_loosely(body)
        has_values = any(bytes(each) for each in (loose.bit, loose.epsilon, loose.answer))
        reports = None if loose.reports is None else [self._decode_report(each) for each in loose.reports]
        return ReportBody(loose.token, INVALID_BIT if has_values else None, reports=reports)

    def _decode_report(self, report: Raw) -> ReportRequest:
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._decode_one(report)
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return ReportRequest(self._decode_token(report).token, INVALID_BIT)
        return WITHOUT_TOKEN


# Errors, from the messages of msgspec
AT_PATH = r"(?: - at `(?P<path>\$[^`]*)`)?$"
UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<what>.*?)`" + AT_PATH, re.DOTALL)
WRONG_PATTERN = re.compile(r"Expected `str` matching regex .*?" + AT_PATH, re.DOTALL)
WRONG_CHOICE = re.compile(r"Invalid enum value (?P<what>.*?)" + AT_PATH, re.DOTALL)
PATH_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")
HALF_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def explain_mismatch(wanted: Any, text: str) -> str:
    """Return the error for JSON that does not have the wanted type."""
    if found := UNKNOWN_FIELD.match(text):
        path, what = found["path"] or "$", found["what"]
        kind = _unwrap(_type_at(wanted, path))
        known = [field.encode_name for field in kind.fields] if isinstance(kind, inspect.StructType) else []
        where = "" if path == "$" else f" of {path.removeprefix('$.')}"
        return f"no field{where} is called {what!r}{suggest_nearest(what, known)}"
    if found := WRONG_CHOICE.match(text):
        kind = _unwrap(_type_at(wanted, found["path"] or "$"))
        if isinstance(kind, inspect.LiteralType):
            return f"the body does not fit: {text}{suggest_nearest(found['what'][1:-1], map(str, kind.values))}"
    if found := WRONG_PATTERN.match(text):
        kind = _type_at(wanted, found["path"] or "$")
        if isinstance(kind, inspect.Metadata):
            hint = (kind.extra_json_schema or {}).get("description", "")
            return f"the body does not fit: `{found['path']}` is to be of {hint[:1].lower()}{hint[1:].rstrip('.')}"
    return f"the body does not fit: {text}"


def explain_syntax(body: bytes, error: ValueError) -> str:
    """Return the error for a body that is not JSON."""
    if not body.strip():
        what = "it is empty"
    elif not isinstance(error, msgspec.DecodeError):
        what = "it is not UTF-8"
    elif HALF_SURROGATE.search(body):
        what = r"half a character is in it, such as \ud83d without its other half"
    else:
        what = str(error).partition("\n")[0]
    return f"the body is not JSON: {what}; send a JSON object"


def _type_at(wanted: Any, path: str) -> inspect.Type:
    """Return the type at a path such as `$.arms[0]`."""
    kind = inspect.type_info(wanted)
    for name in PATH_STEP.findall(path):
        kind = _unwrap(kind)
        if isinstance(kind, inspect.StructType):
            kind = next((field.type for field in kind.fields if field.encode_name == name), inspect.AnyType())
        else:
            kind = kind.item_type if isinstance(kind, inspect.ListType) else inspect.AnyType()
    return kind


def _unwrap(kind: inspect.Type) -> inspect.Type:
    """Return a type without its metadata, and without None."""
    if isinstance(kind, inspect.Metadata):
        return _unwrap(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _unwrap(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind
