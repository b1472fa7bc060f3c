"""What a device has spent of its privacy: a cap that no report may pass, and one report for each decision.

A decision is reserved *before* its reward is known, and paid for then: whether it is refused cannot depend on the
reward. Its report is drawn once, written down, and only then handed out. A retry gets the same bit again, whatever
happened in between: 25 fresh reports of one bit at epsilon = 1 would give it away with 99.3 %.

    reserve(decision, epsilon)  ──▶  the reward becomes known  ──▶  report(decision, reward)  ──▶  settle(decision)
    paid, or ``Overdraft``                                          drawn once, remembered         bit forgotten

Without a delta the epsilons add up (exactly: ten reports of 0.1 fit a cap of 1); with one, they compose as in
``composition``, and must be set without looking at the reports. Nothing is paid back: that a reward never came may say
something about it.

A cap may renew (``period``): then a payment counts for that long from the moment a decision was reserved.

On disk it is one SQLite file. Its journal is a file beside it while something is written, and is then deleted (a
write-ahead log would be faster, but the end of a damaged one is dropped in silence, and with it what was spent). Its
folder is synchronised as well (``EXTRA``), lest a power cut bring the journal back and undo a draw. Every row carries
a check sum, as SQLite would not notice a changed digit. The file counts its writes: an older copy, put back while it is
open, is known by its smaller number. It holds its cap, its delta and its period, lest a slip in a program change them.
What is never written, not even for a moment, is the reward.
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
from ..composition import added, as_delta, fits, total_epsilon
from ..exact import Number, as_epsilon, as_number, as_sum, as_text
from ..randomized_response import KaryRandomizer, Report, mechanism_for
from . import storage
from .errors import LedgerError, OtherTerms, Overdraft, told
from .period import FOR_EVER, LONG_AGO, Length, as_period, by_both, moment_at, now, still_counts
from .storage import Decision, Terms, name_of


class Ledger:
    """What a device may still report: in memory, or in a file that outlives crashes and is shared by processes.

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
        per: Length = None,
        change: bool = False,
        shared: bool = False,
    ) -> None:
        """Open a ledger; a file keeps the terms that it was made with, unless change is asked for.

        With ``per``, such as "30 days", a payment counts for that long: the cap holds in any stretch of that length.
        With ``shared`` and no path, all such ledgers of this process are one, which outlives each of them.
        """
        self.cap, self.delta, self._period = as_number("cap", cap), as_delta(delta), as_period(per)
        if self.cap < 0:
            raise UserError(f"cap = {as_text(self.cap)} is negative: give 0 or more")
        self.path = None if path is None else Path(path).absolute()
        self._process, self._lock, self._closed = os.getpid(), threading.Lock(), False
        self._name = "ledger in memory" if self.path is None else str(self.path)
        self._seen, self._is_shared = 0, shared and path is None  # writes that were seen
        self._terms = Terms(self.cap, self.delta, self._period)
        with told(self._name):
            if self.path is not None:
                self._connection = storage.in_file(self.path, self._terms, change)
            elif shared:
                self._connection, self._lock = storage.of_process(self._terms)
            else:
                self._connection = storage.in_memory(self._terms)
            self._file = self._identity()
        try:
            with self._reading():
                pass  # its terms may be others
        except BaseException:
            self.close()
            raise

    def reserve(self, decision: Decision, epsilon: Number, elsewhere: float | None = None) -> None:
        """Pay for the report of a decision whose reward is not known yet; to repeat it costs nothing.

        ``elsewhere`` is what time it is by another clock, such as a server's, in seconds since 1970. A cap that renews
        does so only when both clocks say so: then no clock that is set ahead can pass it alone.
        """
        name, asked = name_of(decision), storage.written(as_epsilon(epsilon))
        with self._transaction() as connection:
            entry = storage.entry_of(connection, name)
            if entry is None:
                spending, at = self._spending(connection)
                judged, latest = by_both(at, elsewhere, self._period)
                counts = storage.counted(spending, self._period, judged)
                self._refuse_overdraft(name, counts, {**counts, Fraction(asked): counts.get(Fraction(asked), 0) + 1})
                storage.write_entry(connection, name, asked, None)
                self._pay(connection, spending, asked, judged, latest)
            elif entry.epsilon != asked:
                before, now = as_text(Fraction(entry.epsilon)), as_text(Fraction(asked))
                raise LedgerError(f"decision {name!r} is reserved at epsilon = {before}, not {now}: keep to the first")

    def report(self, decision: Decision, value: float) -> Report:
        """Return the report of a reserved decision: drawn from the value the first time, the same ever after."""
        name = name_of(decision)
        with self._transaction() as connection:
            entry = storage.reserved(connection, name)
            mechanism = mechanism_for(Fraction(entry.epsilon))
            bit = mechanism.bit(value)  # a retry's is thrown away
            if entry.bit is None:
                storage.write_entry(connection, name, entry.epsilon, bit)
            else:
                bit = storage.remembered(entry)
        return mechanism.as_report(bit)

    def answer(self, decision: Decision, truth: int, answers: int) -> int:
        """Return the masked answer, one of several, of a reserved decision: drawn once, the same ever after."""
        name = name_of(decision)
        with self._transaction() as connection:
            entry = storage.reserved(connection, name)
            drawn = KaryRandomizer(answers, Fraction(entry.epsilon)).answer(truth)  # a retry's is thrown away
            if entry.bit is None:
                storage.write_entry(connection, name, entry.epsilon, storage.ANSWERS + drawn)
            else:
                drawn = storage.remembered_answer(entry, answers)
        return drawn

    def recall(self, decision: Decision) -> Report | None:
        """Return the report of a reserved decision if it has been drawn: for a retry that lost the value."""
        name = name_of(decision)
        with self._reading() as connection:
            entry = storage.reserved(connection, name)
        if entry.bit is None:
            return None
        return mechanism_for(Fraction(entry.epsilon)).as_report(storage.remembered(entry))

    def epsilon_of(self, decision: Decision) -> Fraction:
        """Return the epsilon at which a decision is reserved, and its report or answer is masked."""
        name = name_of(decision)
        with self._reading() as connection:
            return Fraction(storage.reserved(connection, name).epsilon)

    def drawn(self, decision: Decision) -> bool:
        """Tell whether the report, or the answer, of a reserved decision has been drawn; refuse one that is settled."""
        name = name_of(decision)
        with self._reading() as connection:
            entry = storage.reserved(connection, name)
        if entry.bit == storage.FORGOTTEN:
            storage.remembered(entry)
        return entry.bit is not None

    def write_again(self, decision: Decision) -> None:
        """Write a drawn report down again as it is: this takes a disk as long as to draw it."""
        name = name_of(decision)
        with self._transaction() as connection:
            entry = storage.reserved(connection, name)
            storage.write_entry(connection, name, entry.epsilon, entry.bit)

    def settle(self, decision: Decision) -> None:
        """Forget the bit of a report that has been received; what it cost stays spent."""
        name = name_of(decision)
        with self._transaction() as connection:
            entry = storage.reserved(connection, name)
            if entry.bit is None:
                raise LedgerError(f"decision {name!r} has no report yet: nothing can have been received")
            storage.write_entry(connection, name, entry.epsilon, storage.FORGOTTEN)

    @property
    def spent(self) -> Fraction:
        """The epsilon of everything reserved so far that still counts, together, at this ledger's delta."""
        with self._reading() as connection:
            spending, at = self._spending(connection)
            counts = storage.counted(spending, self._period, at)
        return total_epsilon(counts, self.delta)

    @property
    def remaining(self) -> Fraction:
        """What is left of the cap; with a delta, more than one report of it may fit."""
        return max(self.cap - self.spent, Fraction(0))

    @property
    def total(self) -> Fraction:
        """The epsilon of everything reserved ever, together, at this ledger's delta, also where the cap renews."""
        with self._reading() as connection:
            counts = storage.counted(storage.spending_of(connection))
        return total_epsilon(counts, self.delta)

    @property
    def reports(self) -> int:
        """How many reports have been paid for, ever."""
        with self._reading() as connection:
            return sum(storage.spending_of(connection).values())

    def close(self) -> None:
        """Close the file; everything is written already."""
        if os.getpid() != self._process:  # a fork's copy: the file is its parent's
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

    def _spending(self, connection: sqlite3.Connection) -> tuple[storage.Spending, int]:
        """Return all payments, and what time it is; a cap that does not renew asks no clock."""
        spending = storage.spending_of(connection)
        return spending, 0 if self._period == FOR_EVER else now()

    def _pay(
        self, connection: sqlite3.Connection, spending: storage.Spending, epsilon: str, at: int, latest: int
    ) -> None:
        """Write a payment down; when earlier ones were made is forgotten as soon as they do not count."""
        moment = LONG_AGO if self._period == FOR_EVER else moment_at(latest, (moment for moment, _ in spending))
        storage.date_anew(
            connection, spending, lambda other: other if still_counts(other, self._period, at) else LONG_AGO
        )
        storage.write_spending(connection, moment, epsilon, spending.get((moment, epsilon), 0) + 1)

    def _refuse_overdraft(self, name: str, counts: storage.Counts, more: storage.Counts) -> None:
        if fits(more, self.cap, self.delta):
            return
        spent, total = total_epsilon(counts, self.delta), total_epsilon(more, self.delta)
        asked = added(more) - added(counts)
        raise Overdraft(
            f"decision {name!r}: {as_sum(spent)} is spent, another {as_sum(asked)} makes {as_sum(total)}, above "
            f"the cap of {self._terms.limit}: leave it unreported, or raise the cap"
        )

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Write everything or nothing, while nobody else writes; on disk when it ends."""
        with self._lent() as connection:
            try:  # before it begins: a signal's exception may come right after
                connection.execute(begin)
                terms, before = self._noticed(connection), connection.total_changes
                yield connection
                if connection.total_changes != before:
                    terms = storage.write_again(connection, terms)
                connection.execute("COMMIT")
                self._seen = terms.writes
            except BaseException:
                storage.undo(connection)
                raise

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Read everything as it was at one moment, and keep nobody from writing until then."""
        return self._transaction("BEGIN")

    @contextlib.contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread, if it is still this process's and still the file's."""
        if os.getpid() != self._process:  # before the lock, which a fork may have copied closed
            raise LedgerError(f"{self._name}: opened by another process: open it in this one, too")
        with self._lock, told(self._name):
            if self._closed:
                raise LedgerError(f"{self._name}: closed: open it again")
            if self._identity() != self._file:
                raise LedgerError(f"{self._name}: replaced while in use, so no report is made: open it again")
            storage.undo(self._connection)  # what a signal's exception kept from being undone
            yield self._connection

    def _noticed(self, connection: sqlite3.Connection) -> Terms:
        """Return the file's terms; refuse a file that is older than it was, or made for less than is asked now."""
        terms = storage.terms_of(connection)
        if terms.writes < self._seen:
            raise LedgerError(f"{self._name}: older than it was, so no report is made: put the newest copy back")
        if self.cap > terms.cap or (self.delta, self._period) != (terms.delta, terms.period):
            raise OtherTerms(
                f"{self._name}: made for {terms}, not {self._terms}: keep to its own, or to a lower cap, or open it "
                "once with change=True",
                terms.delta,
                terms.period,
            )
        self._seen = terms.writes
        return terms

    def _identity(self) -> tuple[int, int] | None:
        """Tell one file from another of the same name."""
        if self.path is None:
            return None
        found = self.path.stat()
        return found.st_dev, found.st_ino
