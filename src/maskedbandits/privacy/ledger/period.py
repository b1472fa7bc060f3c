"""A cap that renews: how long a payment counts, and the current time.

A payment counts for one period from the moment it was made, so no interval of that length ever has more than the cap:
there is no boundary at which two caps could be spent at once. Moments are whole seconds. A payment is dated to the next
second and judged by the last one, so it never counts too short.

The clock is the device's. A payment is never dated before another one, so setting the clock back returns nothing. A
clock that is set ahead makes payments old too soon, unless another clock, such as a server's, gives the time, too. Then
payments are dated by the later clock and judged by the earlier one. Payments made while the clock is ahead are dated
ahead in any case, and count until that time.
"""

import math
import re
import time
from collections.abc import Iterable
from datetime import timedelta

from ...errors import UserError
from .errors import LedgerError

PeriodLike = str | timedelta | None

UNIT_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
MAX_PERIOD_S = 100 * 366 * UNIT_SECONDS["day"]
EARLIEST_TIME_S = 1_735_689_600  # the year 2025: an earlier clock was never set
MAX_AHEAD_S = 368 * UNIT_SECONDS["day"]  # of another clock: payments count from that time on
LONG_AGO = 0  # replaces a moment that no longer matters
FOR_EVER = 0  # the period of a cap that does not renew


def parse_period(per: PeriodLike) -> int:
    """Return a period in seconds, FOR_EVER if there is none.

    >>> parse_period("30 days")
    2592000
    """
    if per is None:
        return FOR_EVER
    seconds = _parse_seconds(per)
    if seconds is None or not 1 <= seconds <= MAX_PERIOD_S:
        raise UserError(
            f"per = {str(per)!r:.60} is not a period: give a whole number of seconds, minutes, hours, days or weeks, "
            "such as '30 days', up to 100 years"
        )
    return seconds


def _parse_seconds(per: object) -> int | None:
    """Return whole seconds, None if this is not a period."""
    if isinstance(per, timedelta):
        whole, rest = divmod(per, timedelta(seconds=1))
        return None if rest else whole
    match = re.fullmatch(r"([0-9]{1,12}) *([a-z]+?)s?", per.strip()) if isinstance(per, str) else None
    return int(match[1]) * UNIT_SECONDS[match[2]] if match and match[2] in UNIT_SECONDS else None


def format_period(period: int) -> str:
    """Format a period as a person would."""
    unit = next(name for name, seconds in UNIT_SECONDS.items() if period % seconds == 0)
    count = period // UNIT_SECONDS[unit]
    return unit if count == 1 else f"{count} {unit}s"


def combine_clocks(at: int, elsewhere: float | None, period: int) -> tuple[int, int]:
    """Return the earlier and the later of two clocks. Refuse a clock years ahead: payments would not expire."""
    if elsewhere is None or period == FOR_EVER:
        return at, at
    if not isinstance(elsewhere, (int, float)) or not 0 <= elsewhere <= at + MAX_AHEAD_S:
        raise LedgerError(
            "elsewhere is not a time in seconds since 1970, or is more than a year ahead: no report is made"
        )
    other = math.floor(elsewhere)
    return min(at, other), max(at, other)


def read_clock() -> int:
    """Return the current time in whole seconds."""
    clock = math.floor(time.time())
    if clock < EARLIEST_TIME_S:
        raise LedgerError(f"the clock says {time.strftime('%Y', time.gmtime(clock))}, so no report is made: set it")
    return clock


def date_payment(at: int, moments: Iterable[int]) -> int:
    """Return the moment of a payment: the next second, and not before any other payment."""
    return max(at + 1, max(moments, default=0))


def still_counts(moment: int, period: int, at: int) -> bool:
    """Tell whether a payment still counts at a time."""
    return period == FOR_EVER or moment + period > at
