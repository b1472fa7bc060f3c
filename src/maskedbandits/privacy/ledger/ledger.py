"""The ledger of a device: a cap on its total privacy loss, and one report for each decision.

A decision is reserved *before* its reward is known, and paid for then, so a refusal cannot depend on the reward. Its
report is drawn once, stored, and only then returned. A retry always gets the same bit: 25 fresh reports of one bit at
epsilon = 1 would reveal it with 99.3 %.

    reserve(decision, epsilon)  ──▶  the reward becomes known  ──▶  report(decision, reward)  ──▶  settle(decision)
    paid, or ``Overdraft``                                          drawn once, stored             bit deleted

Guarantee
---------
Without a delta the epsilons add up (exactly: ten reports of 0.1 fit a cap of 1). With one they compose as in
``composition``, and must be set without looking at the reports. Nothing is refunded, because a missing reward may be
informative. A cap may renew (``period``): then a payment counts for one period from its reservation.

Storage
-------
On disk the ledger is one SQLite file. Its journal is a file beside it while something is written, and is then deleted:
a write-ahead log would be faster, but a damaged end of it is dropped silently, and with it payments. The folder is
synchronised as well (``EXTRA``), so that a power cut cannot bring the journal back and undo a draw. Every row has a
checksum, because SQLite would not notice a changed digit. The file counts its writes, so an older copy, restored while
the ledger is open, has a smaller number. It stores its cap, delta and period, so that a bug cannot change them. The
reward is never written, not even temporarily.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

from ...errors import UserError
from ..composition import check_delta, fits_cap, sum_epsilons, total_epsilon
from ..exact import Number, as_epsilon, as_number, as_sum, as_text
from ..randomized_response import KaryRandomizer, Report, mechanism_for
from . import storage
from .errors import LedgerError, Overdraft, TermsMismatch, translate_ledger_errors
from .period import FOR_EVER, LONG_AGO, PeriodLike, combine_clocks, date_payment, parse_period, read_clock, still_counts
from .storage import DecisionName, LedgerTerms, check_decision_name


class Ledger:
    """The privacy budget of a device, in memory or in a file that survives crashes and is shared by processes.

    Examples
    --------
    >>> ledger = Ledger(cap=1)
    >>> ledger.reserve("headline 7", epsilon=0.5)
    >>> ledger.report("headline 7", 1) == ledger.report("headline 7", 0)  # a retry
    True
    >>> ledger.remaining
    Fraction(1, 2)

    """

    def __init__(
        self,
        cap: Number,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float = 0.0,
        per: PeriodLike = None,
        change: bool = False,
        shared: bool = False,
    ) -> None:
        """Open a ledger.

        Parameters
        ----------
        cap
            The largest total epsilon.
        path
            The file; in memory without one. A file keeps the terms it was created with.
        delta
            The allowed probability of a larger loss.
        per
            The period of the cap, such as "30 days": the cap holds in every interval of that length.
        change
            Change the terms of the file to these.
        shared
            Without a path: all such ledgers of this process are one, which outlives each of them.

        Raises
        ------
        UserError
            A parameter is out of range.
        LedgerError
            The file cannot be opened, is damaged, or has other terms.

        """
        self.cap, self.delta, self._period = as_number("cap", cap), check_delta(delta), parse_period(per)
        if self.cap < 0:
            raise UserError(f"cap = {as_text(self.cap)} is negative: give 0 or more")
        self.path = None if path is None else Path(path).absolute()
        self._process, self._lock, self._closed = os.getpid(), threading.Lock(), False
        self._name = "ledger in memory" if self.path is None else str(self.path)
        self._seen_writes, self._is_shared = 0, shared and path is None  # in the file
        self._terms = LedgerTerms(self.cap, self.delta, self._period)
        with translate_ledger_errors(self._name):
            if self.path is not None:
                self._connection = storage.open_file(self.path, self._terms, change)
            elif shared:
                self._connection, self._lock = storage.open_shared(self._terms)
            else:
                self._connection = storage.open_in_memory(self._terms)
            self._file = self._identity()
        try:
            with self._read_transaction():
                pass  # check the terms
        except BaseException:
            self.close()
            raise

    def reserve(self, decision: DecisionName, epsilon: Number, elsewhere: float | None = None) -> None:
        """Pay for the report of a decision before its reward is known. Repeating it costs nothing.

        Parameters
        ----------
        decision
            The name of the decision.
        epsilon
            The epsilon of its report.
        elsewhere
            The time of another clock, such as a server's, in seconds since 1970. A cap renews only when both clocks
            agree, so setting one clock ahead gains nothing.

        Raises
        ------
        Overdraft
            The report would exceed the cap.
        LedgerError
            The decision was reserved at another epsilon, or the file cannot be used.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=0.5)
        >>> ledger.reserve("headline 7", epsilon=0.5)  # again: it costs nothing
        >>> ledger.spent
        Fraction(1, 2)

        """
        name, requested = check_decision_name(decision), storage.encode_epsilon(as_epsilon(epsilon))
        with self._transaction() as connection:
            entry = storage.find_entry(connection, name)
            if entry is None:
                spending, at = self._read_spending(connection)
                judged, latest = combine_clocks(at, elsewhere, self._period)
                counts = storage.count_reports(spending, self._period, judged)
                self._check_cap(name, counts, {**counts, Fraction(requested): counts.get(Fraction(requested), 0) + 1})
                storage.write_entry(connection, name, requested, None)
                self._pay(connection, spending, requested, judged, latest)
            elif entry.epsilon != requested:
                before, now = as_text(Fraction(entry.epsilon)), as_text(Fraction(requested))
                raise LedgerError(
                    f"decision {name!r} is reserved at epsilon = {before}, not {now}: use the first epsilon"
                )

    def report(self, decision: DecisionName, value: float) -> Report:
        """Return the report of a reserved decision, drawn from the value at the first call and the same ever after.

        Parameters
        ----------
        decision
            The name of the decision.
        value
            The reward, a number in [0, 1].

        Returns
        -------
        Report
            The masked bit with its epsilon.

        Raises
        ------
        LedgerError
            The decision was not reserved, or is settled.
        UserError
            The value is not a number in [0, 1].

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=1)
        >>> ledger.report("headline 7", 1).bit in (0, 1)
        True

        """
        name = check_decision_name(decision)
        with self._transaction() as connection:
            entry = storage.require_entry(connection, name)
            mechanism = mechanism_for(Fraction(entry.epsilon))
            bit = mechanism.bit(value)  # discarded by a retry
            if entry.bit is None:
                storage.write_entry(connection, name, entry.epsilon, bit)
            else:
                bit = storage.stored_bit(entry)
        return mechanism.as_report(bit)

    def answer(self, decision: DecisionName, truth: int, answers: int) -> int:
        """Return the masked answer of a reserved decision, drawn at the first call and the same ever after.

        Parameters
        ----------
        decision
            The name of the decision.
        truth
            The true answer.
        answers
            The number of answers.

        Returns
        -------
        int
            The masked answer.

        Raises
        ------
        LedgerError
            The decision was not reserved, or is settled.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("survey", epsilon=1)
        >>> ledger.answer("survey", truth=2, answers=4) in range(4)
        True

        """
        name = check_decision_name(decision)
        with self._transaction() as connection:
            entry = storage.require_entry(connection, name)
            answer = KaryRandomizer(answers, Fraction(entry.epsilon)).answer(truth)  # discarded by a retry
            if entry.bit is None:
                storage.write_entry(connection, name, entry.epsilon, storage.FIRST_ANSWER_CODE + answer)
            else:
                answer = storage.stored_answer(entry, answers)
        return answer

    def recall(self, decision: DecisionName) -> Report | None:
        """Return the report of a reserved decision if it is drawn, for a retry without the value.

        Parameters
        ----------
        decision
            The name of the decision.

        Returns
        -------
        Report or None
            None if it is not drawn.

        Raises
        ------
        LedgerError
            The decision was not reserved, or is settled.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=1)
        >>> print(ledger.recall("headline 7"))
        None
        >>> report = ledger.report("headline 7", 1)
        >>> ledger.recall("headline 7") == report
        True

        """
        name = check_decision_name(decision)
        with self._read_transaction() as connection:
            entry = storage.require_entry(connection, name)
        if entry.bit is None:
            return None
        return mechanism_for(Fraction(entry.epsilon)).as_report(storage.stored_bit(entry))

    def epsilon_of(self, decision: DecisionName) -> Fraction:
        """Return the epsilon at which a decision is reserved.

        Parameters
        ----------
        decision
            The name of the decision.

        Returns
        -------
        Fraction
            The epsilon of its report or answer.

        Raises
        ------
        LedgerError
            The decision was not reserved.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=0.1)
        >>> ledger.epsilon_of("headline 7")
        Fraction(1, 10)

        """
        name = check_decision_name(decision)
        with self._read_transaction() as connection:
            return Fraction(storage.require_entry(connection, name).epsilon)

    def is_drawn(self, decision: DecisionName) -> bool:
        """Tell whether the report or answer of a reserved decision is drawn.

        Parameters
        ----------
        decision
            The name of the decision.

        Returns
        -------
        bool
            Whether it is drawn.

        Raises
        ------
        LedgerError
            The decision was not reserved, or is settled.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=1)
        >>> ledger.is_drawn("headline 7")
        False

        """
        name = check_decision_name(decision)
        with self._read_transaction() as connection:
            entry = storage.require_entry(connection, name)
        if entry.bit == storage.FORGOTTEN:
            storage.stored_bit(entry)
        return entry.bit is not None

    def rewrite(self, decision: DecisionName) -> None:
        """Write a drawn report again, unchanged. This takes a disk as long as drawing it.

        Parameters
        ----------
        decision
            The name of the decision.

        Raises
        ------
        LedgerError
            The decision was not reserved.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=1)
        >>> report = ledger.report("headline 7", 1)
        >>> ledger.rewrite("headline 7")
        >>> ledger.recall("headline 7") == report
        True

        """
        name = check_decision_name(decision)
        with self._transaction() as connection:
            entry = storage.require_entry(connection, name)
            storage.write_entry(connection, name, entry.epsilon, entry.bit)

    def settle(self, decision: DecisionName) -> None:
        """Delete the bit of a report that was received. Its cost stays spent.

        Parameters
        ----------
        decision
            The name of the decision.

        Raises
        ------
        LedgerError
            The decision was not reserved, or has no report yet.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.reserve("headline 7", epsilon=0.5)
        >>> report = ledger.report("headline 7", 1)
        >>> ledger.settle("headline 7")
        >>> ledger.spent
        Fraction(1, 2)

        """
        name = check_decision_name(decision)
        with self._transaction() as connection:
            entry = storage.require_entry(connection, name)
            if entry.bit is None:
                raise LedgerError(f"decision {name!r} has no report yet: call report() before settle()")
            storage.write_entry(connection, name, entry.epsilon, storage.FORGOTTEN)

    @property
    def spent(self) -> Fraction:
        """The total epsilon of all reservations that still count, at this ledger's delta."""
        with self._read_transaction() as connection:
            spending, at = self._read_spending(connection)
            counts = storage.count_reports(spending, self._period, at)
        return total_epsilon(counts, self.delta)

    @property
    def remaining(self) -> Fraction:
        """The rest of the cap. With a delta, more than one report of it may fit."""
        return max(self.cap - self.spent, Fraction(0))

    @property
    def total(self) -> Fraction:
        """The total epsilon of all reservations ever, also if the cap renews."""
        with self._read_transaction() as connection:
            counts = storage.count_reports(storage.read_spending(connection))
        return total_epsilon(counts, self.delta)

    @property
    def reports(self) -> int:
        """Number of reports paid for, ever."""
        with self._read_transaction() as connection:
            return sum(storage.read_spending(connection).values())

    def close(self) -> None:
        """Close the file.

        Examples
        --------
        >>> ledger = Ledger(cap=1)
        >>> ledger.close()

        """
        if os.getpid() != self._process:  # in a fork the file belongs to the parent
            return
        with self._lock:
            self._closed = True
            if not self._is_shared:
                self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger, {self._name}, cap={self._terms.limit}, delta={self.delta:g}>"

    def _read_spending(self, connection: sqlite3.Connection) -> tuple[storage.Spending, int]:
        """Return all payments and the current time. A cap that does not renew needs no clock."""
        spending = storage.read_spending(connection)
        return spending, 0 if self._period == FOR_EVER else read_clock()

    def _pay(
        self, connection: sqlite3.Connection, spending: storage.Spending, epsilon: str, at: int, latest: int
    ) -> None:
        """Write a payment, and erase the moments of payments that no longer count."""
        moment = LONG_AGO if self._period == FOR_EVER else date_payment(latest, (moment for moment, _ in spending))
        storage.redate_payments(
            connection, spending, lambda other: other if still_counts(other, self._period, at) else LONG_AGO
        )
        storage.write_payment(connection, moment, epsilon, spending.get((moment, epsilon), 0) + 1)

    def _check_cap(self, name: str, counts: storage.Counts, more: storage.Counts) -> None:
        if fits_cap(more, self.cap, self.delta):
            return
        spent, total = total_epsilon(counts, self.delta), total_epsilon(more, self.delta)
        requested = sum_epsilons(more) - sum_epsilons(counts)
        raise Overdraft(
            f"decision {name!r}: {as_sum(spent)} is spent, another {as_sum(requested)} makes {as_sum(total)}, above "
            f"the cap of {self._terms.limit}: leave it unreported, or raise the cap"
        )

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Commit all changes or none, with exclusive access, durable at the end."""
        with self._borrow_connection() as connection:
            try:  # start before BEGIN: the exception of a signal may follow at once
                connection.execute(begin)
                terms, before = self._check_terms(connection), connection.total_changes
                yield connection
                if connection.total_changes != before:
                    terms = storage.count_write(connection, terms)
                connection.execute("COMMIT")
                self._seen_writes = terms.writes
            except BaseException:
                storage.roll_back(connection)
                raise

    def _read_transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Read one snapshot without blocking writers."""
        return self._transaction("BEGIN")

    @contextlib.contextmanager
    def _borrow_connection(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread, if it still belongs to this process and this file."""
        if os.getpid() != self._process:  # check before the lock, which a fork may have copied locked
            raise LedgerError(f"{self._name}: opened by another process: open it again in this process")
        with self._lock, translate_ledger_errors(self._name):
            if self._closed:
                raise LedgerError(f"{self._name}: closed: open it again")
            if self._identity() != self._file:
                raise LedgerError(f"{self._name}: replaced while in use, so no report is made: open it again")
            storage.roll_back(self._connection)  # left open by the exception of a signal
            yield self._connection

    def _check_terms(self, connection: sqlite3.Connection) -> LedgerTerms:
        """Return the file's terms. Refuse a file that is older than before, or was made for less."""
        terms = storage.read_terms(connection)
        if terms.writes < self._seen_writes:
            raise LedgerError(
                f"{self._name}: an older copy was restored, so no report is made: restore the newest copy"
            )
        if self.cap > terms.cap or (self.delta, self._period) != (terms.delta, terms.period):
            raise TermsMismatch(
                f"{self._name}: has {terms}, not {self._terms}: use its own terms or a lower cap, or open it "
                "once with change=True",
                terms.delta,
                terms.period,
            )
        self._seen_writes = terms.writes
        return terms

    def _identity(self) -> tuple[int, int] | None:
        """Identify the file, to distinguish it from another of the same name."""
        if self.path is None:
            return None
        status = self.path.stat()
        return status.st_dev, status.st_ino
