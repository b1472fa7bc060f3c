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
from maskedbandits.service.problems import PROBLEMS
from maskedbandits.service.report_status import REPORT_STATUSES

if TYPE_CHECKING:
    ReportStatusName = str
    ProblemCode = str
else:
    ReportStatusName = Literal[tuple(REPORT_STATUSES)]
    ProblemCode = Literal[tuple(PROBLEMS)]

MILLION = 1_000_000
MAX_ARMS = 1 << 16  # a token has two bytes for an arm
MAX_DECISIONS = 1000  # in one request
MAX_REPORTS = 1000  # in one request
MAX_GROUPS = 256
MAX_NAME_LENGTH = 200  # of an arm or a group
MAX_VISITOR_LENGTH = 500
DAY_S = 86_400
CREATED = "The hour of its creation, in ISO 8601. The store keeps no finer time."
SLUG = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$(?!\n)"  # to Python, $ is also before a newline; \Z is not JSON schema's

Slug = Annotated[
    str, Meta(pattern=SLUG, description="Letters a to z, digits and hyphens, at most 64, with a hyphen at neither end.")
]
ArmName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Epsilon = Annotated[
    float,
    Meta(gt=0, le=MAX_EPSILON, description="Epsilon of one report, in millionths.", examples=[1.0]),
]
GroupNames = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]], Meta(min_length=2, max_length=MAX_GROUPS)
]
Shares = Annotated[list[Annotated[float, Meta(gt=0, le=1)]], Meta(min_length=2, max_length=MAX_GROUPS)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[int, Meta(ge=0, le=30 * DAY_S)]  # how few of them devices accept, see `config.check_limits`
Lifetime = Annotated[int, Meta(ge=1, le=30 * DAY_S)]
DecideWith = Literal["device", "backend"]
Status = Literal["running", "paused", "archived"]
SOURCE_WINDOW = 1000  # consecutive reports, to which a source limit applies
OfSources = Annotated[int, Meta(ge=1, lt=SOURCE_WINDOW)] | None


# Requests


class NewArm(Struct, forbid_unknown_fields=True, frozen=True):
    """An option of an experiment."""

    name: Annotated[ArmName, Meta(description="Its name, which is never used again in the experiment.")]
    payload: Annotated[Any, Meta(description="Any JSON. Devices receive it with the arm.")] = None


class ArmChange(Struct, forbid_unknown_fields=True, frozen=True):
    """A change of an arm."""

    payload: Annotated[Any, Meta(description="Any JSON, which replaces the payload.")]


class SourceLimit(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """How many of any 1,000 consecutive reports may come from the same source.

    `address` is an address block, IPv4 /24 or IPv6 /48. `second` is the second in which a report arrives.
    """

    address: Annotated[OfSources, Meta(description="From one address block.")] = None
    key: Annotated[OfSources, Meta(description="With one key.")] = None
    second: Annotated[OfSources, Meta(description="In one second.")] = None


class ExperimentConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """An experiment to create."""

    name: Slug
    arms: Annotated[list[NewArm], Meta(min_length=1, max_length=MAX_ARMS, description="The options to choose from.")]
    epsilon: Epsilon
    policy: Annotated[str, Meta(description="The policy that learns.")] = "auto"
    parameters: Annotated[dict[str, Any], Meta(description="Parameters of the policy.")] = {}
    report_after: Annotated[Seconds, Meta(description="Seconds from a decision until its report, at least 60.")] = 120
    expires_after: Annotated[
        Lifetime, Meta(description="Seconds from a decision until a report is late; at least report_after + 3600.")
    ] = DAY_S
    floor: Annotated[Share, Meta(description="Least share of every arm, rounded up to 1024ths.")] = 0.0
    holdout: Annotated[Share, Meta(description="Share that gets the default arm, rounded up to 1024ths.")] = 0.0
    default_arm: Annotated[ArmName | None, Meta(description="The arm of the holdout. The first arm, unless given.")] = (
        None
    )
    groups: Annotated[
        GroupNames | None, Meta(description="Names of private groups. Only a person's own device knows the group.")
    ] = None
    shares: Annotated[Shares | None, Meta(description="Share of each group. Equal, unless given.")] = None
    source_limit: Annotated[SourceLimit | None, Meta(description="No limit, unless given.")] = None
    decide_with: Annotated[
        DecideWith, Meta(description="Role that asks for decisions. Reports are open to devices.")
    ] = "device"


class ExperimentChange(Struct, forbid_unknown_fields=True, frozen=True):
    """Changes of an experiment. Fields that you leave out stay as they are."""

    status: Annotated[Status | UnsetType, Meta(description="Archived is final.")] = UNSET
    epsilon: Epsilon | UnsetType = UNSET
    report_after: Annotated[Seconds | UnsetType, Meta(description="Seconds from a decision until its report.")] = UNSET
    expires_after: Annotated[
        Lifetime | UnsetType, Meta(description="Seconds from a decision until a report is late.")
    ] = UNSET
    floor: Annotated[Share | UnsetType, Meta(description="Least share of every arm.")] = UNSET
    holdout: Annotated[Share | UnsetType, Meta(description="Share that gets the default arm.")] = UNSET
    default_arm: Annotated[ArmName | UnsetType, Meta(description="An open arm.")] = UNSET
    source_limit: Annotated[
        SourceLimit | UnsetType | None, Meta(description="Replaces the limit; null removes it.")
    ] = UNSET
    decide_with: Annotated[DecideWith | UnsetType, Meta(description="Role that asks for decisions.")] = UNSET

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that change, as plain values."""
        values = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        return {name: msgspec.to_builtins(value) for name, value in values.items()}


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """A request for one decision, or for n. A visitor who asks again gets the same arm and token.

    A device whose cap is reached sends `participate: false`. It gets an arm without a token, and no report is pending.
    """

    n: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_DECISIONS)] | None,
        Meta(description="How many decisions. The reply then has a list."),
    ] = None
    eligible_arms: Annotated[
        Annotated[list[ArmName], Meta(min_length=1, max_length=MAX_ARMS)] | None,
        Meta(description="The arms to choose among; all open arms, unless given."),
    ] = None
    visitor: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_VISITOR_LENGTH)] | None,
        Meta(description="A random name. The same name gets the same arm and token again."),
    ] = None
    participate: Annotated[
        bool, Meta(description="False if the device sends no report, as when its cap is reached.")
    ] = True


class BitRequest(Struct, forbid_unknown_fields=True):
    """The report of a masked bit."""

    token: Annotated[str, Meta(description="The token of the decision.")]
    bit: Annotated[int, Meta(description="The masked reward, 0 or 1.")]
    epsilon: Annotated[
        float | None, Meta(description="The epsilon of the mask, if it is smaller than the decision's.")
    ] = None


class AnswerRequest(Struct, forbid_unknown_fields=True):
    """The report of a masked answer, where there are groups.

    The answer is 0 or 1. Without signs it is 2 times the group, plus the reward.
    """

    token: Annotated[str, Meta(description="The token of the decision.")]
    answer: Annotated[int, Meta(description="The masked answer.")]
    epsilon: Annotated[
        float | None, Meta(description="The epsilon of the mask, if it is smaller than the decision's.")
    ] = None


class ReportRequest(Struct, forbid_unknown_fields=True):
    """One of several reports: a bit or, where there are groups, an answer."""

    token: Annotated[str, Meta(description="The token of the decision.")]
    bit: Annotated[int | None, Meta(description="The masked reward, 0 or 1.")] = None
    epsilon: Annotated[
        float | None, Meta(description="The epsilon of the mask, if it is smaller than the decision's.")
    ] = None
    answer: Annotated[int | None, Meta(description="The masked answer, where there are groups.")] = None


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
    """Several reports at once. Each gets its own status."""

    reports: Annotated[list[ReportRequest], Meta(min_length=1, max_length=MAX_REPORTS, description="The reports.")]


# Replies


class DecisionAnswer(Struct):
    """A decision: the arm to show, and the token for its report."""

    token: Annotated[
        str | None, Meta(description="For the one report that may follow; null if the device does not participate.")
    ]
    arm: Annotated[str, Meta(description="The name of the arm to show.")]
    payload: Annotated[Any, Meta(description="The payload of the arm.")]
    epsilon: Annotated[float, Meta(description="The epsilon of the report.")]
    report_at: Annotated[int, Meta(description="Unix time of the report, to which the device adds a delay of its own.")]
    expires: Annotated[int, Meta(description="Unix time after which a report is late.")]
    probability: Annotated[float, Meta(gt=0, le=1, description="The probability with which the arm was chosen.")]
    participate: Annotated[bool, Meta(description="Whether a report may follow.")]
    now: Annotated[
        int, Meta(description="Unix time of the reply. Devices wait for report_at less now, whatever their clocks.")
    ]
    experiment: Annotated[Slug, Meta(description="The experiment, so that a device knows an offer of another one.")]
    stored: Annotated[
        Literal[False] | UnsetType,
        Meta(description="False if the store is away, so that an earlier decision for the visitor is not known."),
    ] = UNSET


class QuestionAnswer(Struct):
    """A decision where there are groups: the device shows the arm of its own group.

    With signs, the report is one bit: the reward, flipped if the sign of the group is 1. Without signs, it is one of
    2 G answers. Either is masked. Payloads of all arms come along, so that fetching one reveals no group.
    """

    token: Annotated[
        str | None, Meta(description="For the one report that may follow; null if the device does not participate.")
    ]
    arms: Annotated[list[str], Meta(description="An arm for each group, in their order.")]
    signs: Annotated[list[int] | None, Meta(description="A sign for each group; null if the answer is one of 2 G.")]
    payloads: Annotated[dict[str, Any], Meta(description="The payloads of all open arms, by name.")]
    epsilon: Annotated[float, Meta(description="The epsilon of the report.")]
    report_at: Annotated[int, Meta(description="Unix time of the report, to which the device adds a delay of its own.")]
    expires: Annotated[int, Meta(description="Unix time after which a report is late.")]
    participate: Annotated[bool, Meta(description="Whether a report may follow.")]
    now: Annotated[
        int, Meta(description="Unix time of the reply. Devices wait for report_at less now, whatever their clocks.")
    ]
    experiment: Annotated[Slug, Meta(description="The experiment, so that a device knows an offer of another one.")]
    stored: Annotated[
        Literal[False] | UnsetType,
        Meta(description="False if the store is away, so that an earlier decision for the visitor is not known."),
    ] = UNSET


class DecisionsAnswer(Struct):
    """Several decisions."""

    decisions: Annotated[list[DecisionAnswer], Meta(description="One entry for each decision.")]


class QuestionsAnswer(Struct):
    """Several decisions, where there are groups."""

    decisions: Annotated[list[QuestionAnswer], Meta(description="One entry for each decision.")]


class ReportAnswer(Struct, omit_defaults=True):
    """The status of a report."""

    status: Annotated[ReportStatusName, Meta(description="The status of the report.")]
    error: Annotated[str | UnsetType, Meta(description="Why the report was refused.")] = UNSET


class ReportsAnswer(Struct):
    """The status of each report, in the order of the request."""

    results: Annotated[list[ReportAnswer], Meta(description="One entry for each report.")]


class ArmAnswer(Struct):
    """An arm of an experiment."""

    place: Annotated[int, Meta(description="Its number in the experiment, from 0.")]
    name: Annotated[str, Meta(description="Its name.")]
    payload: Annotated[Any, Meta(description="Its payload.")]
    status: Annotated[Literal["open", "retired"], Meta(description="Retired arms are never shown again.")]


class ExperimentAnswer(Struct):
    """An experiment."""

    name: Annotated[str, Meta(description="Its name.")]
    status: Annotated[Status, Meta(description="Only a running experiment learns.")]
    epsilon: Annotated[float, Meta(description="The epsilon of one report.")]
    policy: Annotated[str, Meta(description="The policy that learns.")]
    parameters: Annotated[dict[str, Any], Meta(description="Parameters of the policy.")]
    report_after: Annotated[int, Meta(description="Seconds from a decision until its report.")]
    expires_after: Annotated[int, Meta(description="Seconds from a decision until a report is late.")]
    floor: Annotated[float, Meta(description="Least share of every arm.")]
    holdout: Annotated[float, Meta(description="Share that gets the default arm.")]
    default_arm: Annotated[str, Meta(description="The arm of the holdout, and of a paused experiment.")]
    config_version: Annotated[int, Meta(description="Counts the changes of the configuration.")]
    seq: Annotated[int, Meta(description="The last event of its log.")]
    created_hour: Annotated[int, Meta(description="Hours since 1970 at its creation.")]
    created: Annotated[str, Meta(description=CREATED)]
    arms: Annotated[list[ArmAnswer], Meta(description="All arms, in their places.")]
    groups: Annotated[list[str] | None, Meta(description="Names of the groups; null if there are none.")] = None
    shares: Annotated[list[float] | None, Meta(description="Shares as given; null if they were not.")] = None
    source_limit: Annotated[SourceLimit | None, Meta(description="The limit; null if there is none.")] = None
    decide_with: Annotated[DecideWith, Meta(description="Role that asks for decisions.")] = "device"


class MissingAnswer(Struct):
    """A test whether arms lose different shares of their reports, over decisions that expired since the process began.

    The evidence reaches 100 with a probability of at most 1 % if arms do not differ, however often you look.
    """

    shares: Annotated[
        list[float | None], Meta(description="Share of missing reports of each arm; null without decisions.")
    ]
    evidence: Annotated[float, Meta(description="How much likelier the counts are if arms differ than if they do not.")]
    p_value: Annotated[float, Meta(description="1 / evidence, at most 1: valid at any time.")]
    warning: Annotated[str | None, Meta(description="What is wrong, from an evidence of 100; null otherwise.")]


class StateAnswer(Struct):
    """The state of an experiment at event `seq` of its log. Lists have an entry for each arm, in their places."""

    seq: Annotated[int, Meta(description="The last event of the log that is in the state.")]
    digest: Annotated[str, Meta(description="A digest of the whole state, which maskedbandits replay proves.")]
    kernel: Annotated[str, Meta(description="The code that calculates. Another may differ in the last bit.")]
    arms: Annotated[list[str], Meta(description="The names of the arms.")]
    observations: Annotated[int, Meta(description="Reports that the policy has learned from.")]
    alarms: Annotated[int, Meta(description="Changes detected.")]
    estimates: Annotated[
        list[float | None], Meta(description="Estimated mean reward of each arm; null without reports.")
    ]
    intervals: Annotated[list[list[float | None]], Meta(description="Lower and upper confidence bound of each arm.")]
    suspects: Annotated[list[bool], Meta(description="Arms whose reports contradict the declared epsilon.")]
    probabilities: Annotated[list[float], Meta(description="The probability with which each arm is chosen next.")]
    pending: Annotated[list[int], Meta(description="Decisions that wait for their report.")]
    reported: Annotated[list[int], Meta(description="Reports received.")]
    held_back: Annotated[int, Meta(description="Reports over a source limit, from which no policy learns.")]
    issued: Annotated[list[int], Meta(description="Decisions made.")]
    missing: Annotated[list[int], Meta(description="Decisions without a report in time.")]
    missing_reports: Annotated[MissingAnswer, Meta(description="Whether arms lose different shares of their reports.")]
    refused: Annotated[dict[str, int], Meta(description="Reports that were rejected, by reason.")]
    poisoning: Annotated[
        list[Literal["unmasked", "surge"]], Meta(description="Signs of fake reports in the last 24 hours.")
    ]


class GroupsStateAnswer(Struct):
    """The state of an experiment with groups. Lists of lists are by group, then by arm.

    The service cannot know which arms were shown. So decisions and reports are counted for all arms together, in lists
    with one entry.
    """

    seq: Annotated[int, Meta(description="The last event of the log that is in the state.")]
    digest: Annotated[str, Meta(description="A digest of the whole state, which maskedbandits replay proves.")]
    kernel: Annotated[str, Meta(description="The code that calculates. Another may differ in the last bit.")]
    arms: Annotated[list[str], Meta(description="The names of the arms.")]
    groups: Annotated[list[str], Meta(description="The names of the groups.")]
    answers: Annotated[str, Meta(description="The kind of answer: a bit, or one of many.")]
    shares: Annotated[list[float], Meta(description="Shares as given, as estimated from answers, or equal.")]
    pooled: Annotated[float, Meta(description="The probability that the next question treats all groups as one.")]
    observations: Annotated[int, Meta(description="Reports that the policies have learned from.")]
    alarms: Annotated[int, Meta(description="Changes detected, by the policies of all groups together.")]
    estimates: Annotated[list[list[float | None]], Meta(description="Estimated mean reward of each arm, by group.")]
    intervals: Annotated[
        list[list[list[float | None]]], Meta(description="Lower and upper confidence bound of each arm, by group.")
    ]
    suspects: Annotated[
        list[list[bool]], Meta(description="Arms whose reports contradict the declared epsilon, by group.")
    ]
    probabilities: Annotated[
        list[list[float]], Meta(description="The probability with which each arm is chosen next, by group.")
    ]
    pending: Annotated[list[int], Meta(description="Decisions that wait for their report.")]
    reported: Annotated[list[int], Meta(description="Reports received.")]
    held_back: Annotated[int, Meta(description="Reports over a source limit, from which no policy learns.")]
    issued: Annotated[list[int], Meta(description="Decisions made.")]
    missing: Annotated[list[int], Meta(description="Decisions without a report in time.")]
    refused: Annotated[dict[str, int], Meta(description="Reports that were rejected, by reason.")]
    poisoning: Annotated[
        list[Literal["unmasked", "surge"]], Meta(description="Signs of fake reports in the last 24 hours.")
    ]


class ProblemAnswer(Struct):
    """An error (RFC 9457), with the media type `application/problem+json`."""

    type: Annotated[str, Meta(description="A path of the service that describes the code.")]
    title: Annotated[str, Meta(description="What the code means.")]
    status: Annotated[int, Meta(description="The HTTP status.")]
    detail: Annotated[str, Meta(description="What is wrong here, and what to do, in one line.")]
    code: Annotated[ProblemCode, Meta(description="The kind of error, for programs. It never changes.")]


INVALID_BIT = -1  # in place of a malformed value
WITHOUT_TOKEN = ReportRequest("", INVALID_BIT)  # in place of a report without a token


def to_millionths(name: str, epsilon: float) -> int:
    """Return an epsilon in millionths. Refuse any other epsilon, because tokens cannot carry it."""
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
        raise UserError(f"two arms are called {twice!r}: give them different names")
    if config.default_arm is not None and config.default_arm not in names:
        some = suggest_nearest(config.default_arm, names[:20])  # comparing thousands of names would take long
        raise UserError(f"default_arm = {config.default_arm!r} is not one of the arms{some}")
    check_times(config.report_after, config.expires_after)


def check_groups(groups: list[str]) -> None:
    """Check the number of groups and their names."""
    if not 2 <= len(groups) <= MAX_GROUPS:
        raise UserError(f"groups: give the names of 2 to {MAX_GROUPS}, or leave them out")
    for name in groups:
        check_line("groups", name)
    if len(set(groups)) < len(groups):
        twice = Counter(groups).most_common(1)[0][0]
        raise UserError(f"two groups are called {twice!r}: give them different names")


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
