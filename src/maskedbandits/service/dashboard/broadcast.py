"""Looks at experiments, once for all who watch: what streams send is made here, at most once a second.

The numbers are those of ``GET .../state``: from the state that this process has folded, reckoned beside those who
decide, and two counts that the store keeps. However many watch, the store is asked for them once a second at most, and
nothing is ever locked. An experiment that nobody watches is looked at every ten seconds, so that whoever opens a
dashboard sees what was before. Looking takes a tenth of this process's time at most: where there are very many arms, it
is done less often. Each process looks for itself: all of them fold the same log, so that it does not matter which one a
page has reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maskedbandits.service.dashboard.alerts import LATEST
from maskedbandits.service.dashboard.group_view import told_by_group
from maskedbandits.service.dashboard.history import History, Point, columns
from maskedbandits.service.dashboard.view import MOST_ARMS, rows_of, sums_of, told
from maskedbandits.service.routes_admin import summary
from maskedbandits.service.server import logging
from maskedbandits.service.sse import STILL_HERE, framed
from maskedbandits.service.storage import StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live
    from maskedbandits.service.registry import ExperimentRegistry

LIST = 0  # the number of no experiment: who watches it, watches all
EVERY, UNWATCHED = 1.0, 10.0  # seconds between two looks
AT_ONCE = 10  # experiments that nobody watches, in one round
MOST, LARGE = 100, 1000  # experiments that are looked at unwatched, the newest; arms that one of them has at most
RATIO = 9.0  # seconds of rest for one of looking
SILENCE = 15.0  # seconds after which something is said in any case
LONGEST = 300.0  # seconds of one stream: a reader comes again, and is given the history as it is kept
AWAY = "The store cannot be reached: these numbers are of a moment ago, and reports are not taken."
ASIDE = "This experiment cannot be followed now, and is tried again every minute: the log of the service says why."


class Seen:
    """What is known of one experiment."""

    def __init__(self) -> None:
        self.points: list[Point] = []  # that are kept
        self.at = -UNWATCHED  # when it was last looked at, by a clock that goes on steadily
        self.number = 0  # of the last look
        self.names: list[str] = []
        self.concerns: list[dict[str, str]] = []
        self.event = b""
        self._history = History()
        self.before: asyncio.Future[bytes] | None = None  # what was before, once somebody has asked since the last look
        self._marks: list[list[int]] = []  # decisions by arm, now and LATEST or more decisions ago
        self._taking = threading.Lock()  # who has asked for a look may leave before it is done, and the next one ask

    def take(self, live: Live, view: dict[str, Any]) -> None:
        """Take in what an experiment is like now; beside those who decide, as there may be very many arms."""
        with self._taking:
            self._take(live, view)
            self.before = None

    def _take(self, live: Live, view: dict[str, Any]) -> None:
        rows, latest = [], 0  # of groups sums alone are kept
        if live.terms.groups is None:
            shares, latest = self._shares(view["issued"])
            rows = rows_of(view, shares, live.arms.open)
        point = Point.of(live.clock.now(), sums_of(view), rows)
        self._history.add(point)
        kept = self._history.points()
        points = [*kept, point]
        is_grouped = live.terms.groups is not None
        document = told_by_group(live, view, points) if is_grouped else told(live, view, rows, latest, points)
        self.names, self.points, self.concerns = view["arms"], kept, document["concerns"]
        self.event = framed("state", {**document, "point": columns([point], self.names, MOST_ARMS)})
        self.number += 1  # last of all: whoever waits for a new number reads the rest

    def _shares(self, issued: list[int]) -> tuple[list[float | None], int]:
        """Return the share of each arm in the latest decisions, and how many these are: 100 to 200, or since a look."""
        if not self._marks or sum(issued) - sum(self._marks[-1]) >= LATEST:
            self._marks = [*self._marks[-1:], issued] if self._marks else [[0] * len(issued), issued]
        before = self._marks[0]
        since = [max(0, count - (before[place] if place < len(before) else 0)) for place, count in enumerate(issued)]
        total = sum(since)
        return [count / total if total else None for count in since], total

    async def beginning(self) -> bytes:
        """Return what was before: made once for all who come until the next look, and beside those who decide."""
        if self.before is None:
            loop = asyncio.get_running_loop()
            self.before = loop.run_in_executor(None, _before, self.points, self.names)
        return await asyncio.shield(self.before)  # the others wait for it, too, if one of them leaves


class Watch:
    """Looks at the experiments of a registry, and tells whoever watches."""

    def __init__(self, registry: ExperimentRegistry) -> None:
        self.registry = registry
        self._seen: dict[int, Seen] = {}
        self._watched: Counter[int] = Counter()
        self._looking = asyncio.Lock()
        self._turn = asyncio.Event()
        self._list, self._listed_at = b"", -EVERY
        self._task: asyncio.Task[None] | None = None
        self.is_away = False  # whether the store is

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        before = 0.0
        while True:
            began = time.monotonic()
            for live in self._due():
                await _tried(self.look(live))
            if self._watched[LIST]:
                await _tried(self._look_at_all())
            self._forget()
            turn, self._turn = self._turn, asyncio.Event()
            turn.set()
            took = time.monotonic() - began
            await asyncio.sleep(max(EVERY, RATIO * min(took, before)))  # the first look may have to compile something
            before = took

    def _due(self) -> list[Live]:
        """Return the experiments to look at now: those watched, and some others that were not looked at for long."""
        lives = self.registry.experiments()
        watched = [live for live in lives if self._watched[live.id]]
        others = [live for live in lives if live.status != "archived" and _size(live) <= LARGE][-MOST:]
        now = time.monotonic()
        waiting = [live for live in others if live not in watched and now - self._at(live) >= UNWATCHED]
        return watched + sorted(waiting, key=self._at)[:AT_ONCE]

    def _at(self, live: Live) -> float:
        return self._seen[live.id].at if live.id in self._seen else -UNWATCHED

    def _forget(self) -> None:
        """Forget those that are not looked at any more."""
        kept = {live.id for live in [live for live in self.registry.experiments() if live.status != "archived"][-MOST:]}
        for number in [number for number in self._seen if number not in kept and not self._watched[number]]:
            del self._seen[number]

    async def look(self, live: Live) -> Seen:
        """Return what is known of an experiment, after a look at it unless that was a moment ago."""
        async with self._looking:  # whoever comes at the same time is told the same
            seen = self._seen.setdefault(live.id, Seen())
            if time.monotonic() - seen.at < EVERY / 2 and seen.event:
                return seen
            try:
                view = await self.registry.view(live)
                await asyncio.get_running_loop().run_in_executor(None, seen.take, live, view)
                self.is_away = False
            except StoreUnavailable:
                self.is_away = True
            finally:  # one that cannot be looked at waits for its turn as the others do
                seen.at = time.monotonic()
            return seen

    def trouble(self, number: int | None = None) -> str:
        """Return what keeps numbers from being of now, if anything."""
        if number is not None and self.registry.by_id(number) is None:
            return ASIDE
        return AWAY if self.is_away or not self.registry.ready else ""

    async def _look_at_all(self) -> None:
        """Put the list together, unless that was done a moment ago; beside those who decide, as it may be long."""
        async with self._looking:
            if time.monotonic() - self._listed_at >= EVERY / 2:
                listed = await asyncio.get_running_loop().run_in_executor(None, self._listed)
                self._list = framed("experiments", {"experiments": listed, "trouble": self.trouble()})
                self._listed_at = time.monotonic()

    def _listed(self) -> list[dict[str, Any]]:
        rows = []
        for live in self.registry.experiments():
            about, seen = summary(live), self._seen.get(live.id)
            rows.append(
                {
                    **{name: getattr(about, name) for name in ("name", "status", "policy", "epsilon", "arms")},
                    "reports": int(live.fold.reported.sum()),
                    "alarms": live.fold.either.alarms,
                    "concerns": [] if seen is None else seen.concerns,
                }
            )
        aside = [each.name for each in [*self.registry.follower.aside.values()]]
        told_of = [{"kind": "aside", "text": ASIDE}]
        return rows + [{"name": name, "status": "aside", "concerns": told_of} for name in aside]

    # What streams are made of

    async def list_all(self, roles: Callable[[], frozenset[str]]) -> AsyncGenerator[bytes, None]:
        """Yield all experiments, now and whenever something has changed, to who may see them."""
        sent = b""

        def news() -> Iterator[bytes]:
            nonlocal sent
            if self._list != sent:
                sent = self._list
                yield sent

        with self._watching(LIST):
            await self._look_at_all()
            async for piece in self._each_round(news, roles):
                yield piece

    async def follow(self, live: Live, roles: Callable[[], frozenset[str]]) -> AsyncGenerator[bytes, None]:
        """Yield what an experiment was like, then what it is like, to who may see it."""
        seen, sent, trouble = Seen(), 0, ""

        def news() -> Iterator[bytes]:
            nonlocal seen, sent, trouble
            seen = self._seen.get(live.id, seen)
            if seen.number > sent:
                sent = seen.number
                yield seen.event
            if self.trouble(live.id) != trouble:
                trouble = self.trouble(live.id)
                yield framed("trouble", {"text": trouble})

        with self._watching(live.id):
            seen = await self.look(live)
            yield await seen.beginning()
            async for piece in self._each_round(news, roles):
                yield piece

    @contextlib.contextmanager
    def _watching(self, what: int) -> Iterator[None]:
        self._watched[what] += 1
        try:
            yield
        finally:
            self._watched[what] -= 1

    async def _each_round(
        self, news: Callable[[], Iterator[bytes]], roles: Callable[[], frozenset[str]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what is new after each round, and a sign of life where nothing is for long; not for ever.

        A key may be revoked, or another role be given to whoever asks without one, while a stream is open.
        """
        spoke = began = time.monotonic()
        told: frozenset[str] = frozenset()
        while "read" in (now := roles()) and time.monotonic() - began < LONGEST:
            pieces = b"" if now == told else framed("you", {"may": sorted(now)})
            pieces, told = pieces + b"".join(news()), now
            if pieces or time.monotonic() - spoke >= SILENCE:
                spoke = time.monotonic()
                yield pieces or STILL_HERE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SILENCE):  # in Python 3.11 wait_for may lose that it is to end
                    await self._turn.wait()


def _before(points: Sequence[Point], names: Sequence[str]) -> bytes:
    return framed("history", columns(points, names, MOST_ARMS))


def _size(live: Live) -> int:
    """Return how many arms are learnt of: each once for every group."""
    return len(live.arms.rows) * live.terms.policies


async def _tried(looking: Coroutine[Any, Any, object]) -> None:
    """Look; what goes wrong is told, and keeps nobody from looking at the others."""
    try:
        await looking
    except Exception as error:
        logging.fault("an experiment could not be looked at", error)
