"""A hall without threads or policies: a real store, decisions drawn by lot. What the web side needs, and obvious."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.clock import Clock
from maskedbandits.service.live import Arms, Issued
from maskedbandits.service.messages import ExperimentConfig, NewArm, check_experiment
from maskedbandits.service.stores import Store, StoreGone
from maskedbandits.service.stores.rows import Change, ExperimentRow, NewReport, Visit
from maskedbandits.service.stores.rows import NewArm as ArmToStore
from maskedbandits.service.terms import Terms
from maskedbandits.service.tokens import FLAG_SHOWN


class FakeFold:
    seq = 0


class FakeLive:
    def __init__(self, row: ExperimentRow, store: Store, clock: Clock) -> None:
        self.id, self.name, self.clock, self.fold = row.id, row.name, clock, FakeFold()
        self.taken_back: list[Issued] = []
        self.stand(row, store)

    def stand(self, row: ExperimentRow, store: Store) -> None:
        self.row, self.terms, self.arms = row, Terms.read(row.config), Arms(store.arms(row.id))
        self.epsilon, self.fold.seq = self.terms.millionths, row.seq

    @property
    def status(self) -> str:
        return self.row.status

    def decide(self, n: int = 1, among: tuple[int, ...] | None = None) -> list[Issued]:
        now = int(self.clock.now())
        arms = among or tuple(self.arms.open)
        expires = now + self.terms.expires_after
        share = 65_536 // len(arms)
        return [Issued(random.choice(arms), share, 4 if among else 0, now, expires, self.fold.seq) for _ in range(n)]

    def show(self, among: tuple[int, ...] | None = None) -> Issued:
        return self.decide(1, among)[0]._replace(flags=FLAG_SHOWN)

    def take_back(self, issued: Issued) -> None:
        self.taken_back.append(issued)


class FakeWriter:
    def __init__(self, hall: FakeHall) -> None:
        self.hall = hall

    def reports(self, reports: Sequence[NewReport]) -> asyncio.Future[list[int]]:
        done: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        done.set_result(self.hall.use(lambda store: store.append(reports)))
        return done


class FakeHall:
    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.store, self.clock = store, clock or Clock()
        self.lives: dict[str, FakeLive] = {}
        self.refused: list[tuple[int, str]] = []
        self.write = FakeWriter(self)
        self.trouble: Exception | None = None
        self.stopped = False

    @property
    def ready(self) -> bool:
        return self.trouble is None

    def use(self, work: Callable[[Store], Any]) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return work(self.store)

    async def stop(self) -> None:
        self.stopped = True

    def experiment(self, name: str) -> FakeLive | None:
        return self.lives.get(name)

    def experiments(self) -> list[FakeLive]:
        return list(self.lives.values())

    def refuse(self, experiment: int, reason: str) -> None:
        self.refused.append((experiment, reason))

    async def ask(self, question: Callable[[Store], Any]) -> Any:
        return self.use(question)

    async def catch_up(self) -> None:
        pass

    async def view(self, live: FakeLive) -> dict[str, Any]:
        arms = len(live.arms.rows)
        return {
            "seq": live.fold.seq,
            "digest": "0" * 64,
            "kernel": "fake",
            "observations": 0,
            "alarms": 0,
            "arms": live.arms.names,
            "estimates": [float("nan")] * arms,
            "intervals": [[0.0, 1.0]] * arms,
            "suspects": [False] * arms,
            "probabilities": [1 / arms] * arms,
            "pending": [0] * arms,
            "issued": [0] * arms,
            "refused": self.use(lambda store: store.refused(live.id)),
        }

    async def visit(self, live: FakeLive, visitor: bytes, token: bytes, minute: int) -> bytes:
        visit = Visit(live.id, visitor, token, minute, self.clock.minute())
        return bytes(self.use(lambda store: store.visits([visit]))[0])

    async def create(self, config: ExperimentConfig) -> FakeLive:
        check_experiment(config)
        terms, names = Terms.of(config), [arm.name for arm in config.arms]
        default = names.index(config.default_arm) if config.default_arm else 0
        arms = [ArmToStore(arm.name, msgspec.json.encode(arm.payload).decode()) for arm in config.arms]
        row = self.use(lambda store: store.create_experiment(config.name, terms.written(), arms, default, 0))
        self.lives[row.name] = FakeLive(row, self.store, self.clock)
        return self.lives[row.name]

    async def _changed(self, live: FakeLive, change: Change) -> FakeLive:
        live.stand(self.use(lambda store: store.change(live.id, change)), self.store)
        return live

    async def change(self, live: FakeLive, changes: dict[str, Any]) -> FakeLive:
        told = dict(changes)
        status = told.pop("status", None)
        default = live.arms.place_of(told.pop("default_arm")) if "default_arm" in told else live.row.default_arm
        if told or default != live.row.default_arm:
            terms = live.terms.changed(told, len(live.arms.open))
            await self._changed(live, Change("config", 0, config=terms.written(), default_arm=default))
        if status is not None and status != live.status:
            await self._changed(live, Change("status", 0, status=status))
        return live

    async def add_arm(self, live: FakeLive, arm: NewArm) -> FakeLive:
        payload = msgspec.json.encode(arm.payload).decode()
        return await self._changed(live, Change("arm", 0, name=arm.name, payload=payload))

    async def retire(self, live: FakeLive, name: str) -> FakeLive:
        place = live.arms.place_of(name)
        if place == live.row.default_arm:
            raise UserError("it is the default arm: make another the default first")
        return await self._changed(live, Change("retire", 0, place=place))


def gone() -> StoreGone:
    return StoreGone("the database at secret-host cannot be reached")
