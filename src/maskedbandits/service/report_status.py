"""The statuses of a report: the one list of them, with the HTTP status and the advice that belong to each.

Replies, their OpenAPI description and the metrics are derived from ``REPORT_STATUSES``.
"""

from __future__ import annotations

from typing import NamedTuple


class ReportStatus(NamedTuple):
    """A status: the HTTP status of a single report, the error, and whether the report is done with."""

    code: int
    error: str = ""
    is_final: bool = True  # False: nothing was decided yet, and the device sends the report again


REPORT_STATUSES = {
    "accepted": ReportStatus(200),
    "duplicate": ReportStatus(200),
    "late": ReportStatus(410, "the token has expired, or its experiment is archived: drop the report"),
    "forged": ReportStatus(400, "no key of this service has signed this token: drop the report"),
    "foreign": ReportStatus(403, "the token is of another experiment than this one: drop the report"),
    "invalid": ReportStatus(  # with the same bit: another draw would cost privacy
        400,
        "a report has a token and a bit of 0 or 1 (where there are groups, an answer of 0 or 1, or up to 2 G - "
        "1 without signs), and may have an epsilon, a multiple of a millionth and not above the decision's: "
        "send it again with a bit of 0 or 1 and the epsilon that it was masked with",
    ),
    "limited": ReportStatus(
        429, "too many reports with one token, of which only the first counts: send it again later", is_final=False
    ),
    "later": ReportStatus(
        503,
        "this experiment cannot be followed now, as the log of the service says: send it again later",
        is_final=False,
    ),
}
