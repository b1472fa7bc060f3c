"""Keep promises to report: the order in which the ledger and the outbox are written, and the threads that send.

    promise   ledger: reserved and paid   then   outbox: WAITING     and only then the application has its decision
    reward    ledger: the bit is drawn
    close     ledger: the bit is drawn, of a 0 if no reward came   then   outbox: DRAWN, leaves after its delay
    claim     outbox: next attempt postponed   then   the bit is read from the ledger, to leave at its time
    finish    outbox: DONE, after the reply
    forget    ledger: bit deleted   then   outbox: row deleted

Two files cannot be written at once, and the device may crash between any two steps. These properties still hold:

- *The cap is never exceeded*: a row exists only if the ledger was paid before.
- *One draw for each decision*: bits come from ``Ledger.report`` alone, which stores a bit before it returns it. Steps
  that are repeated after a crash get the same bit.
- *No promise is lost*: the application gets a decision only after its row is on disk, and a row is deleted only after a
  reply or many attempts. After an earlier crash the report is paid for in vain, or sent as a 0 for an arm never shown.
- *Nothing is sent more often than needed*: DONE is written after the reply. After a crash in between, the same bit is
  sent once more, and the server treats it as a duplicate. The next attempt is postponed before this one is made, so a
  device that crashes every time does not hurry.
- *The bit is deleted*: a DONE row stays until the ledger has deleted its bit, which may happen twice.

The time of sending does not depend on the reward:

- It is drawn with the promise, before there is a reward, and counts from ``report_at``. Retries count from it.
- Closing a row takes the same writes with and without a reward: a bit that exists already is written again.
- At least a minute lies between closing and sending, and half a minute between claiming and sending. Slow writes within
  that time move nothing. With a slower disk all reports leave later alike.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from fractions import Fraction
from queue import SimpleQueue
from typing import NamedTuple

from ..privacy.ledger import Ledger, LedgerError, Overdraft
from . import protocol
from .outbox import DONE, DRAWN, FOREIGN_RETENTION_S, WAITING, Outbox, PendingReport
from .protocol import Offer, Timing

FIRST_RETRY_S, MAX_RETRY_S = 30.0, 21_600.0  # the interval between attempts doubles
MAX_LATE_ATTEMPTS = 10  # after the expiry by the device's clock, which may be wrong
MIN_GAP_S = 60.0  # from drawing a bit to sending it: the disk has that long to write
CLAIM_LEAD_S = 30.0  # a first attempt is claimed so long before it leaves
HOUR_S = 3600.0
MAX_CLOCK_AHEAD_S = 367 * 86_400.0  # of a server's clock


class Attempt(NamedTuple):
    """A claimed report, ready to leave."""

    row: PendingReport  # as it is on disk now, with its next attempt postponed
    claimed: PendingReport  # as it was before the claim
    leaves: float
    message: tuple[int, Fraction] | tuple[int, Fraction, int]  # bit and epsilon; or answer, epsilon, number of answers


# Sends attempts, now or at their times; yields the finished ones, and whether they got a final reply.
Send = Callable[[list[Attempt]], Iterable[tuple[Attempt, bool]]]


def draw_uniform() -> float:
    """Return a number in [0, 1) from the operating system's generator."""
    return int.from_bytes(os.urandom(6)) / (1 << 48)


def draw_delay(spread: float) -> float:
    """Return seconds from drawing a bit to sending it: a gap for writing, and a random part."""
    return min(MIN_GAP_S, spread / 2) + draw_uniform() * spread


def decision_name(token: str) -> str:
    """Return the name of a decision in the ledger, which is stored for ever and must not reveal the token."""
    return f"report {hashlib.sha256(token.encode()).hexdigest()[:32]}"


class Reporter:
    """Keep a ledger and an outbox consistent."""

    def __init__(
        self,
        ledger: Ledger,
        outbox: Outbox,
        log_problem: Callable[[LedgerError], None],
        group: protocol.GroupMembership | None = None,
        timing: Timing | None = None,
        timeout: float = 0.0,
    ) -> None:
        """Keep promises within a timing; an attempt ends after ``timeout`` seconds."""
        self._ledger, self._outbox, self._log_problem, self._group = ledger, outbox, log_problem, group
        self._timing, self._timeout = timing or Timing(), timeout
        self._experiment = "" if group is None else group.key
        self._rewarding = threading.Lock()

    def has_open_decision(self, url: str, visitor: str) -> bool:
        """Tell whether a paid decision of this visitor can still be rewarded."""
        return self._outbox.has_open_decision(url, visitor)

    def has_promised(self, token: str) -> bool:
        """Tell whether a report was promised for a token, and is pending or received."""
        name = decision_name(token)
        if self._outbox.has_token(token):
            return True
        try:
            self._ledger.epsilon_of(name)
        except LedgerError:  # nothing was paid for it
            return False
        return self._is_settled(name)

    def promise(self, offer: Offer, url: str, jitter: float, at: float, visitor: str = "") -> str:
        """Promise a report, and return why not if it is refused. A repeated token is the same promise."""
        name = decision_name(offer.token)
        if offer.now is not None and offer.now > at + MAX_CLOCK_AHEAD_S:  # such a payment would count for years
            return "the server's clock is more than a year ahead"
        try:
            self._ledger.reserve(name, offer.epsilon, offer.now)
        except Overdraft as error:
            return str(error)
        delay = draw_delay(self._timing.compute_spread(jitter, offer.expires_in - offer.report_in))
        row = PendingReport(offer.token, url, WAITING, at + offer.report_in, delay, at + offer.expires_in)
        row = row._replace(experiment=self._experiment, query=offer.query, visitor=visitor)
        if self._is_settled(name) or not self._outbox.add(row, at):
            return "this decision was already reported"
        return ""

    def _is_settled(self, name: str) -> bool:
        """Tell whether the report of a reserved decision was received long ago."""
        try:
            self._ledger.is_drawn(name)
        except LedgerError:  # not a disk error: the disk has just been written
            return True
        return False

    def reward(self, token: str, value: float) -> bool:
        """Draw a report; tell whether it is of this value rather than of an earlier one."""
        name = decision_name(token)
        with self._rewarding:  # one of two threads is first
            is_first = self._outbox.has_token(token) and not self._ledger.is_drawn(name)
            if is_first:
                self._draw_report(token, self._outbox.find_query(token), value)
        return is_first

    def _draw_report(self, token: str, query: str, value: float) -> tuple[int, Fraction]:
        """Return the masked bit or answer of a token and its epsilon, drawn from the value at the first call."""
        name = decision_name(token)
        if not query:
            report = self._ledger.report(name, value)
            return report.bit, report.epsilon
        decoded, membership = protocol.decode_query(query), self._group
        # Another device's query has expired, and its answer is never sent: any group will do.
        is_own = membership is not None and membership.groups == decoded.groups
        group = membership.number if membership is not None and is_own else 0
        return decoded.answer(group, value, self._ledger, name), decoded.epsilon

    def next_due(self, url: str, lead: float = 0.0) -> float | None:
        """Return when a device of this server has to act next; None if never."""
        return self._outbox.next_due(url, self._experiment, lead)

    def process_due(self, url: str, send: Send, at: float, lead: float = 0.0) -> int:
        """Do everything that is due, and return the number of reports with a final reply.

        With a lead, first attempts are claimed that many seconds before they leave.
        """
        rows = self._outbox.find_ready(url, at, self._experiment, lead)
        finished = [row for row in rows if self._is_finished(row, url, at)]
        unfinished = [row for row in rows if row not in finished]
        attempts, problem = self._claim([row for row in unfinished if row.state == DRAWN], at)
        answered = sum(self.finish(attempt, at) for attempt, is_answered in send(attempts) if is_answered)
        if problem is not None:
            raise problem
        for row in unfinished:
            if row.state == WAITING:
                self._close(row, at)
        for row in finished:
            self._forget(row, at)
        return answered

    def finish(self, attempt: Attempt, at: float) -> bool:
        """Record a final reply."""
        done = self._outbox.move(attempt.row, DONE, at)
        if done is not None:
            self._forget(done, at)
        return True

    def release(self, attempt: Attempt) -> None:
        """Undo the claim of an attempt that was not made."""
        before = attempt.claimed
        self._outbox.move(attempt.row, before.state, before.due, before.tries, before.late)

    def _is_finished(self, row: PendingReport, url: str, at: float) -> bool:
        """Tell whether a row needs no more attempts. For own rows the clock alone does not decide."""
        is_foreign = row.url != url or (row.query != "" and row.experiment != self._experiment)
        is_tried = row.late >= MAX_LATE_ATTEMPTS or (row.state == DRAWN and row.tries >= self._timing.max_attempts)
        return row.state == DONE or is_tried or (is_foreign and row.expires + FOREIGN_RETENTION_S <= at)

    def _claim(self, rows: list[PendingReport], at: float) -> tuple[list[Attempt], LedgerError | None]:
        """Postpone the next attempt of each row; return the attempts to make now, and the error that stopped it."""
        attempts: list[Attempt] = []
        for row in rows:
            try:
                claimed = self._postpone(row, at)
            except LedgerError as error:
                return attempts, error
            if claimed is None:
                continue  # another process has it
            try:
                message = self._draw_report(row.token, row.query, 0)  # drawn already: the value is ignored
                answers = (protocol.decode_query(row.query).answers,) if row.query else ()
            except LedgerError as error:
                self._log_problem(error)
            else:
                attempts.append(Attempt(claimed, row, row.due, (*message, *answers)))
        return attempts, None

    def _close(self, row: PendingReport, at: float) -> None:
        """Stop waiting for a reward. The writes are the same with and without one."""
        name = decision_name(row.token)
        try:
            with self._rewarding:
                if self._ledger.is_drawn(name):
                    self._ledger.rewrite(name)
                else:
                    self._draw_report(row.token, row.query, 0)
        except LedgerError as error:
            self._log_problem(error)
            self._postpone(row, at)
            return
        leaves = row.due + row.delay
        if leaves < at + min(CLAIM_LEAD_S, row.delay / 2):  # the device was off
            leaves = at + row.delay
        self._outbox.move(row, DRAWN, leaves)

    def _postpone(self, row: PendingReport, at: float) -> PendingReport | None:
        """Schedule the next attempt, each time later; None if another process has the row."""
        pause = min(FIRST_RETRY_S * 2.0 ** min(row.tries, 20), MAX_RETRY_S) * (0.5 + draw_uniform() / 2)
        late = row.late + (row.expires <= at)
        due = max(row.due, at) + max(pause, 1.5 * self._timeout)
        return self._outbox.move(row, row.state, due, row.tries + 1, late)

    def _forget(self, row: PendingReport, at: float) -> None:
        """Delete a report that was received or has expired. It is never drawn again."""
        name = decision_name(row.token)
        try:
            if row.state == WAITING:
                self._draw_report(row.token, row.query, 0)  # never sent
            self._ledger.settle(name)
        except LedgerError as error:
            self._log_problem(error)
            if row.expires > at - HOUR_S:  # later a retry is pointless
                self._outbox.move(row, row.state, at + HOUR_S)
                return
        self._outbox.drop(row)


AttemptResult = tuple[Attempt, bool]
Post = Callable[[Attempt], bool]  # returns whether a report got a final reply


class Sender:
    """Send reports, each in its own thread, so that a slow reply delays no other report."""

    def __init__(self, post: Post, notify: Callable[[], None]) -> None:
        """Send with ``post``; call ``notify`` after each scheduled attempt."""
        self._post, self._notify = post, notify
        self._lock = threading.Lock()
        self._scheduled: dict[threading.Timer, Attempt] = {}
        self._running: set[threading.Thread] = set()
        self._results: SimpleQueue[AttemptResult] = SimpleQueue()

    def send(self, attempts: list[Attempt]) -> list[AttemptResult]:
        """Make all attempts now and at once; return when the last one ends."""
        if len(attempts) == 1:
            return [(attempts[0], self._post(attempts[0]))]
        results: SimpleQueue[AttemptResult] = SimpleQueue()
        threads = [
            threading.Thread(target=self._post_and_record, args=(each, results), daemon=True) for each in attempts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return _drain(results)

    def schedule(self, attempt: Attempt, seconds: float) -> None:
        """Make an attempt after a delay in seconds."""
        timer = threading.Timer(max(seconds, 0.0), self._start)
        timer.args = [timer]
        timer.daemon = True
        with self._lock:
            self._scheduled[timer] = attempt
        timer.start()

    def results(self) -> list[AttemptResult]:
        """Return the scheduled attempts that ended since the last call."""
        return _drain(self._results)

    def stop(self) -> list[Attempt]:
        """Cancel scheduled attempts and wait for running ones; return the cancelled ones."""
        with self._lock:
            cancelled, running = dict(self._scheduled), list(self._running)
            self._scheduled.clear()
        for timer in cancelled:
            timer.cancel()
        for thread in running:
            thread.join()
        return list(cancelled.values())

    def _start(self, timer: threading.Timer) -> None:
        with self._lock:
            attempt = self._scheduled.pop(timer, None)
            if attempt is None:
                return
            self._running.add(timer)
        try:
            self._post_and_record(attempt, self._results)
        finally:
            with self._lock:
                self._running.discard(timer)
        self._notify()

    def _post_and_record(self, attempt: Attempt, results: "SimpleQueue[AttemptResult]") -> None:
        results.put((attempt, self._post(attempt)))


def _drain(results: "SimpleQueue[AttemptResult]") -> list[AttemptResult]:
    """Return the contents of a queue that has one reader."""
    found = []
    while not results.empty():
        found.append(results.get())
    return found
