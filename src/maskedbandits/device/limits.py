"""Limits on when and how often a device sends: a service can ask for more patience, never for less.

A device takes no part in an experiment outside these limits. The service imports the same numbers, and refuses such
experiments. The browser client has the same numbers.
"""

from typing import Any, NamedTuple

from ..errors import check_int, number

DAY = 86_400.0
ROUNDING = 5.0  # seconds by which a service's times may miss a limit: clocks tell whole seconds, and answers take time


class Timing(NamedTuple):
    """Limits of a device. Only tests and simulations, which have no person behind them, need others than these."""

    min_report_after: float = 60.0  # seconds from a decision to the time from which its report may leave
    min_window: float = 3600.0  # seconds from that time to the end
    min_jitter: float = 900.0  # seconds over which the moment of sending is spread at random
    max_expiry: float = 30 * DAY  # seconds from a decision to its end
    max_attempts: int = 20  # requests for one report

    def check(self) -> "Timing":
        """Return the limits; refuse those that are no numbers."""
        number("max_expiry", self.max_expiry, 0, 366 * DAY, above=True)
        for name in ("min_report_after", "min_window", "min_jitter"):
            number(name, getattr(self, name), 0, self.max_expiry)
        check_int("max_attempts", self.max_attempts, 1, 1000)
        return self

    def refuse(self, report_in: float, expires_in: float) -> str:
        """Return why a device takes no part in an offer with these times; nothing if it does."""
        if not report_in >= self.min_report_after - ROUNDING:  # nor if it is NaN
            return f"the server's times let a report leave within {self.min_report_after:g} s of the decision"
        if not expires_in - report_in >= self.min_window:
            return f"the server's times leave less than {self.min_window:g} s for a report"
        if not expires_in <= self.max_expiry + ROUNDING:
            return f"the server's times keep a report open for more than {self.max_expiry / DAY:g} days"
        return ""

    def spread(self, jitter: float, window: float) -> float:
        """Return over how many seconds the moment of sending is spread: a quarter of the window, or the jitter."""
        return max(self.min_jitter, min(jitter, window / 4))


def as_timing(value: Any) -> Timing:
    """Return limits that a person's own code gives, or the usual ones."""
    return Timing() if value is None else Timing(*value).check()
