"""A cap that renews: for how long a payment counts, and what time it is.

A payment counts for one period from the moment it was made, so that no stretch of that length ever holds more than the
cap: there is no boundary at which two caps could be spent at once. Moments are whole seconds. A payment is dated to the
next one and judged by the last, so it never counts too short.

The clock is the device's. A payment is never dated before another: set back, the clock gives nothing back. Set ahead,
it makes payments old too soon, unless another clock, such as a server's, says what time it is there: then payments are
dated by the later of both and judged by the earlier. What is paid while it is ahead is dated ahead in any case, and
counts until that time has come.
"""

import math
import re
import time
from collections.abc import Iterable
from datetime import timedelta

from ...errors import UserError
from .errors import LedgerError

Length = str | timedelta | None

UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
LONGEST = 100 * 366 * UNITS["day"]
EARLIEST = 1_735_689_600  # the year 2025: a clock that says less was never set
AHEAD = 368 * UNITS["day"]  # seconds by which another clock may be ahead: what is paid counts from that time on
LONG_AGO = 0  # in place of a moment that no longer matters
FOR_EVER = 0  # the period of a cap that does not renew


def as_period(per: Length) -> int:
    """Return a period in seconds, FOR_EVER if there is none.

    >>> as_period("30 days")
    2592000
    """
    if per is None:
        return FOR_EVER
    seconds = _seconds(per)
    if seconds is None or not 1 <= seconds <= LONGEST:
        raise UserError(
            f"per = {str(per)!r:.60} is no period: give a time such as '30 days', a whole number of seconds, minutes, "
            "hours, days or weeks, up to 100 years"
        )
    return seconds


def _seconds(per: object) -> int | None:
    """Return whole seconds, if it is that."""
    if isinstance(per, timedelta):
        whole, rest = divmod(per, timedelta(seconds=1))
        return None if rest else whole
    found = re.fullmatch(r"([0-9]{1,12}) *([a-z]+?)s?", per.strip()) if isinstance(per, str) else None
    return int(found[1]) * UNITS[found[2]] if found and found[2] in UNITS else None


def in_words(period: int) -> str:
    """Return a period as a person would say it."""
    unit = next(name for name, seconds in UNITS.items() if period % seconds == 0)
    count = period // UNITS[unit]
    return unit if count == 1 else f"{count} {unit}s"


def by_both(at: int, elsewhere: float | None, period: int) -> tuple[int, int]:
    """Return the earlier and the later of two clocks; one that is years ahead would make a payment count for ever."""
    if elsewhere is None or period == FOR_EVER:
        return at, at
    if not isinstance(elsewhere, (int, float)) or not 0 <= elsewhere <= at + AHEAD:
        raise LedgerError("elsewhere is no time in seconds since 1970, or more than a year ahead: no report is made")
    other = math.floor(elsewhere)
    return min(at, other), max(at, other)


def now() -> int:
    """Return what time it is, in whole seconds."""
    clock = math.floor(time.time())
    if clock < EARLIEST:
        raise LedgerError(f"the clock says {time.strftime('%Y', time.gmtime(clock))}, so no report is made: set it")
    return clock


def moment_at(at: int, moments: Iterable[int]) -> int:
    """Return the moment to which a payment at a time is dated: not earlier than any other was."""
    return max(at + 1, max(moments, default=0))


def still_counts(moment: int, period: int, at: int) -> bool:
    """Tell whether a payment still counts at a time."""
    return period == FOR_EVER or moment + period > at
