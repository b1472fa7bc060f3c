"""Promises to report, and how they are kept: the ledger and the outbox, and the order in which they are written.

    promise   ledger: reserved and paid   then   outbox: WAITING     and only then the application has its decision
    reward    ledger: the bit is drawn
    close     ledger: the bit is drawn, of a 0 if no reward came   then   outbox: DRAWN, leaves after its delay
    claim     outbox: tried, next time later   then   the bit of the ledger is read, to leave at its time
    finish    outbox: DONE, after the answer
    forget    ledger: bit forgotten   then   outbox: no row

Two files cannot be written at once, and the device may die between any two lines. What then holds:

- *The cap is never passed*: a row is there only if the ledger was paid before.
- *One draw for a decision*: bits come from ``Ledger.report`` alone, which draws once and has it on disk before it says
  it. Whatever is done again after a crash gets the same bit.
- *No promise is lost*: an application has a decision only after its row is on disk, and a row goes only after it was
  answered, or after many tries. Died before: paid for in vain, or reported as a 0 though nobody was shown anything.
- *Nothing is sent more than is needed*: DONE is written after the answer. Died between: the same bit once more, which
  the server knows as a duplicate. The next try is put off before this one is made: who dies in each is not hasty.
- *The bit is forgotten*: a DONE row stays until the ledger has forgotten, which it may do twice.

The moment of sending does not depend on the reward:

- It is drawn with the promise, before there is a reward, and counts from ``report_at``. Retries count from it.
- To close a row costs the same writes whether a reward came or not: a bit that was drawn before is written again.
- At least a minute lies between closing and leaving, and half a minute between claiming and leaving. Nothing that a
  disk does within that time moves it. With a disk that takes longer, all reports leave later alike.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

from ..privacy.ledger import Ledger, LedgerError, Overdraft
from . import protocol
from .limits import Timing
from .outbox import DONE, DRAWN, KEPT, WAITING, Outbox, Row
from .protocol import Offer

FIRST, LAST = 30.0, 21_600.0  # seconds from one try to the next: twice as many each time, up to six hours
MAX_LATE = 10  # tries after the end by the device's clock, which may be wrong
GAP = 60.0  # seconds from fixing a bit to sending it, at least: a disk has that long to write
LEAD = 30.0  # seconds before it leaves by which a first attempt is claimed
HOUR = 3600.0
AHEAD = 367 * 86_400.0  # seconds by which a server's clock may be ahead


class Attempt(NamedTuple):
    """A report that is claimed and ready to leave."""

    row: Row  # as it is on disk: the next try is put off
    claimed: Row  # as it was before
    leaves: float
    message: tuple[int, Fraction] | tuple[int, Fraction, int]  # bit and epsilon; or an answer, and how many there are


# Sends attempts, at once or at their times; yields those that are over, and whether they were answered for good.
Send = Callable[[list[Attempt]], Iterable[tuple[Attempt, bool]]]


def chance() -> float:
    """Return a number in [0, 1) of the operating system's."""
    return int.from_bytes(os.urandom(6)) / (1 << 48)


def delay(spread: float) -> float:
    """Return seconds from fixing a bit to sending it: a gap in which it is written, and a random part."""
    return min(GAP, spread / 2) + chance() * spread


def name_of(token: str) -> str:
    """Return a decision's name. The ledger keeps it for ever: the token itself would say what was shown, and when."""
    return f"report {hashlib.sha256(token.encode()).hexdigest()[:32]}"


class Promises:
    """A ledger and an outbox that agree."""

    def __init__(
        self,
        ledger: Ledger,
        outbox: Outbox,
        say: Callable[[LedgerError], None],
        group: protocol.Group | None = None,
        timing: Timing | None = None,
        patience: float = 0.0,
    ) -> None:
        """Keep promises within a timing; one attempt is over after so many seconds of patience."""
        self._ledger, self._outbox, self._say, self._group = ledger, outbox, say, group
        self._timing, self._patience = timing or Timing(), patience
        self._experiment = "" if group is None else group.key
        self._rewarding = threading.Lock()

    def is_open(self, url: str, visitor: str) -> bool:
        """Tell whether a decision of this visitor is paid for and can still be rewarded."""
        return self._outbox.is_open(url, visitor)

    def has_made(self, token: str) -> bool:
        """Tell whether a report was promised for a token, and is still to come or was received."""
        name = name_of(token)
        if self._outbox.holds(token):
            return True
        try:
            self._ledger.epsilon_of(name)
        except LedgerError:  # nothing was paid for it
            return False
        return self._settled(name)

    def make(self, offer: Offer, url: str, jitter: float, at: float, visitor: str = "") -> str:
        """Promise a report; return why not, if so. A token that comes again is the same promise."""
        name = name_of(offer.token)
        if offer.date is not None and offer.date > at + AHEAD:  # a payment of that day would never be old
            return "the server's clock is more than a year ahead"
        try:
            self._ledger.reserve(name, offer.epsilon, offer.date)
        except Overdraft as error:
            return str(error)
        later = delay(self._timing.spread(jitter, offer.expires_in - offer.report_in))
        row = Row(offer.token, url, WAITING, at + offer.report_in, later, at + offer.expires_in)
        row = row._replace(experiment=self._experiment, asked=offer.asked, visitor=visitor)
        if self._settled(name) or not self._outbox.add(row, at):
            return "this decision was reported already, and each has one report"
        return ""

    def _settled(self, name: str) -> bool:
        """Tell whether a reserved decision's report was received long ago."""
        try:
            self._ledger.drawn(name)
        except LedgerError:  # not of the disk, which has just done more than this
            return True
        return False

    def reward(self, token: str, value: float) -> bool:
        """Draw a report; tell whether it is of this value, and not of an earlier one or of none."""
        name = name_of(token)
        with self._rewarding:  # of two threads at once one is the first
            fresh = self._outbox.holds(token) and not self._ledger.drawn(name)
            if fresh:
                self._drawn(token, self._outbox.asked(token), value)
        return fresh

    def _drawn(self, token: str, question: str, value: float) -> tuple[int, Fraction]:
        """Return the masked bit, or answer, of a token, and its epsilon: drawn from a value, unless it was before."""
        name = name_of(token)
        if not question:
            report = self._ledger.report(name, value)
            return report.bit, report.epsilon
        told = protocol.read(question)
        own = self._group
        place = 0 if own is None or own.groups != told.groups else own.place  # another's has expired: nobody is told
        return told.answer(place, value, self._ledger, name), told.epsilon

    def soonest(self, url: str, lead: float = 0.0) -> float | None:
        """Return when something is to be done next by a device of this server; None if there is nothing."""
        return self._outbox.soonest(url, self._experiment, lead)

    def keep(self, url: str, send: Send, at: float, lead: float = 0.0) -> int:
        """Do everything that is due at a time; return how many reports were answered for good.

        With a lead, first attempts are claimed so many seconds before they leave.
        """
        rows = self._outbox.ready(url, at, self._experiment, lead)
        over = [row for row in rows if self._is_over(row, url, at)]
        open_ = [row for row in rows if row not in over]
        attempts, trouble = self._claim([row for row in open_ if row.state == DRAWN], at)
        answered = sum(self.finish(attempt, at) for attempt, is_answered in send(attempts) if is_answered)
        if trouble is not None:
            raise trouble
        for row in open_:
            if row.state == WAITING:
                self._close(row, at)
        for row in over:
            self._forget(row, at)
        return answered

    def finish(self, attempt: Attempt, at: float) -> bool:
        """Write down that a report was answered for good."""
        done = self._outbox.move(attempt.row, DONE, at)
        if done is not None:
            self._forget(done, at)
        return True

    def give_back(self, attempt: Attempt) -> None:
        """Undo the claim of an attempt that was not made."""
        before = attempt.claimed
        self._outbox.move(attempt.row, before.state, before.due, before.tries, before.late)

    def _is_over(self, row: Row, url: str, at: float) -> bool:
        """Tell whether nothing will come of a row any more; that the clock says so is not enough for one's own."""
        is_foreign = row.url != url or (row.asked != "" and row.experiment != self._experiment)
        is_tried = row.late >= MAX_LATE or (row.state == DRAWN and row.tries >= self._timing.max_attempts)
        return row.state == DONE or is_tried or (is_foreign and row.expires + KEPT <= at)

    def _claim(self, rows: list[Row], at: float) -> tuple[list[Attempt], LedgerError | None]:
        """Put off the next try of each, and return what leaves now; the trouble, if the outbox cannot be written."""
        attempts: list[Attempt] = []
        for row in rows:
            try:
                tried = self._put_off(row, at)
            except LedgerError as error:
                return attempts, error
            if tried is None:
                continue  # another process has it
            try:
                masked = self._drawn(row.token, row.asked, 0)  # drawn before: it is what it was
                answers = (protocol.read(row.asked).answers,) if row.asked else ()
            except LedgerError as error:
                self._say(error)
            else:
                attempts.append(Attempt(tried, row, row.due, (*masked, *answers)))
        return attempts, None

    def _close(self, row: Row, at: float) -> None:
        """Wait no longer for a reward; the same is written whether one came or not."""
        name = name_of(row.token)
        try:
            with self._rewarding:
                if self._ledger.drawn(name):
                    self._ledger.write_again(name)
                else:
                    self._drawn(row.token, row.asked, 0)
        except LedgerError as error:
            self._say(error)
            self._put_off(row, at)
            return
        leaves = row.due + row.delay
        if leaves < at + min(LEAD, row.delay / 2):  # the device was off
            leaves = at + row.delay
        self._outbox.move(row, DRAWN, leaves)

    def _put_off(self, row: Row, at: float) -> Row | None:
        """Do it later, each time later than before; None if somebody else does it."""
        pause = min(FIRST * 2.0 ** min(row.tries, 20), LAST) * (0.5 + chance() / 2)
        late = row.late + (row.expires <= at)
        due = max(row.due, at) + max(pause, 1.5 * self._patience)
        return self._outbox.move(row, row.state, due, row.tries + 1, late)

    def _forget(self, row: Row, at: float) -> None:
        """Let go of what was answered or has expired; no report of it is ever drawn again."""
        name = name_of(row.token)
        try:
            if row.state == WAITING:
                self._drawn(row.token, row.asked, 0)  # and nobody is told
            self._ledger.settle(name)
        except LedgerError as error:
            self._say(error)
            if row.expires > at - HOUR:  # later it is of no use to try again
                self._outbox.move(row, row.state, at + HOUR)
                return
        self._outbox.drop(row)
