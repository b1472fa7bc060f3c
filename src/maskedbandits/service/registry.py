"""All experiments in one process: what the handlers of requests talk to.

Decisions are made at once, from the state that this process has. All else goes to one of two threads: one writes
(``log_writer.py``), one reads (``log_reader.py``).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import Terms, check_limits, check_standing
from maskedbandits.service.experiment import Live
from maskedbandits.service.log_reader import Follower
from maskedbandits.service.log_writer import Writer
from maskedbandits.service.pending import at_least, missing
from maskedbandits.service.schemas import ExperimentConfig, NewArm, check_experiment
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.warmup import Warming, needed_by
from maskedbandits.service.storage import Conflict, Store, StoreUnavailable, open_store
from maskedbandits.service.storage.models import Change, ExperimentRow, Visit
from maskedbandits.service.storage.models import NewArm as ArmToStore

PATIENCE = 10.0  # seconds until a change that is durable must have been folded
CAUGHT_UP = 1.0  # seconds until whoever asks is answered by what is known
PAUSE = 0.005


class ExperimentRegistry:
    """The experiments of a store, live in this process."""

    def __init__(self, settings: Settings, process: str = "", clock: Clock | None = None) -> None:
        self.settings = settings
        self.process = process or secrets.token_hex(8)
        self.clock = clock or Clock()
        self.warming = Warming()
        self.follower = Follower(self._open, self.process, self.clock, settings, self.warming)
        self.writer: Writer | None = None
        self.started = False

    def _open(self) -> Store:
        return open_store(self.settings.storage)

    async def start(self) -> None:
        """Read the logs, and begin to follow and to write."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.follower.start)
        self.writer = Writer(self._open, loop, self.follower.look, self.settings.queue, self.follower.seq_of)
        self.writer.start()
        self.started = True

    async def stop(self) -> None:
        """Write what is left, and end."""
        loop = asyncio.get_running_loop()
        self.started = False
        self.warming.stop()
        if self.writer is not None:
            await loop.run_in_executor(None, self.writer.stop)
        await loop.run_in_executor(None, self.follower.stop)

    @property
    def ready(self) -> bool:
        """Tell whether decisions and reports can be taken now."""
        return self.started and self.trouble is None

    @property
    def trouble(self) -> Exception | None:
        """What keeps it from working now, if anything."""
        writing = self.writer.trouble if self.writer is not None else None
        return writing or self.follower.trouble

    @property
    def write(self) -> Writer:
        """The writer, once there is one."""
        if self.writer is None:
            raise StoreUnavailable("the service has not started yet")
        return self.writer

    def experiment(self, name: str) -> Live | None:
        """Return an experiment by its name."""
        return self.follower.lives.get(name)

    def by_id(self, number: int) -> Live | None:
        """Return an experiment by its number."""
        return self.follower.by_id.get(number)

    def is_aside(self, which: str | int) -> bool:
        """Tell whether an experiment, by its name or number, cannot be followed now."""
        aside = self.follower.aside
        return which in aside if isinstance(which, int) else which in [each.name for each in [*aside.values()]]

    async def catch_up(self) -> bool:
        """Read the logs to their end, which another process may have written a moment ago; tell whether it could."""
        wanted = self.follower.looks + 2  # one may be under way
        for _ in range(int(CAUGHT_UP / PAUSE)):
            self.follower.look()
            await asyncio.sleep(PAUSE)
            if self.follower.looks >= wanted:
                return True
        return False

    def experiments(self) -> list[Live]:
        """Return all of them, the oldest first."""
        return sorted(self.follower.lives.values(), key=lambda live: live.id)

    def refuse(self, experiment: int, reason: str) -> None:
        """Count a report that was refused; 0 is no experiment."""
        self.follower.refuse(experiment, reason)

    async def create(self, config: ExperimentConfig) -> Live:
        """Create an experiment, and return it live; a policy that is new to this machine is compiled before that."""
        loop, arms = asyncio.get_running_loop(), [_to_store(arm) for arm in config.arms]
        if not self.settings.simulation:
            check_limits(config.report_after, config.expires_after)
        terms = await loop.run_in_executor(None, _checked, config)  # others need not wait
        await self.warming.get(needed_by(terms))
        await loop.run_in_executor(None, terms.try_out, len(arms))
        names = [arm.name for arm in config.arms]
        default = 0 if config.default_arm is None else names.index(config.default_arm)
        hour = self.clock.hour()
        row = await self.write.call(
            lambda store: store.create_experiment(config.name, terms.written(), arms, default, hour)
        )
        return await self._folded(row)

    async def change(self, live: Live, changes: dict[str, Any]) -> Live:
        """Change the status of an experiment, or its terms."""
        hour, told = self.clock.hour(), dict(changes)
        times = {name: told.get(name, getattr(live.terms, name)) for name in ("report_after", "expires_after")}
        if times.keys() & told.keys() and not self.settings.simulation:
            check_limits(**times)
        status = told.pop("status", None)
        default = live.arms.place_of(told.pop("default_arm")) if "default_arm" in told else None
        steps: list[Change] = []
        if told or default is not None:  # merged by the store: another process may just have changed something else
            steps.append(Change("config", hour, config=json.dumps(told), default_arm=default))
        if status is not None:
            steps.append(Change("status", hour, status=status))
        return await self._changed(live, *steps) if steps else live

    async def add_arm(self, live: Live, arm: NewArm) -> Live:
        """Add an arm, which is explored from now on."""
        if arm.name in live.arms.places:
            raise Conflict(f"an arm is, or was, called {arm.name!r}: give it a name that was never used here")
        stored = _to_store(arm)
        return await self._changed(live, Change("arm", self.clock.hour(), name=stored.name, payload=stored.payload))

    async def retire(self, live: Live, name: str) -> Live:
        """Retire an arm; it is never shown again."""
        place = live.arms.place_of(name)
        if len(live.arms.open) == 1:
            raise UserError(f"{name!r} is the last open arm: add another first, or archive the experiment")
        if place == live.row.default_arm:
            others = [live.arms.names[each] for each in live.arms.open if each != place]
            raise UserError(f"{name!r} is the default arm: make another the default first, such as {others[0]!r}")
        return await self._changed(live, Change("retire", self.clock.hour(), place=place))

    async def visit(self, live: Live, visitor: bytes, token: bytes, minute: int, instead: bytes = b"") -> bytes:
        """Return the token that a visitor keeps: this one, or an earlier one that has not expired.

        An earlier one that is of no more use is given as ``instead``, and replaced.
        """
        return await self.write.visit(Visit(live.id, visitor, token, minute, self.clock.minute(), instead))

    async def view(self, live: Live) -> dict[str, Any]:
        """Return what an experiment has learnt, and what became of its decisions; reckoned beside those who decide."""
        # In this order: what is decided in between would look as if nobody had reported it.
        known, refused = await self.ask(lambda store: (store.sum_issued(live.id), store.sum_refused(live.id)))
        issued = _with_unsaid(live, known)
        learnt = await asyncio.get_running_loop().run_in_executor(None, live.view)
        return {**learnt, **_accounted(issued, learnt["reported"], learnt["pending"]), "refused": refused}

    async def fates(self) -> dict[str, dict[str, int]]:
        """Return what became of the decisions of every experiment, by its name."""
        lives = self.experiments()
        totals = await self.ask(lambda store: [store.sum_issued(live.id) for live in lives])
        issued = [_with_unsaid(*each) for each in zip(lives, totals, strict=True)]
        answered = await asyncio.get_running_loop().run_in_executor(None, lambda: [live.answered() for live in lives])
        return {live.name: _fates(every, both) for live, every, both in zip(lives, issued, answered, strict=True)}

    async def ask(self, question: Callable[[Store], Any]) -> Any:
        """Ask the store something."""
        return await self.write.call(question)

    async def _changed(self, live: Live, *changes: Change) -> Live:
        check = check_standing if any(change.kind in ("arm", "config") for change in changes) else None
        return await self._folded(await self.write.call(lambda store: store.change(live.id, changes, check)))

    async def _folded(self, row: ExperimentRow) -> Live:
        """Wait until this process has folded what was just written."""
        self.follower.look()
        for _ in range(int(PATIENCE / PAUSE)):
            live = self.experiment(row.name)
            if live is not None and live.fold.seq >= row.seq and live.row.config_version >= row.config_version:
                return live
            if self.is_aside(row.id):
                break
            await asyncio.sleep(PAUSE)
        raise StoreUnavailable("it is written, but has not been read back yet: look again in a moment")


def _fates(issued: list[int], answered: tuple[list[int], list[int]]) -> dict[str, int]:
    reported, pending = answered
    told = {**_accounted(issued, reported, pending), "reported": reported, "pending": pending}
    return {name: sum(each) for name, each in told.items()}


def _with_unsaid(live: Live, known: dict[int, int]) -> list[int]:
    """Return how many decisions were issued: those that the store knows of, and what this process has not told it."""
    unsaid = live.pending.unsaid()
    return live.in_all({each: known.get(each, 0) + unsaid.get(each, 0) for each in {**known, **unsaid}})


def _accounted(issued: list[int], reported: list[int], pending: list[int]) -> dict[str, list[int]]:
    """Return how many decisions were issued, and of how many nobody has reported in time."""
    more = [0] * (len(reported) - len(issued))  # an arm may have come meanwhile
    every = at_least(issued + more, reported, pending)
    return {"issued": every, "missing": missing(every, reported, pending)}


def _checked(config: ExperimentConfig) -> Terms:
    """Return the terms of an experiment that can be."""
    check_experiment(config)
    return Terms.of(config)


def _to_store(arm: NewArm) -> ArmToStore:
    return ArmToStore(arm.name, msgspec.json.encode(arm.payload).decode())
