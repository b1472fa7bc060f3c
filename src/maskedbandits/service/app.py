"""The service as an ASGI application: every request comes in, and every answer goes out, here.

Deciding and reporting are found by their paths at once, before Starlette's routes are tried one by one. Each answer is
counted, and each error is one line of JSON; nothing that anybody sends can make it a 500.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from maskedbandits.errors import UserError
from maskedbandits.service import static
from maskedbandits.service.auth import Access, Caller, refuse_repeated
from maskedbandits.service.clock import Clock
from maskedbandits.service.http import Answer, ClientGone, Refused, later, respond
from maskedbandits.service.keys import Secrets, secrets_of
from maskedbandits.service.lookup import found
from maskedbandits.service.openapi import description
from maskedbandits.service.rate_limits import Answers, Buckets
from maskedbandits.service.routes_admin import AdminRoutes, Endpoint, Request
from maskedbandits.service.schemas import MOST_DECISIONS, DecisionRequest, Reader
from maskedbandits.service.server import logging
from maskedbandits.service.server.metrics import LEFT, Metrics
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.sse import Stream, Streams
from maskedbandits.service.storage import StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.storage import Store
    from maskedbandits.service.storage.models import KeyRow

ALL = "/v1/experiments"
ONE = f"{ALL}/{{name}}"
STARTING = "the service is starting: ask again in a moment"
GONE = "the store cannot be reached, or too much waits to be written: send it again in a moment"
KEYS_EVERY = 3.0  # seconds after which a revoked key is of no more use, at the latest
KEYS_SOONEST = 1.0  # seconds after which they are read again for a token with a key that nobody knows
UNKNOWN = Caller()
PROXIED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"})
FOR_OTHERS = (
    "a proxy asks for somebody else, and without any key only this machine may: make one with maskedbandits key create"
)
PAGE = Path(__file__).with_name("dashboard") / "page"
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class App:
    """Answers requests; until the registry of experiments is opened, that it is starting."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or Clock()  # the registry's, once there is one
        self._dated, self._date = 0, b""
        self.metrics = metrics or Metrics()
        self.access = Access(settings)
        self.registry: ExperimentRegistry | None = None
        self._answers, self._asked = Answers(), Reader(DecisionRequest)
        self._office = AdminRoutes(lambda: self.registry, self.metrics)
        self.streams = Streams()
        reports = Endpoint("reports", "device", self._report)
        self._of_devices = {"decisions": Endpoint("decisions", "device", self._decide), "reports": reports}
        self._routes = self._all_routes()

    # From beginning to end

    async def open(self, registry: ExperimentRegistry) -> None:
        """Let people in: the registry has started, and has imported what takes long to import."""
        from maskedbandits.service.dashboard.broadcast import Broadcaster
        from maskedbandits.service.routes_decisions import Decisions
        from maskedbandits.service.routes_reports import Reports

        self._reading = asyncio.Lock()
        self._secrets = await self._read_keys(registry)
        self._decisions = Decisions(registry, self._secrets, self.metrics)
        by_token = Buckets(self.settings.token_rate, self.settings.burst)
        self._reports = Reports(registry, self._secrets, self.metrics, by_token, self._renew, self.access.block)
        self.registry, self.clock = registry, registry.clock
        self.broadcaster = Broadcaster(registry)
        self.broadcaster.start()
        self._renewing = asyncio.create_task(self._renew_often())

    async def close(self) -> None:
        """Let nobody in any more, and have the registry write down what it knows."""
        registry, self.registry = self.registry, None
        if registry is not None:
            self.streams.end()
            await self.broadcaster.stop()
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
            await registry.stop()

    async def _read_keys(self, registry: ExperimentRegistry) -> Secrets:
        def read(store: Store) -> tuple[list[KeyRow], Secrets]:
            return store.list_keys(), secrets_of(store)

        self._read_at = time.monotonic()
        rows, secrets = cast("tuple[list[KeyRow], Secrets]", await registry.ask(read))
        self.access.keys.refresh(rows)
        return secrets

    async def _renew(self) -> None:
        """Return once the keys have been read again: for many who ask at once that is done once."""
        asked = time.monotonic()
        async with self._reading:
            if self._read_at >= asked or self.registry is None:
                return
            await asyncio.sleep(max(0.0, self._read_at + KEYS_SOONEST - asked))
            if self.registry is not None:
                read = await self._read_keys(self.registry)
                self._secrets.ring = read.ring  # all else stays, as the secret does

    async def _renew_often(self) -> None:
        while True:
            await asyncio.sleep(KEYS_EVERY)
            try:
                await self._renew()
            except StoreUnavailable:
                continue  # those who ask hear of it; the keys known so far stay
            except Exception as error:  # whatever it is, they have to be read again the next time
                logging.fault("keys could not be read", error)

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await _refuse_socket(scope, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        extra = [] if origin is None else self.access.cors(origin)
        route, caller = "other", UNKNOWN
        answer: Answer | Stream
        try:
            refuse_repeated(scope, headers)
            if origin is not None and scope["method"] == "OPTIONS":
                answer = self.access.preflight(origin)
            else:
                endpoint, ask = self._found(scope, receive)
                route = endpoint.route
                if endpoint.role:
                    caller = self._admitted(scope, headers, endpoint.role)
                    ask.roles, ask.key = caller.holder.roles, caller.holder.name
                    ask.charge = partial(self.access.charge, caller)
                answer = await endpoint.run(ask)
                if isinstance(answer, Stream):
                    self.streams.refuse_if_full()
        except ClientGone:
            self._count(scope, route, LEFT, began, caller)
            return
        except Exception as error:
            answer = _refusal(error)
        extra.append((b"date", self._now()))
        if isinstance(answer, Stream):
            await self.streams.pour(scope, receive, send, answer, extra)
        else:
            await respond(send, answer, extra, is_bare=scope["method"] == "HEAD")
        self._count(scope, route, answer.status, began, caller)

    def _now(self) -> bytes:
        """Return the time as a Date header has it: from it and report_at a device reckons when to report."""
        second = int(self.clock.now())
        if second != self._dated:
            self._dated, self._date = second, formatdate(second, usegmt=True).encode()
        return self._date

    def _count(self, scope: Scope, route: str, status: int, began: float, caller: Caller) -> None:
        seconds = time.perf_counter() - began
        self.metrics.request(route, status, seconds)
        if self.settings.access_log:
            method = scope["method"] if scope["method"] in METHODS else "other"
            facts = {"method": method, "route": route, "status": status, "ms": round(1e3 * seconds, 2)}
            logging.event("request", **facts, key=caller.holder.name)

    def _admitted(self, scope: Scope, headers: dict[bytes, bytes], role: str) -> Caller:
        if self.registry is None:  # nor are the keys known
            raise later(503, STARTING)
        if self.access.keys.is_open and not PROXIED.isdisjoint(headers):  # the proxy is on this machine, not who asks
            raise Refused(403, FOR_OTHERS)
        return self.access.admit(scope, headers, role)

    def _found(self, scope: Scope, receive: Receive) -> tuple[Endpoint, Request]:
        """Return what answers a request."""
        path, method, limit = scope["path"], scope["method"], self.settings.body_limit
        if method == "POST":
            if path == "/v1/reports":
                return self._of_devices["reports"], Request(scope, receive, limit, {})
            name, _, what = path[len(ALL) + 1 :].partition("/")
            if what in self._of_devices and path.startswith(f"{ALL}/"):
                return self._of_devices[what], Request(scope, receive, limit, {"name": name})
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                return child["endpoint"], Request(scope, receive, limit, child["path_params"])
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            listed = ", ".join(sorted(allowed))
            raise Refused(405, f"this path does not take this method: use {listed}", [(b"allow", listed.encode())])
        raise Refused(404, "there is nothing at this path: GET /openapi.json describes all of them")

    async def _decide(self, ask: Request) -> Answer:
        body = await ask.body()
        live = self._decisions.registry.experiment(ask.params["name"])
        if live is not None and body and (most := self._answers.most(live)) < MOST_DECISIONS:
            n = self._asked(body).n or 1
            if n > most:
                raise Refused(400, f"n = {n}: payloads are so long here that {most} fit in one answer: ask more often")
        return await self._decisions.answer(ask.params["name"], body, ask.charge, may_read="read" in ask.roles)

    async def _report(self, ask: Request) -> Answer:
        body = await ask.body()
        return await self._reports.answer(ask, body)

    async def _describe(self, ask: Request) -> Answer:
        return description()

    async def _live_list(self, ask: Request) -> Stream:
        return Stream(self.broadcaster.stream_list(self._roles(ask)))

    async def _live(self, ask: Request) -> Stream:
        return Stream(
            self.broadcaster.stream_experiment(await found(self._office.registry, ask.params["name"]), self._roles(ask))
        )

    def _roles(self, ask: Request) -> Callable[[], frozenset[str]]:
        """Return what tells the roles that somebody who asks has by now."""
        headers = dict(ask.scope["headers"])
        return lambda: self.access.holder(headers).roles

    def _all_routes(self) -> list[Route]:
        """Return all paths, those of devices among them: a wrong method there is told as such."""
        admin_routes = self._office

        def route(method: str, path: str, endpoint: Endpoint) -> Route:
            return Route(path, endpoint, methods=[method])  # type: ignore[arg-type]  # it is only found by it

        return [
            route("GET", "/healthz", Endpoint("health", "", admin_routes.health)),
            route("GET", "/readyz", Endpoint("health", "", admin_routes.ready)),
            route("GET", "/metrics", Endpoint("metrics", "read", admin_routes.counts)),
            route("GET", "/openapi.json", Endpoint("openapi", "", self._describe)),
            route("POST", "/v1/reports", self._of_devices["reports"]),
            route("GET", ALL, Endpoint("experiments", "read", admin_routes.list_all)),
            route("POST", ALL, Endpoint("experiments", "admin", admin_routes.create)),
            route("GET", ONE, Endpoint("experiments", "read", admin_routes.show)),
            route("PATCH", ONE, Endpoint("experiments", "admin", admin_routes.change)),
            route("GET", f"{ONE}/state", Endpoint("state", "read", admin_routes.state)),
            route("GET", f"{ONE}/live", Endpoint("live", "read", self._live)),
            route("GET", "/v1/live", Endpoint("live", "read", self._live_list)),
            route("POST", f"{ONE}/arms", Endpoint("experiments", "admin", admin_routes.add_arm)),
            route("POST", f"{ONE}/arms/{{arm:path}}/retire", Endpoint("experiments", "admin", admin_routes.retire)),
            route("POST", f"{ONE}/decisions", self._of_devices["decisions"]),
            route("POST", f"{ONE}/reports", self._of_devices["reports"]),
            route("GET", "/client.js", static.file(static.client())),
            route("GET", "/", static.elsewhere("dashboard")),
            route("GET", "/dashboard", static.file(PAGE / "index.html")),
            route("GET", "/dashboard/{file}", static.folder(PAGE)),
        ]


def _refusal(error: Exception) -> Answer:
    """Return what is answered to a request that could not be done."""
    if isinstance(error, Refused):
        return error.answer()
    if isinstance(error, StoreUnavailable):  # first: a store that cannot be opened is a user's error as well
        return later(503, GONE).answer()
    if isinstance(error, UserError):
        return Refused(400, str(error)).answer()
    logging.fault("request failed", error)
    return Refused(500, "the service failed, which it never should: its log says where").answer()


async def _refuse_socket(scope: Scope, send: Send) -> None:
    """Close what is no request."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
