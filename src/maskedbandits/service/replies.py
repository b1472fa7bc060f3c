"""What is answered over HTTP: every answer as a type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from maskedbandits.service.schemas import SourceLimit, Status

ReportStatus = Literal["accepted", "duplicate", "late", "forged", "foreign", "invalid", "limited", "later"]


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

    status: ReportStatus
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
