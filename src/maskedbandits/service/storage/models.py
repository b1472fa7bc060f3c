"""What a store takes and gives: rows without behaviour, and the words that may stand in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DUPLICATE, LATE, UNKNOWN = 0, -1, -2  # what `append` answers for a report that has no number
DECISION, VISITOR = 11, 16  # bytes of a decision's id, and of a visitor's
DAY = 24 * 60  # minutes
LAST_MINUTE = (1 << 32) // 60 - 30 * DAY  # in which the token that lives longest still expires in four bytes of seconds
STATUSES = ("running", "paused", "archived")
OPEN, RETIRED = "open", "retired"


class NewArm(NamedTuple):
    """An arm of an experiment that is created; its payload is JSON text."""

    name: str
    payload: str = "null"


class NewReport(NamedTuple):
    """A report that a token vouches for: epsilon in millionths, probability in 65536ths, times in minutes and hours.

    Where there are groups nobody knows the arm, nor how likely it was; the bit is the answer to the question then.
    """

    experiment: int
    arm: int | None
    bit: int
    epsilon: int
    probability: int | None
    flags: int
    decision: bytes
    expires: int
    hour: int
    config: int | None = None  # the last 16 bits of its version when it was decided
    question: bytes | None = None  # as ``cache_key.py`` writes it


class ExperimentRow(NamedTuple):
    """An experiment as it is now; how it was created says the first event of its log."""

    id: int
    name: str
    status: str
    config: str
    config_version: int
    seq: int
    default_arm: int
    created_hour: int
    forgotten: int  # reports that expire in this minute or before are late, whatever a clock says


class Standing(NamedTuple):
    """How far the logs have come, by experiment; the last minute that any has forgotten; what time the store has."""

    heads: dict[int, int]
    forgotten: int
    now: float | None  # None: the store has no clock


class ArmRow(NamedTuple):
    """An arm; its place and its name are never used again."""

    place: int
    name: str
    payload: str
    status: str


class EventRow(NamedTuple):
    """An event of the log: "report", or "create", "arm", "retire", "config", "status" with a detail, as JSON text."""

    seq: int
    kind: str
    arm: int | None
    bit: int | None
    epsilon: int | None
    probability: int | None
    flags: int | None
    expires: int | None  # None as soon as it is forgotten
    hour: int
    detail: str | None
    config: int | None = None
    question: bytes | None = None


class SnapshotRow(NamedTuple):
    """A state after so many events, of use to the kernels of this name."""

    seq: int
    kernel: str
    body: bytes
    sha256: str


class KeyRow(NamedTuple):
    """A key to the service: what is kept is a digest of it, and when (in hours) it was made and revoked."""

    id: str
    role: str
    digest: bytes
    created: int
    revoked: int | None


class Visit(NamedTuple):
    """A visitor who is given a token, unless an earlier one has not expired; both times are minutes.

    ``instead`` is an earlier token that is of no more use: it is replaced, unless somebody else has done so already.
    """

    experiment: int
    visitor: bytes
    token: bytes
    expires: int
    now: int
    instead: bytes = b""


@dataclass(frozen=True)
class Change:
    """A change of an experiment: "arm" (name, payload), "retire" (place), "config" (and default_arm) or "status".

    Of the configuration those members are told that change, and are merged into what stands in the store.
    """

    kind: str
    hour: int
    name: str = ""
    payload: str = "null"  # JSON text
    place: int = 0
    config: str = "{}"  # JSON text
    default_arm: int | None = None  # it stays
    status: str = ""
