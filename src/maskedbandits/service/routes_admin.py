"""Everything but deciding and reporting: experiments are made, changed and looked at; health and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Receive, Scope

from maskedbandits.errors import nearest
from maskedbandits.service.http import Answer, Refused, as_json, later, read_body
from maskedbandits.service.lookup import found
from maskedbandits.service.replies import ArmAnswer, ExperimentAnswer, ExperimentsAnswer, Summary
from maskedbandits.service.schemas import ExperimentChange, ExperimentConfig, NewArm, Reader, check_arm
from maskedbandits.service.server.metrics import Metrics
from maskedbandits.service.sse import Stream
from maskedbandits.service.storage import Conflict, StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live
    from maskedbandits.service.registry import ExperimentRegistry

PROMETHEUS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


@dataclass(slots=True)
class Request:
    """A request that somebody may make."""

    scope: Scope
    receive: Receive
    limit: int  # bytes of its body
    params: dict[str, str] = field(default_factory=dict)  # what stands in the path
    roles: frozenset[str] = frozenset()  # of who asks, where a role is needed
    charge: Callable[[int], None] = lambda cost: None  # counts it as so many requests, or refuses it
    key: str = ""  # the name of the key that it carries

    async def body(self) -> bytes:
        """Return all that was sent."""
        return await read_body(self.scope, self.receive, self.limit)


@dataclass(frozen=True)
class Endpoint:
    """What answers a request, what it is called in counts, and the role that it needs."""

    route: str
    role: str
    run: Callable[[Request], Awaitable[Answer | Stream]]


class AdminRoutes:
    """Answers administrators and whoever looks on."""

    def __init__(self, registry: Callable[[], ExperimentRegistry | None], metrics: Metrics) -> None:
        self._hall, self.metrics = registry, metrics
        self._config, self._change, self._arm = Reader(ExperimentConfig), Reader(ExperimentChange), Reader(NewArm)

    @property
    def registry(self) -> ExperimentRegistry:
        """The experiments; nobody is let in before there are any."""
        registry = self._hall()
        if registry is None:
            raise later(503, "the service is starting: ask again in a moment")
        return registry

    async def health(self, ask: Request) -> Answer:
        """Tell that the process answers, and nothing else."""
        return as_json(200, {"status": "ok"})

    async def ready(self, ask: Request) -> Answer:
        """Tell whether decisions can be made and reports taken."""
        if not self.registry.ready:
            raise later(503, "the store cannot be reached: ask again in a moment")
        return as_json(200, {"status": "ready"})

    async def counts(self, ask: Request) -> Answer:
        """Return all counts for Prometheus; those that the store keeps are left out while it cannot be reached."""
        try:
            fates = await self.registry.fates()
        except StoreUnavailable:
            fates = {}
        text = self.metrics.text(
            self.registry.experiments(), self.registry.ready, fates, len(self.registry.follower.aside)
        )
        return Answer(200, text.encode(), (PROMETHEUS,))

    async def list_all(self, ask: Request) -> Answer:
        """Return all experiments."""
        return as_json(200, ExperimentsAnswer([summary(live) for live in self.registry.experiments()]))

    async def show(self, ask: Request) -> Answer:
        """Return an experiment."""
        return as_json(200, described(await found(self.registry, ask.params["name"])))

    async def state(self, ask: Request) -> Answer:
        """Return what an experiment has learnt, and what became of its decisions."""
        return as_json(200, await self.registry.view(await found(self.registry, ask.params["name"])))

    async def create(self, ask: Request) -> Answer:
        """Create an experiment."""
        config = self._config(await ask.body())
        with _conflicts():
            return as_json(201, described(await self.registry.create(config)))

    async def change(self, ask: Request) -> Answer:
        """Change the status or the terms of an experiment."""
        live = await found(self.registry, ask.params["name"])
        change = self._change(await ask.body())
        with _conflicts():
            return as_json(200, described(await self.registry.change(live, change.given())))

    async def add_arm(self, ask: Request) -> Answer:
        """Add an arm."""
        live = await found(self.registry, ask.params["name"])
        arm = self._arm(await ask.body())
        check_arm(arm)
        with _conflicts():
            return as_json(201, described(await self.registry.add_arm(live, arm)))

    async def retire(self, ask: Request) -> Answer:
        """Retire an arm."""
        live, name = await found(self.registry, ask.params["name"]), ask.params["arm"]
        if name not in live.arms.places:
            raise Refused(404, f"no arm is called {name!r}{nearest(name, live.arms.names[:20])}")
        if live.arms.places[name] not in live.arms.open:
            raise Refused(409, f"the arm {name!r} is retired already: nothing is to be done")
        with _conflicts():
            return as_json(200, described(await self.registry.retire(live, name)))


@contextmanager
def _conflicts() -> Iterator[None]:
    """Answer 409 to what cannot be done as things stand."""
    try:
        yield
    except Conflict as conflict:
        raise Refused(409, str(conflict)) from conflict


def summary(live: Live) -> Summary:
    """Return an experiment as a list shows it."""
    return Summary(
        name=live.name,
        status=live.status,  # type: ignore[arg-type]  # the store's words are these
        policy=live.terms.policy,
        epsilon=live.terms.epsilon,
        arms=len(live.arms.open),
        seq=live.fold.seq,
        config_version=live.row.config_version,
        created_hour=live.row.created_hour,
    )


def described(live: Live) -> ExperimentAnswer:
    """Return all that is known of an experiment, but for what it has learnt."""
    about: dict[str, Any] = msgspec.structs.asdict(summary(live))
    terms = live.terms
    shown = ("parameters", "report_after", "expires_after", "floor", "holdout", "groups", "shares", "source_limit")
    about |= {name: getattr(terms, name) for name in shown}
    about["default_arm"] = live.arms.names[live.row.default_arm]
    about["arms"] = [
        ArmAnswer(row.place, row.name, msgspec.Raw(row.payload.encode()), row.status)  # type: ignore[arg-type]
        for row in live.arms.rows
    ]
    return ExperimentAnswer(**about)
