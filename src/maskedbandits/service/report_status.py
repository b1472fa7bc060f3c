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
    "late": ReportStatus(410, "the token has expired, or its experiment is archived or deleted: drop the report"),
    "forged": ReportStatus(400, "the token was not signed by this service: drop the report"),
    "foreign": ReportStatus(403, "the token belongs to another experiment: drop the report"),
    "invalid": ReportStatus(  # with the same bit: another draw would cost privacy
        400,
        "a report needs a token and a bit of 0 or 1 (with groups, an answer of 0 or 1, or up to 2 G - 1 without "
        "signs); its epsilon, if given, is a multiple of 0.000001, at most the decision's: correct the report and "
        "send the same bit again",
    ),
    "limited": ReportStatus(
        429, "too many reports with one token: send it again later; only the first counts", is_final=False
    ),
    "later": ReportStatus(
        503,
        "this experiment cannot be read now: send the report again later",
        is_final=False,
    ),
}
