"""The one thread of a process that writes: many reports become durable at once, and only then is any acknowledged.

Requests put what is to be written into a queue and await it. The thread takes all that has gathered, writes it in one
transaction, and tells everybody: while one transaction is under way, the next one gathers (group commit). When the
store cannot be reached it tries again for a moment (reports of which it is not known whether they were committed are
looked up first), then gives up what it holds (nothing of it is acknowledged: whoever asked tries again, and what was
written after all is a duplicate then), refuses what comes, and looks out for the store.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from maskedbandits.service.server import logging
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.storage.models import NewReport, Visit

MOST_AT_ONCE = 2_000  # reports in a transaction
PATIENCE = 2.0  # seconds for which a transaction is tried again
PAUSE = 0.1  # seconds between two tries
TRIED = "room"  # under which it is tried whether the store takes something again
ROOM, ROOM_OF_ONE = 16_384, 256  # bytes that a transaction needs, and each report in it

T = TypeVar("T")


class Job(NamedTuple):
    """What somebody waits for: reports, a visit, or anything else that is done with the store."""

    future: asyncio.Future[Any]
    reports: Sequence[NewReport] = ()
    visit: Visit | None = None
    work: Callable[[Store], Any] | None = None


class Writer:
    """Writes for a process; all but its thread is called from the event loop."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        loop: asyncio.AbstractEventLoop,
        written: Callable[[], None] = lambda: None,
        most_waiting: int = 20_000,
        known: Callable[[int], int] = lambda experiment: 0,
    ) -> None:
        self._open_store, self._loop, self._written = open_store, loop, written
        self._known = known  # up to which number an experiment's log has been read
        self._most_waiting = most_waiting  # reports in the queue: more are refused, and come again
        self._store: Store | None = None
        self._jobs: deque[Job] = deque()
        self._waiting = 0  # reports in the queue
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="maskedbandits-writer", daemon=True)
        self.trouble: StoreUnavailable | None = None  # why nothing can be written now

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, and end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def reports(self, reports: Sequence[NewReport]) -> asyncio.Future[list[int]]:
        """Return what becomes the store's answers, one a report, once all of them are durable."""
        if self._waiting + len(reports) > self._most_waiting:
            raise StoreUnavailable("more reports are waiting to be written than there is room for")
        return self._put(Job(self._loop.create_future(), reports=reports))

    def visit(self, visit: Visit) -> asyncio.Future[bytes]:
        """Return what becomes the token that a visitor keeps, once it is durable."""
        return self._put(Job(self._loop.create_future(), visit=visit))

    def call(self, work: Callable[[Store], T]) -> asyncio.Future[T]:
        """Return what becomes the result of some work with the store."""
        return self._put(Job(self._loop.create_future(), work=work))

    def _put(self, job: Job) -> asyncio.Future[Any]:
        if self.trouble is not None:
            raise self.trouble
        with self._wake:
            self._jobs.append(job)
            self._waiting += len(job.reports)
            self._wake.notify()
        return job.future

    def _run(self) -> None:
        try:
            while jobs := self._next():
                self._answer(jobs)
                if self.trouble is not None:
                    self._look_out(sum(len(job.reports) for job in jobs))
        finally:
            if self._store is not None:
                self._store.close()

    def _next(self) -> list[Job]:
        """Wait for jobs, and return as many as one transaction takes; none when it is time to end."""
        with self._wake:
            while not self._jobs and not self._stopping:
                self._wake.wait()
            jobs: list[Job] = []
            size = 0
            while self._jobs and size < MOST_AT_ONCE:
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].reports)
            self._waiting -= size
            return jobs

    def _answer(self, jobs: list[Job]) -> None:
        """Do the jobs, and tell those who wait."""
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        reporting = [job for job in jobs if job.reports]
        visiting = [job for job in jobs if job.visit is not None]
        if reporting:
            rows = [row for job in reporting for row in job.reports]
            found = self._durably(self._appending(rows))
            answers += zip((job.future for job in reporting), _shared_out(reporting, found), strict=True)
        if visiting:
            visits = [job.visit for job in visiting if job.visit is not None]
            kept = self._durably(lambda store: store.assign_tokens(visits))
            each = [kept] * len(visiting) if isinstance(kept, Exception) else kept
            answers += zip((job.future for job in visiting), each, strict=True)
        for job in jobs:
            if job.work is not None:
                answers.append((job.future, self._durably(job.work, again=False)))
        self._loop.call_soon_threadsafe(_tell, answers)
        self._written()

    def _appending(self, rows: Sequence[NewReport]) -> Callable[[Store], list[int]]:
        """Return what appends reports, however often it is tried.

        If the connection was lost while they were committed, they are looked up first: what this very batch has written
        is accepted, and no duplicate.
        """
        before = {experiment: self._known(experiment) for experiment in {row.experiment for row in rows}}
        in_doubt = False

        def append(store: Store) -> list[int]:
            nonlocal in_doubt
            found = store.recover_append(rows, before) if in_doubt else None
            if found is not None:
                return found
            try:
                return store.append(rows)
            except StoreUnavailable as gone:
                in_doubt = in_doubt or gone.may_be_committed
                raise

        return append

    def _durably(self, work: Callable[[Store], T], *, again: bool = True) -> T | Exception:
        """Return what some work with the store gives; it is tried again while the store cannot be reached.

        What must not be done twice is not tried again if it may have been done.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                if self._store is None:
                    self._store = self._open_store()
                done = work(self._store)
            except StoreUnavailable as gone:
                if time.monotonic() > until or self.trouble is not None:
                    if self.trouble is None:
                        logging.event("nothing can be written", reason=gone.reason)
                    self.trouble = gone
                    return gone
                if gone.may_be_committed and not again:
                    return gone
                time.sleep(PAUSE)
            except Exception as error:  # a user's mistake, or ours: it belongs to whoever asked
                return error
            else:
                self.trouble = None
                return done

    def _look_out(self, lost: int) -> None:
        """Wait until the store is there again; whatever waits, or is asked for meanwhile, is refused.

        It is there when as much can be written as the reports that were lost need: from a full disk everything can be
        read, and a word still fits where many reports do not.
        """

        def tried(store: Store) -> None:
            store.set_meta(TRIED, "." * (ROOM + ROOM_OF_ONE * lost))
            store.set_meta(TRIED, ".")

        with self._wake:
            refused, self._jobs, self._waiting = self._jobs, deque(), 0
        self._loop.call_soon_threadsafe(_tell, [(job.future, self.trouble) for job in refused])
        while self.trouble is not None and not self._stopping:
            time.sleep(PAUSE)
            self._durably(tried)


def _shared_out(jobs: Sequence[Job], found: list[int] | Exception) -> list[Any]:
    """Return to each job the answers to its own reports."""
    if isinstance(found, Exception):
        return [found] * len(jobs)
    shares, place = [], 0
    for job in jobs:
        shares.append(found[place : place + len(job.reports)])
        place += len(job.reports)
    return shares


def _tell(answers: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Tell those who still wait."""
    for future, answer in answers:
        if future.done():  # whoever asked has gone
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
