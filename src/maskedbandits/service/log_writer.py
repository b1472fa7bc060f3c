"""The log writer: the one thread of a process that writes, many reports in one transaction (group commit).

Requests queue their work and await it. The thread takes all that is in the queue, writes it in one transaction, and
then answers everyone. While one transaction is under way, the next one gathers. A report is acknowledged only when it
is durable.

If the store cannot be reached, the writer tries again for a moment. Reports whose commit is in doubt are looked up
first. Then it gives up the work that it holds, refuses new work, and waits for the store. Nothing of that is
acknowledged, so devices send it again, and a report that was written after all is a duplicate then.
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

MAX_REPORTS_AT_ONCE = 2_000  # in a transaction
COMMIT_TIMEOUT_S = 2.0  # for which a transaction is tried again
PAUSE_S = 0.1  # between two tries
PROBE = "room"  # the name under which the writer tries whether the store takes something again
PROBE_BYTES, PROBE_BYTES_PER_REPORT = 16_384, 256  # what a transaction needs, and each report in it

T = TypeVar("T")


class Job(NamedTuple):
    """Work that a request awaits: reports, a visit, or a call with the store."""

    future: asyncio.Future[Any]
    reports: Sequence[NewReport] = ()
    visit: Visit | None = None
    work: Callable[[Store], Any] | None = None


class LogWriter:
    """Writes for a process; all but its thread is for use in the event loop."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        loop: asyncio.AbstractEventLoop,
        on_written: Callable[[], None] = lambda: None,
        max_waiting: int = 20_000,
        last_seq: Callable[[int], int] = lambda experiment_id: 0,
        store_outage: logging.Outage | None = None,
    ) -> None:
        self._open_store, self._loop, self._on_written = open_store, loop, on_written
        self._last_seq = last_seq  # the last event that was read of an experiment
        self._store_outage = store_outage or logging.build_store_outage()
        self._max_waiting = max_waiting  # reports in the queue: more are refused
        self._store: Store | None = None
        self._jobs: deque[Job] = deque()
        self._waiting = 0  # reports in the queue
        self._wake = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="maskedbandits-log-writer", daemon=True)
        self.trouble: StoreUnavailable | None = None  # why nothing can be written now

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write everything in the queue, and stop."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        self._thread.join()

    @property
    def queued(self) -> int:
        """The reports that wait to be written."""
        return self._waiting

    def append(self, reports: Sequence[NewReport]) -> asyncio.Future[list[int]]:
        """Append reports; the future has the store's answer to each, once all of them are durable."""
        if self._waiting + len(reports) > self._max_waiting:
            raise StoreUnavailable("more reports are waiting to be written than there is room for")
        return self._put(Job(self._loop.create_future(), reports=reports))

    def visit(self, visit: Visit) -> asyncio.Future[bytes]:
        """Store a visit; the future has the token of the visitor, once it is durable."""
        return self._put(Job(self._loop.create_future(), visit=visit))

    def call(self, work: Callable[[Store], T]) -> asyncio.Future[T]:
        """Call a function with the store; the future has its result."""
        return self._put(Job(self._loop.create_future(), work=work))

    def _put(self, job: Job) -> asyncio.Future[Any]:
        if self.trouble is not None:
            raise self.trouble
        with self._wake:
            self._jobs.append(job)
            self._waiting += len(job.reports)
            self._wake.notify()
        return job.future

    # The thread

    def _run(self) -> None:
        try:
            while jobs := self._take_jobs():
                self._do_jobs(jobs)
                if self.trouble is not None:
                    self._wait_for_store(sum(len(job.reports) for job in jobs))
        finally:
            if self._store is not None:
                self._store.close()

    def _take_jobs(self) -> list[Job]:
        """Wait for jobs, and return as many as one transaction takes; none when it is time to stop."""
        with self._wake:
            while not self._jobs and not self._is_stopping:
                self._wake.wait()
            jobs: list[Job] = []
            size = 0
            while self._jobs and size < MAX_REPORTS_AT_ONCE:
                jobs.append(self._jobs.popleft())
                size += len(jobs[-1].reports)
            self._waiting -= size
            return jobs

    def _do_jobs(self, jobs: list[Job]) -> None:
        """Do jobs, and resolve their futures."""
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        reporting = [job for job in jobs if job.reports]
        visiting = [job for job in jobs if job.visit is not None]
        if reporting:
            rows = [row for job in reporting for row in job.reports]
            results = self._run_durably(self._append_once(rows))
            answers += zip((job.future for job in reporting), _split_results(reporting, results), strict=True)
        if visiting:
            visits = [job.visit for job in visiting if job.visit is not None]
            tokens = self._run_durably(lambda store: store.assign_tokens(visits))
            each = [tokens] * len(visiting) if isinstance(tokens, Exception) else tokens
            answers += zip((job.future for job in visiting), each, strict=True)
        for job in jobs:
            if job.work is not None:
                answers.append((job.future, self._run_durably(job.work, is_repeatable=False)))
        self._loop.call_soon_threadsafe(_resolve, answers)
        self._on_written()

    def _append_once(self, rows: Sequence[NewReport]) -> Callable[[Store], list[int]]:
        """Return a function that appends reports once, however often it is called.

        If the connection was lost during a commit, it looks them up first: reports that this batch has written are
        accepted, and no duplicates.
        """
        before = {experiment_id: self._last_seq(experiment_id) for experiment_id in {row.experiment for row in rows}}
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

    def _run_durably(self, work: Callable[[Store], T], *, is_repeatable: bool = True) -> T | Exception:
        """Return the result of some work with the store, or its error; try again while the store is unavailable.

        Work that is not repeatable is not tried again if it may have been done.
        """
        until = time.monotonic() + COMMIT_TIMEOUT_S
        while True:
            try:
                if self._store is None:
                    self._store = self._open_store()
                result = work(self._store)
            except StoreUnavailable as gone:
                if time.monotonic() > until or self.trouble is not None:
                    self._store_outage.begin("log writer", reason=gone.reason)
                    self.trouble = gone
                    return gone
                if gone.may_be_committed and not is_repeatable:
                    return gone
                time.sleep(PAUSE_S)
            except Exception as error:  # a user's mistake or a fault: the request gets it
                return error
            else:
                self.trouble = None
                self._store_outage.end("log writer")
                return result

    def _wait_for_store(self, lost: int) -> None:
        """Refuse all jobs until the store is available again.

        It is available when it has room for the reports that were lost: a full disk can still be read, and a word fits
        where many reports do not.
        """

        def probe(store: Store) -> None:
            store.set_meta(PROBE, "." * (PROBE_BYTES + PROBE_BYTES_PER_REPORT * lost))
            store.set_meta(PROBE, ".")

        with self._wake:
            refused, self._jobs, self._waiting = self._jobs, deque(), 0
        self._loop.call_soon_threadsafe(_resolve, [(job.future, self.trouble) for job in refused])
        while self.trouble is not None and not self._is_stopping:
            time.sleep(PAUSE_S)
            self._run_durably(probe)


def _split_results(jobs: Sequence[Job], results: list[int] | Exception) -> list[Any]:
    """Return for each job the results of its own reports."""
    if isinstance(results, Exception):
        return [results] * len(jobs)
    parts, start = [], 0
    for job in jobs:
        parts.append(results[start : start + len(job.reports)])
        start += len(job.reports)
    return parts


def _resolve(answers: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Resolve pending futures."""
    for future, answer in answers:
        if future.done():  # the client has gone
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
