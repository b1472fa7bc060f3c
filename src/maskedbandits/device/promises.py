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
  answered or expired. Died before: paid for in vain, or reported as a 0 though nobody was shown anything.
- *Nothing is sent more than is needed*: DONE is written after the answer. Died between: the same bit once more, which
  the server knows as a duplicate. The next try is put off before this one is made: who dies in each is not hasty.
- *The bit is forgotten*: a DONE row stays until the ledger has forgotten, which it may do twice.

What the reward could touch is the time that a draw takes: some milliseconds if it is written when the row is closed,
none if the reward came before. So nothing leaves in the pass that closes it. It leaves after its delay, which was drawn
with the promise and counts from the moment at which the pass began; and what is ready to leave goes before anything is
closed.
"""

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction

from ..privacy.ledger import Ledger, LedgerError, Overdraft
from .offer import Offer
from .outbox import DONE, DRAWN, WAITING, Outbox, Row

FIRST, LAST = 30.0, 3600.0  # seconds from one try to the next: twice as many each time, up to an hour
MOST = 60  # tries that are counted

Send = Callable[[str, int, Fraction], bool]  # token, bit, epsilon: whether it was answered for good


def chance() -> float:
    """Return a number in [0, 1) of the operating system's."""
    return int.from_bytes(os.urandom(6)) / (1 << 48)


def name_of(token: str) -> str:
    """Return a decision's name. The ledger keeps it for ever: the token itself would say what was shown, and when."""
    return f"report {hashlib.sha256(token.encode()).hexdigest()[:32]}"


class Promises:
    """A ledger and an outbox that agree."""

    def __init__(self, ledger: Ledger, outbox: Outbox, say: Callable[[LedgerError], None]) -> None:
        self._ledger, self._outbox, self._say = ledger, outbox, say

    def make(self, offer: Offer, url: str, jitter: float, at: float) -> str:
        """Promise a report; return why not, if so. A token that comes again is the same promise."""
        name = name_of(offer.token)
        try:
            self._ledger.reserve(name, offer.epsilon)
        except Overdraft as error:
            return str(error)
        delay = chance() * min(jitter, (offer.expires_in - offer.report_in) / 2)
        row = Row(offer.token, url, WAITING, at + offer.report_in, delay, at + offer.expires_in)
        if self._settled(name) or not self._outbox.add(row, at):
            return "this decision was reported already, and each has one report"
        return ""

    def _settled(self, name: str) -> bool:
        """Tell whether a reserved decision's report was received long ago."""
        try:
            self._ledger.recall(name)
        except LedgerError:  # not of the disk, which has just done more than this
            return True
        return False

    def reward(self, token: str, value: float) -> bool:
        """Draw a report; tell whether it is of this value, and not of an earlier one or of none."""
        name = name_of(token)
        fresh = self._outbox.holds(token) and self._ledger.recall(name) is None
        if fresh:
            self._ledger.report(name, value)
        return fresh

    def soonest(self, url: str) -> float | None:
        """Return when something is to be done next by a device of this server; None if there is nothing."""
        return self._outbox.soonest(url)

    def keep(self, url: str, send: Send, at: float) -> int:
        """Do everything that is due at a time; return how many reports were answered for good."""
        rows = self._outbox.ready(url, at)
        over = [row for row in rows if row.state == DONE or row.expires <= at]
        open_ = [row for row in rows if row not in over]
        answered = sum(self._sent(row, send, at) for row in open_ if row.state == DRAWN)
        for row in open_:
            if row.state == WAITING:
                self._close(row, at)
        for row in over:
            self._forget(row, at)
        return answered

    def _sent(self, row: Row, send: Send, at: float) -> bool:
        tried = self._put_off(row, at)
        if tried is None:
            return False  # another process has it
        try:
            report = self._ledger.report(name_of(row.token), 0)  # drawn before: the bit is what it was
        except LedgerError as error:
            self._say(error)
            return False
        if not send(row.token, report.bit, report.epsilon):
            return False
        done = self._outbox.move(tried, DONE, at)
        if done is not None:
            self._forget(done, at)
        return True

    def _close(self, row: Row, at: float) -> None:
        """Wait no longer for a reward."""
        try:
            self._ledger.report(name_of(row.token), 0)
        except LedgerError as error:
            self._say(error)
            self._put_off(row, at)
        else:
            self._outbox.move(row, DRAWN, min(at + row.delay, row.expires))

    def _put_off(self, row: Row, at: float) -> Row | None:
        """Do it later, each time later than before; None if somebody else does it."""
        pause = min(FIRST * 2.0**row.tries, LAST) * (0.5 + chance() / 2)
        return self._outbox.move(row, row.state, min(at + pause, row.expires), min(row.tries + 1, MOST))

    def _forget(self, row: Row, at: float) -> None:
        """Let go of what was answered or has expired; no report of it is ever drawn again."""
        name = name_of(row.token)
        try:
            if row.state == WAITING:
                self._ledger.report(name, 0)
            self._ledger.settle(name)
        except LedgerError as error:
            self._say(error)
            if row.expires > at - LAST:  # later it is of no use to try again
                self._outbox.move(row, row.state, at + LAST)
                return
        self._outbox.drop(row)
