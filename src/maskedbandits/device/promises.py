"""Promises to report, and how they are kept: the ledger and the outbox, and the order in which they are written.

    promise   ledger: reserved and paid   then   outbox: WAITING     and only then the application has its decision
    reward    ledger: the bit is drawn
    close     ledger: the bit is drawn, of a 0 if no reward came   then   outbox: DRAWN, leaves after its delay
    send      outbox: tried, next time later   then   the bit of the ledger goes out   then   outbox: DONE
    forget    ledger: bit forgotten   then   outbox: no row

Two files cannot be written at once, and the device may die between any two lines. What then holds:

- *The cap is never passed*: a row is there only if the ledger was paid before.
- *One draw for a decision*: bits come from ``Ledger.report`` alone, which draws once and has it on disk before it says
  it. Whatever is done again after a crash gets the same bit.
- *No promise is lost*: an application has a decision only after its row is on disk, and a row goes only after it was
  answered, or after many tries past its end, by a clock that may be wrong. Died before: paid for in vain, or reported
  as a 0 though nobody was shown anything.
- *Nothing is sent more than is needed*: DONE is written after the answer. Died between: the same bit once more, which
  the server knows as a duplicate. The next try is put off before this one is made: who dies in each is not hasty.
- *The bit is forgotten*: a DONE row stays until the ledger has forgotten, which it may do twice.

What the reward could touch is the time that a draw takes: some milliseconds if it is written when the row is closed,
none if the reward came before. So nothing leaves in the pass that closes it. It leaves after its delay, which was drawn
with the promise, is longer than writing may take, and counts from the moment at which the pass began; and what is ready
to leave goes before anything is closed.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from fractions import Fraction

from ..privacy.ledger import Ledger, LedgerError, Overdraft
from . import asked
from .offer import LONGEST, Offer
from .outbox import DONE, DRAWN, KEPT, WAITING, Outbox, Row

FIRST, LAST = 30.0, 3600.0  # seconds from one try to the next: twice as many each time, up to an hour
MOST = 60  # tries that are counted
TOO_LATE = 48  # tries after the end by the device's clock: then nobody will answer any more
WRITING = 0.25  # seconds in which a draw is written down

# Token, bit and epsilon; or an answer, and how many there are. Tells whether it was answered for good.
Send = Callable[..., bool]


def chance() -> float:
    """Return a number in [0, 1) of the operating system's."""
    return int.from_bytes(os.urandom(6)) / (1 << 48)


def delay(most: float) -> float:
    """Return seconds from a draw until it leaves: so many at most, and no fewer than writing it may take."""
    least = min(WRITING, most / 2)
    return least + chance() * (most - least)


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
        group: asked.Group | None = None,
    ) -> None:
        self._ledger, self._outbox, self._say, self._group = ledger, outbox, say, group
        self._experiment = "" if group is None else group.key
        self._rewarding = threading.Lock()

    def make(self, offer: Offer, url: str, jitter: float, at: float) -> str:
        """Promise a report; return why not, if so. A token that comes again is the same promise."""
        name = name_of(offer.token)
        if offer.date is not None and offer.date > at + LONGEST:  # a payment of that day would never be old
            return "the server's clock is more than a year ahead"
        try:
            self._ledger.reserve(name, offer.epsilon, offer.date)
        except Overdraft as error:
            return str(error)
        later = delay(min(jitter, (offer.expires_in - offer.report_in) / 2))
        row = Row(offer.token, url, WAITING, at + offer.report_in, later, at + offer.expires_in)
        row = row._replace(experiment=self._experiment, asked=offer.asked)
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
        told = asked.read(question)
        own = self._group
        place = 0 if own is None or own.groups != told.groups else own.place  # another's has expired: nobody is told
        return told.answer(place, value, self._ledger, name), told.epsilon

    def soonest(self, url: str) -> float | None:
        """Return when something is to be done next by a device of this server; None if there is nothing."""
        return self._outbox.soonest(url, self._experiment)

    def keep(self, url: str, send: Send, at: float) -> int:
        """Do everything that is due at a time; return how many reports were answered for good."""
        rows = self._outbox.ready(url, at, self._experiment)
        over = [row for row in rows if self._is_over(row, url, at)]
        open_ = [row for row in rows if row not in over]
        answered = sum(self._sent(row, send, at) for row in open_ if row.state == DRAWN)
        waiting = [row for row in open_ if row.state == WAITING]
        for row in waiting:
            self._close(row, at, len(waiting))
        for row in over:
            self._forget(row, at)
        return answered

    def _is_over(self, row: Row, url: str, at: float) -> bool:
        """Tell whether nothing will come of a row any more; that the clock says so is not enough for one's own."""
        is_foreign = row.url != url or (row.asked != "" and row.experiment != self._experiment)
        return row.state == DONE or row.late > TOO_LATE or (is_foreign and row.expires + KEPT <= at)

    def _sent(self, row: Row, send: Send, at: float) -> bool:
        tried = self._put_off(row, at)
        if tried is None:
            return False  # another process has it
        try:
            masked = self._drawn(row.token, row.asked, 0)  # drawn before: it is what it was
            answers = (asked.read(row.asked).answers,) if row.asked else ()
        except LedgerError as error:
            self._say(error)
            return False
        if not send(row.token, *masked, *answers):
            return False
        done = self._outbox.move(tried, DONE, at)
        if done is not None:
            self._forget(done, at)
        return True

    def _close(self, row: Row, at: float, many: int) -> None:
        """Wait no longer for a reward.

        Where many are closed one after the other, none leaves before all of them may be written: how long that takes
        depends on how many rewards came.
        """
        try:
            self._drawn(row.token, row.asked, 0)
        except LedgerError as error:
            self._say(error)
            self._put_off(row, at)
        else:
            self._outbox.move(row, DRAWN, at + max(row.delay, many * min(WRITING, row.delay)))

    def _put_off(self, row: Row, at: float) -> Row | None:
        """Do it later, each time later than before; None if somebody else does it."""
        pause = min(FIRST * 2.0**row.tries, LAST) * (0.5 + chance() / 2)
        late = row.late + (row.expires <= at)
        return self._outbox.move(row, row.state, at + pause, min(row.tries + 1, MOST), late)

    def _forget(self, row: Row, at: float) -> None:
        """Let go of what was answered or has expired; no report of it is ever drawn again."""
        name = name_of(row.token)
        try:
            if row.state == WAITING:
                self._drawn(row.token, row.asked, 0)  # and nobody is told
            self._ledger.settle(name)
        except LedgerError as error:
            self._say(error)
            if row.expires > at - LAST:  # later it is of no use to try again
                self._outbox.move(row, row.state, at + LAST)
                return
        self._outbox.drop(row)
