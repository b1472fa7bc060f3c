"""The errors over HTTP: the one list of their codes, with the status and the title of each (RFC 9457).

A code never changes its meaning, so programs can rely on it. The detail of an error is for people, and may change. The
codes of refused reports are their statuses (``report_status.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from maskedbandits.service.report_status import REPORT_STATUSES

TYPE_PREFIX = "/v1/problems/"  # of the `type` of an error: a GET of it returns its description


class Problem(NamedTuple):
    """A kind of error: the HTTP status, and what it means."""

    status: int
    title: str


_GENERAL = {  # one for each status, for errors without a code of their own
    "invalid_request": Problem(400, "The request is invalid. The detail says what to change."),
    "key_required": Problem(401, "A key is required."),
    "forbidden": Problem(403, "The caller has no right to do this."),
    "not_found": Problem(404, "There is nothing at this address."),
    "method_not_allowed": Problem(405, "The path has no such method. The header Allow lists its methods."),
    "request_timeout": Problem(408, "The head or the body did not arrive in time."),
    "conflict": Problem(409, "The request contradicts what is stored."),
    "gone": Problem(410, "What was here has ended for good."),
    "version_changed": Problem(412, "The experiment has changed since the version in If-Match. Get it again."),
    "body_too_long": Problem(413, "The body is too long."),
    "idempotency_key_reused": Problem(422, "The Idempotency-Key was used for another request. Use a new one."),
    "rate_limited": Problem(429, "Too many requests. Retry-After says when to try again."),
    "head_too_long": Problem(431, "The head of the request is too long."),
    "internal_error": Problem(500, "The service has a fault. Its log has the cause."),
    "unavailable": Problem(503, "This cannot be done now. Retry-After says when to try again."),
}
GENERAL_CODES = {problem.status: code for code, problem in _GENERAL.items()}
_SPECIAL = {
    "reply_too_long": Problem(400, "The reply would be too long. Ask for fewer decisions at once."),
    "role_required": Problem(403, "The key lacks the required role."),
    "backend_required": Problem(403, "Only a key with the role backend may ask for this."),
    "limited_key": Problem(403, "The key is limited to some experiments."),
    "local_only": Problem(403, "Without keys only programs of this machine may send requests. Create a key."),
    "origin_not_allowed": Problem(403, "Pages of this origin are not allowed."),
    "unknown_path": Problem(404, "No route has this path."),
    "unknown_experiment": Problem(404, "No experiment has this name."),
    "unknown_arm": Problem(404, "No arm of the experiment has this name."),
    "unknown_code": Problem(404, "No error has this code."),
    "name_taken": Problem(409, "The name is or was in use. Give another."),
    "arm_retired": Problem(409, "The arm is retired for good."),
    "archived_is_final": Problem(409, "The experiment is archived, and cannot change any more."),
    "upgrade_required": Problem(
        409, "Processes of an earlier release would ignore it. Run maskedbandits upgrade first."
    ),
    "not_archived": Problem(409, "Only archived experiments can be deleted."),
    "archived": Problem(410, "The experiment is archived, and makes no more decisions."),
    "starting": Problem(503, "The service is starting."),
    "store_unavailable": Problem(503, "The store cannot be reached, or is overloaded."),
    "experiment_unreadable": Problem(503, "The experiment cannot be read now. The log of the service has the cause."),
    "logs_behind": Problem(503, "The logs could not be read to their end, so something new may be missing."),
    "too_many_streams": Problem(503, "Too many live streams are open."),
    "state_pending": Problem(503, "The state of an archived experiment is being computed."),
}
_REPORTS = {
    name: Problem(status.code, f"{status.error.partition(':')[0].capitalize()}.")
    for name, status in REPORT_STATUSES.items()
    if status.error
}
PROBLEMS = {**_GENERAL, **_SPECIAL, **_REPORTS}


def format_type(code: str) -> str:
    """Return the `type` of an error, a URI reference that a GET resolves."""
    return f"{TYPE_PREFIX}{code}"
