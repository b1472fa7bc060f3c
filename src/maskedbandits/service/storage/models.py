"""Rows that a store takes and returns, and the limits of their values.

``EventRow`` and ``NewReport`` are the typed views of the log. The columns themselves are defined in ``schema.py``, and
all SQL is derived from these two places.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Never

from maskedbandits.errors import UserError, WrongValueError

DUPLICATE, LATE, UNKNOWN = 0, -1, -2  # answers of `append` for reports that get no number
DECISION_ID_BYTES = 11
MINUTES_PER_DAY = 24 * 60
MAX_NAME_BYTES = 500  # indexes of PostgreSQL take no long texts
# Tokens hold seconds in four bytes and live for at most 30 days.
MAX_MINUTE = (1 << 32) // 60 - 30 * MINUTES_PER_DAY
ARCHIVED = "archived"  # for good: the log takes no more events
STATUSES = ("running", "paused", ARCHIVED)
OPEN, RETIRED = "open", "retired"


class NewArmRow(NamedTuple):
    """An arm of an experiment to create; the payload is JSON text."""

    name: str
    payload: str = "null"


class NewReport(NamedTuple):
    """A report to append: epsilon in millionths, probability in 65,536ths, expiry in minutes.

    In experiments with groups the arm and its probability are unknown, and the bit is the answer to the question.
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
    config: int | None = None  # the last 16 bits of the configuration's version at the decision
    question: bytes | None = None  # as ``service/group_queries.py`` packs it


class ExperimentRow(NamedTuple):
    """An experiment as it is now. The first event of its log says how it was created."""

    id: int
    name: str
    status: str
    config: str
    config_version: int
    seq: int
    default_arm: int
    created_hour: int
    forgotten: int  # reports that expire in this minute or before are late, whatever a clock says
    first_seq: int = 1  # the oldest event that is kept


class StoreStatus(NamedTuple):
    """The last number of each log that can grow, their last forgotten minute, and the time of the store's clock.

    Logs of archived experiments do not grow.
    """

    heads: dict[int, int]
    forgotten: int
    now: float | None  # None: the store has no clock


class ArmRow(NamedTuple):
    """An arm. Its place (index) and its name are never used again."""

    place: int
    name: str
    payload: str
    status: str


class EventRow(NamedTuple):
    """An event of the log: a "report", or a change with a detail in JSON.

    Changes are "create", "arm", "payload", "retire", "config" and "status".
    """

    seq: int
    kind: str
    arm: int | None
    bit: int | None
    epsilon: int | None
    probability: int | None
    flags: int | None
    expires: int | None  # None once the id of the report is forgotten
    hour: int
    detail: str | None
    config: int | None = None
    question: bytes | None = None


class SnapshotHead(NamedTuple):
    """What identifies a snapshot: its event, its kind (the column ``kernel``), and the digest of the state."""

    seq: int
    kernel: str
    sha256: str


class SnapshotRow(NamedTuple):
    """A policy's state after an event, and the kind of the snapshot."""

    seq: int
    kernel: str
    body: bytes
    sha256: str


class KeyRow(NamedTuple):
    """A key to the service: its digest, the hours of its creation and revocation, and the experiments it is for."""

    id: str
    role: str
    digest: bytes
    created: int
    revoked: int | None
    experiments: tuple[str, ...] | None = None  # names; None: all


class Visit(NamedTuple):
    """A visitor and the token to assign, unless an earlier one has not expired; both times are minutes.

    ``instead`` is an earlier token that is not valid any more. It is replaced, unless another process has done so.
    """

    experiment: int
    visitor: bytes
    token: bytes
    expires: int
    now: int
    instead: bytes = b""


@dataclass(frozen=True)
class Change:
    """A change of an experiment.

    It is "arm" (name, payload), "payload" (place, payload), "retire" (place), "config" (and default_arm) or "status".
    ``config`` holds the members that change. They are merged into the stored configuration.
    """

    kind: str
    hour: int
    name: str = ""
    payload: str = "null"  # JSON text
    place: int = 0
    config: str = "{}"  # JSON text
    default_arm: int | None = None  # None: keep the current one
    status: str = ""


def check_text(name: str, value: str) -> str:
    """Return a text that both databases can store."""
    if "\0" in value:
        raise WrongValueError(name, value, "a text without NUL characters, which PostgreSQL cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongValueError(name, value, "a text without lone surrogates") from None
    return value


def check_name(name: str, value: str) -> str:
    """Return a text that is not empty and fits in an index."""
    if not value or len(check_text(name, value).encode()) > MAX_NAME_BYTES:
        raise WrongValueError(name, value, f"a text of 1 to {MAX_NAME_BYTES} bytes")
    return value


def check_json(name: str, value: str) -> str:
    """Return JSON text unchanged."""
    try:
        json.loads(check_text(name, value), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise WrongValueError(name, value, "JSON") from None
    return value


def check_decision_ids(reports: Sequence[NewReport]) -> None:
    """Refuse ids of the wrong length: PostgreSQL gets all ids of a batch as one string."""
    wrong = next((report.decision for report in reports if len(report.decision) != DECISION_ID_BYTES), None)
    if wrong is not None:
        raise WrongValueError("decision", wrong, f"{DECISION_ID_BYTES} bytes")


def _refuse_constant(constant: str) -> Never:
    raise ValueError(constant)  # Python reads NaN and infinities, JSON has none
