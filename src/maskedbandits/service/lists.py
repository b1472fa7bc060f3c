"""Lists over HTTP, page by page: their parameters and the types of their replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.service.http import QueryParameter
from maskedbandits.service.schemas import CREATED, Status
from maskedbandits.service.storage.audit import AuditRow
from maskedbandits.service.storage.models import STATUSES, check_text

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000  # entries of a page
MAX_HOUR = 8000 * 366 * 24  # no calendar of computers reaches beyond the year 9999
MAX_CURSOR = 2**53  # a whole number that every program can hold
LIMIT = QueryParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    f"Entries of a page, {DEFAULT_LIMIT} unless given.",
)
CURSOR = QueryParameter(
    "cursor", {"type": "integer", "minimum": 0, "maximum": MAX_CURSOR}, "The value of `next` in the page before."
)
STATUS = QueryParameter("status", {"type": "string", "enum": list(STATUSES)}, "Only experiments with this status.")
SEARCH = QueryParameter(
    "search", {"type": "string", "minLength": 1, "maxLength": 64}, "Only experiments whose names contain this text."
)
OF_EXPERIMENT = QueryParameter(
    "experiment", {"type": "string", "minLength": 1, "maxLength": 64}, "Only changes of experiments with this name."
)
AUDIT_QUERY = (LIMIT, CURSOR, OF_EXPERIMENT)
EXPERIMENTS_QUERY = (LIMIT, CURSOR, STATUS, SEARCH)

ACTIONS = ("create", "change", "add_arm", "change_arm", "retire_arm", "delete")
Action = Literal["create", "change", "add_arm", "change_arm", "retire_arm", "delete"]
Next = Annotated[int | None, Meta(description="The cursor of the next page; null at the end.")]


class Summary(Struct):
    """An experiment in the list of experiments."""

    name: Annotated[str, Meta(description="Its name.")]
    status: Annotated[Status, Meta(description="Only a running experiment learns.")]
    policy: Annotated[str, Meta(description="The policy that learns.")]
    epsilon: Annotated[float, Meta(description="The epsilon of one report.")]
    arms: Annotated[int, Meta(description="Open arms.")]
    seq: Annotated[int, Meta(description="The last event of its log.")]
    config_version: Annotated[int, Meta(description="Counts the changes of the configuration.")]
    created_hour: Annotated[int, Meta(description="Hours since 1970 at its creation.")]
    created: Annotated[str, Meta(description=CREATED)]


class ExperimentsAnswer(Struct):
    """A page of the list of experiments, the oldest first, including archived ones."""

    experiments: Annotated[list[Summary], Meta(description="One entry for each experiment.")]
    next: Next


class DeletionAnswer(Struct):
    """A deleted experiment. Its rows go in the background."""

    name: Annotated[str, Meta(description="Its name, which is free again.")]
    seq: Annotated[int, Meta(description="The number of events that its log had.")]


class AuditEntry(Struct):
    """A change that an administrator made."""

    id: Annotated[int, Meta(description="Counts all entries, without gaps.")]
    at: Annotated[str, Meta(description="When, in ISO 8601, to the second.")]
    key: Annotated[str | None, Meta(description="The name of the key; null where no key was needed.")]
    action: Annotated[Action, Meta(description="The kind of change.")]
    experiment: Annotated[str, Meta(description="The name of the experiment, which may be deleted since.")]
    experiment_id: Annotated[int, Meta(description="Its number, which is never used again, as names are.")]
    version_before: Annotated[int | None, Meta(description="config_version before the change; null if it is new.")]
    config_version: Annotated[int, Meta(description="config_version after the change.")]
    what: Annotated[dict[str, Any], Meta(description="The fields of the request that made the change.")]


class AuditAnswer(Struct):
    """A page of the audit trail, the newest change first."""

    entries: Annotated[list[AuditEntry], Meta(description="One entry for each change.")]
    next: Next


def describe_entry(row: AuditRow) -> AuditEntry:
    """Return an entry of the audit trail as it is shown."""
    about = json.loads(row.detail)
    return AuditEntry(
        id=row.id,
        at=about["at"],
        key=row.key_name,
        action=row.action,  # type: ignore[arg-type]  # the store has the same words
        experiment=row.experiment or "",
        experiment_id=about["experiment_id"],
        version_before=about["version_before"],
        config_version=row.config_version or 0,
        what=about["what"],
    )


def format_hour(hour: int) -> str:
    """Return an hour since 1970 in ISO 8601; "" for one beyond the calendar, which is damage."""
    if not 0 <= hour < MAX_HOUR:
        return ""
    return datetime.fromtimestamp(3600 * hour, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_limit(values: Mapping[str, str]) -> int:
    """Return the wanted number of entries."""
    return _read_int("limit", values.get("limit", str(DEFAULT_LIMIT)), 1, MAX_LIMIT)


def read_cursor(values: Mapping[str, str]) -> int:
    """Return the cursor, 0 for the first page."""
    return _read_int("cursor", values.get("cursor", "0"), 0, MAX_CURSOR)


def read_choice(name: str, values: Mapping[str, str], choices: tuple[str, ...]) -> str:
    """Return a value that is one of several; "" without one."""
    value = values.get(name, "")
    if name in values and value not in choices:
        raise WrongValueError(name, value, f"one of {', '.join(choices)}")
    return value


def read_text(name: str, values: Mapping[str, str], most: int) -> str:
    """Return a short text; "" without one."""
    if name in values and not 1 <= len(values[name]) <= most:
        raise UserError(f"{name}: give 1 to {most} characters")
    return check_text(name, values.get(name, ""))


def _read_int(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise WrongValueError(name, text, f"a whole number from {least} to {most}")
    return int(text)
