"""The broadcaster: builds the events of all live streams, once for all viewers and at most once a second.

The numbers are those of ``GET .../state``: from the state of this process, computed in another thread than decisions,
and two counts from the store. The store is asked once a second at most, however many pages are open, and nothing is
locked. Experiments without viewers are refreshed every ten seconds while there are at most ten, and in turn if there
are more, so a page that opens sees some history. Refreshing takes a tenth of this process's time at most, so
experiments with very many arms are refreshed less often. Each process does this for itself. All of them read the same
log, so a page may reach any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maskedbandits.service.dashboard.alerts import MIN_LATEST
from maskedbandits.service.dashboard.history import History, Point, to_columns
from maskedbandits.service.dashboard.view import MAX_ARMS, build_group_view, build_rows, build_view, sum_arms
from maskedbandits.service.server import logging
from maskedbandits.service.sse import STILL_HERE, format_event
from maskedbandits.service.storage import StoreUnavailable
from maskedbandits.service.storage.models import ARCHIVED

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment
    from maskedbandits.service.registry import ExperimentRegistry

ALL = 0  # instead of an experiment's id: the list of all experiments
INTERVAL_S, IDLE_INTERVAL_S = 1.0, 10.0  # between two refreshes, with and without viewers
MAX_IDLE_REFRESHES = 1  # of experiments without viewers in one round, so that a thousand cost no more than ten
MAX_IDLE_EXPERIMENTS, MAX_IDLE_ARMS = 100, 1000  # experiments refreshed without viewers, the newest; arms of each
REST_RATIO = 9.0  # seconds of rest for each second of work
KEEPALIVE_S = 15.0
MAX_STREAM_S = 300.0  # a page then connects again, and gets the history
STORE_MESSAGE = "The store is unreachable. These numbers are not current, and reports are not accepted."
QUARANTINE_MESSAGE = "This experiment cannot be read. The service tries again every minute. See its log for the cause."


class ExperimentFeed:
    """The latest events of one experiment, and its history."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.at = -IDLE_INTERVAL_S  # of the last refresh, by the monotonic clock
        self.number = 0  # of the last refresh
        self.names: list[str] = []
        self.alerts: list[dict[str, str]] = []
        self.event = b""
        self._history = History()
        self._history_event: asyncio.Future[bytes] | None = None  # once it was requested since the last refresh
        self._marks: list[list[int]] = []  # decisions by arm, now and MIN_LATEST or more decisions ago
        self._updating = threading.Lock()  # a viewer may leave before its update ends, and the next one start another

    def update(self, live: LiveExperiment, view: dict[str, Any]) -> None:
        """Build the event of an experiment's current state; call this in a thread, as there may be many arms."""
        with self._updating:
            self._update(live, view)
            self._history_event = None

    def _update(self, live: LiveExperiment, view: dict[str, Any]) -> None:
        rows, latest = [], 0  # with groups the history has totals alone
        if live.config.groups is None:
            shares, latest = self.compute_shares(view["issued"])
            rows = build_rows(view, shares, live.arms.open)
        point = Point.build(live.clock.now(), sum_arms(view), rows)
        self._history.add(point)
        stored = self._history.list_points()
        points = [*stored, point]
        has_groups = live.config.groups is not None
        document = build_group_view(live, view, points) if has_groups else build_view(live, view, rows, latest, points)
        self.names, self.points, self.alerts = view["arms"], stored, document["concerns"]
        self.event = format_event("state", {**document, "point": to_columns([point], self.names, MAX_ARMS)})
        self.number += 1  # last: streams that see a new number read the rest

    def compute_shares(self, issued: list[int]) -> tuple[list[float | None], int]:
        """Return each arm's share of the latest decisions, and their number: 100 to 200, or those of one interval."""
        if not self._marks or sum(issued) - sum(self._marks[-1]) >= MIN_LATEST:
            self._marks = [*self._marks[-1:], issued] if self._marks else [[0] * len(issued), issued]
        before = self._marks[0]
        since = [max(0, count - (before[arm] if arm < len(before) else 0)) for arm, count in enumerate(issued)]
        total = sum(since)
        return [count / total if total else None for count in since], total

    async def build_history_event(self) -> bytes:
        """Return the event with the history, built in a thread once for all viewers until the next refresh."""
        if self._history_event is None:
            loop = asyncio.get_running_loop()
            self._history_event = loop.run_in_executor(None, _frame_history, self.points, self.names)
        return await asyncio.shield(self._history_event)  # other viewers may wait for it


class ExperimentList:
    """The list of experiments at one time, and its events by the names that viewers may see."""

    def __init__(self, rows: Sequence[dict[str, Any]], trouble: str) -> None:
        self._rows, self._trouble = rows, trouble
        self._events: dict[frozenset[str] | None, bytes] = {}

    def build_event(self, names: frozenset[str] | None) -> bytes:
        """Return the event with these experiments, or all; viewers with the same names share it."""
        if names not in self._events:
            rows = [row for row in self._rows if names is None or row["name"] in names]
            self._events[names] = format_event("experiments", {"experiments": rows, "trouble": self._trouble})
        return self._events[names]


class Broadcaster:
    """Refreshes the experiments of a registry and feeds the streams of their viewers."""

    def __init__(self, registry: ExperimentRegistry) -> None:
        self.registry = registry
        self.feeds: dict[int, ExperimentFeed] = {}
        self._viewers: Counter[int] = Counter()
        self._refreshing = asyncio.Lock()
        self._round = asyncio.Event()
        self._listed, self._listed_at = ExperimentList([], ""), -INTERVAL_S
        self._task: asyncio.Task[None] | None = None
        self.is_store_unavailable = False

    def start(self) -> None:
        """Start to refresh."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop to refresh."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        before = 0.0
        while True:
            start = time.monotonic()
            for live in self._list_due():
                await _log_failure(self.refresh(live))
            if self._viewers[ALL]:
                await _log_failure(self._refresh_list())
            self._drop_feeds()
            finished, self._round = self._round, asyncio.Event()
            finished.set()
            took = time.monotonic() - start
            await asyncio.sleep(max(INTERVAL_S, REST_RATIO * min(took, before)))  # the first round may compile
            before = took

    def _list_due(self) -> list[LiveExperiment]:
        """Return the experiments to refresh now: those with viewers, and some others that have waited long."""
        lives = self.registry.experiments()
        viewed = [live for live in lives if self._viewers[live.id]]
        others = [live for live in lives if _count_arms(live) <= MAX_IDLE_ARMS]
        now = time.monotonic()
        waiting = [
            live
            for live in others[-MAX_IDLE_EXPERIMENTS:]
            if live not in viewed and now - self._get_time(live) >= IDLE_INTERVAL_S
        ]
        return viewed + sorted(waiting, key=self._get_time)[:MAX_IDLE_REFRESHES]

    def _get_time(self, live: LiveExperiment) -> float:
        return self.feeds[live.id].at if live.id in self.feeds else -IDLE_INTERVAL_S

    def _drop_feeds(self) -> None:
        """Drop the feeds of experiments that are not refreshed any more."""
        running = [live.id for live in self.registry.experiments()]
        recent = set(running[-MAX_IDLE_EXPERIMENTS:])
        for number in [number for number in self.feeds if number not in recent and not self._viewers[number]]:
            del self.feeds[number]

    async def refresh(self, live: LiveExperiment) -> ExperimentFeed:
        """Return the feed of an experiment, after refreshing it unless that was a moment ago."""
        async with self._refreshing:  # viewers that come at the same time share one refresh
            feed = self.feeds.setdefault(live.id, ExperimentFeed())
            if time.monotonic() - feed.at < INTERVAL_S / 2 and feed.event:
                return feed
            try:
                view = await self.registry.view(live)
                await asyncio.get_running_loop().run_in_executor(None, feed.update, live, view)
                self.is_store_unavailable = False
            except StoreUnavailable:
                self.is_store_unavailable = True
            finally:  # an experiment that fails waits for its turn as the others do
                feed.at = time.monotonic()
            return feed

    def get_trouble(self, number: int | None = None) -> str:
        """Return the reason why numbers are not current, if any."""
        if number is not None and self.registry.is_quarantined(number):
            return QUARANTINE_MESSAGE
        return STORE_MESSAGE if self.is_store_unavailable or not self.registry.is_ready else ""

    async def _refresh_list(self) -> None:
        """Build the list of experiments in a thread, unless that was done a moment ago."""
        async with self._refreshing:
            if time.monotonic() - self._listed_at >= INTERVAL_S / 2:
                rows = await asyncio.get_running_loop().run_in_executor(None, self._build_list)
                self._listed = ExperimentList(rows, self.get_trouble())
                self._listed_at = time.monotonic()

    def _build_list(self) -> list[dict[str, Any]]:
        rows = []
        for live in self.registry.experiments():
            feed = self.feeds.get(live.id)
            rows.append(
                {
                    "name": live.name,
                    "status": live.status,
                    "policy": live.config.policy,
                    "epsilon": live.config.epsilon,
                    "arms": len(live.arms.open),
                    "reports": int(live.state.reported.sum()),
                    "alarms": live.state.any_policy.alarms,
                    "concerns": [] if feed is None else feed.alerts,
                }
            )
        aside = [each.name for each in [*self.registry.log_reader.quarantined.values()]]
        alerts = [{"kind": "aside", "text": QUARANTINE_MESSAGE}]
        return rows + [{"name": name, "status": "aside", "concerns": alerts} for name in aside]

    # Streams

    async def stream_list(
        self, roles: Callable[[], frozenset[str]], names: frozenset[str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield these experiments, or all but archived ones, now and after each change, while the roles allow it."""
        sent = b""

        def news() -> Iterator[bytes]:
            nonlocal sent
            event = self._listed.build_event(names)
            if event != sent:
                sent = event
                yield sent

        with self._count_viewer(ALL):
            await self._refresh_list()
            async for piece in self._stream_rounds(news, roles):
                yield piece

    async def stream_experiment(
        self, live: LiveExperiment, roles: Callable[[], frozenset[str]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the history of an experiment, then its state after each refresh, while the roles allow it."""
        feed, sent, trouble = ExperimentFeed(), 0, ""

        def news() -> Iterator[bytes]:
            nonlocal feed, sent, trouble
            feed = self.feeds.get(live.id, feed)
            if feed.number > sent:
                sent = feed.number
                yield feed.event
            if self.get_trouble(live.id) != trouble:
                trouble = self.get_trouble(live.id)
                yield format_event("trouble", {"text": trouble})

        with self._count_viewer(live.id):
            feed = await self.refresh(live)
            yield await feed.build_history_event()
            was_open = live.status != ARCHIVED

            def has_ended() -> bool:  # then the page asks again, and gets the final state
                return was_open and self.registry.is_known_closed(live.id)

            async for piece in self._stream_rounds(news, roles, has_ended):
                yield piece

    @contextlib.contextmanager
    def _count_viewer(self, number: int) -> Iterator[None]:
        self._viewers[number] += 1
        try:
            yield
        finally:
            self._viewers[number] -= 1

    async def _stream_rounds(
        self,
        news: Callable[[], Iterator[bytes]],
        roles: Callable[[], frozenset[str]],
        has_ended: Callable[[], bool] = lambda: False,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the news of each round, and a keepalive after a long silence, for a limited time.

        A key may be revoked, or the role of requests without a key may change, while a stream is open.
        """
        spoke = start = time.monotonic()
        announced: frozenset[str] = frozenset()
        while "read" in (now := roles()) and time.monotonic() - start < MAX_STREAM_S and not has_ended():
            pieces = b"" if now == announced else format_event("you", {"may": sorted(now)})
            pieces, announced = pieces + b"".join(news()), now
            if pieces or time.monotonic() - spoke >= KEEPALIVE_S:
                spoke = time.monotonic()
                yield pieces or STILL_HERE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEPALIVE_S):  # in Python 3.11 wait_for may lose a cancellation
                    await self._round.wait()


def _frame_history(points: Sequence[Point], names: Sequence[str]) -> bytes:
    return format_event("history", to_columns(points, names, MAX_ARMS))


def _count_arms(live: LiveExperiment) -> int:
    """Return the number of arms, times the number of groups."""
    return len(live.arms.rows) * live.config.policies


async def _log_failure(refreshing: Coroutine[Any, Any, object]) -> None:
    """Refresh, and log an error instead of raising it, so that others are refreshed."""
    try:
        await refreshing
    except Exception as error:
        logging.fault("experiment could not be viewed", error)
