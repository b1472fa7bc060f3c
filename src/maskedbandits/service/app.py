"""The service as an ASGI application: dispatch, access control, metrics and errors for every request.

Decisions and reports are dispatched by their paths directly, before Starlette's routes are tried one by one. Each
response is counted, and each error is a problem document (RFC 9457). No request can cause a 500.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, cast

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from maskedbandits.errors import UserError
from maskedbandits.service import static
from maskedbandits.service.auth import AccessControl, Caller, refuse_duplicates
from maskedbandits.service.clock import Clock
from maskedbandits.service.http import (
    ClientGone,
    Endpoint,
    Request,
    RequestError,
    Response,
    RouteTable,
    retry_later,
    send_response,
    unknown_experiment,
)
from maskedbandits.service.openapi import openapi_response
from maskedbandits.service.rate_limits import TokenBuckets
from maskedbandits.service.routes_admin import EXPERIMENT, EXPERIMENTS, STARTING, AdminRoutes
from maskedbandits.service.routes_health import HealthRoutes
from maskedbandits.service.schemas import (
    AnswerRequest,
    BitRequest,
    DecisionAnswer,
    DecisionRequest,
    DecisionsAnswer,
    QuestionAnswer,
    QuestionsAnswer,
    ReportAnswer,
    ReportsAnswer,
    ReportsRequest,
)
from maskedbandits.service.secret import Secrets, load_secrets
from maskedbandits.service.server import logging, readiness
from maskedbandits.service.server.metrics import CLIENT_GONE, Metrics
from maskedbandits.service.server.worker_memory import WorkerState
from maskedbandits.service.shared_table import SharedTable
from maskedbandits.service.sse import Stream, Streams
from maskedbandits.service.storage import StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.server.settings import Settings
    from maskedbandits.service.storage import Store
    from maskedbandits.service.storage.models import KeyRow

GONE = "the store is unreachable or overloaded: send the request again in a moment"
KEYS_EVERY_S = 3.0  # after which a revoked key is refused at the latest
MIN_KEYS_PAUSE_S = 1.0  # after which keys are read again for a token with an unknown key
UNKNOWN_CALLER = Caller()
PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
FORWARDED = "requests through a proxy require a key, and there is none: run maskedbandits key create"
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
HTML, JAVASCRIPT = (static.MEDIA_TYPES[suffix].decode() for suffix in (".html", ".js"))
REPORT = {"body": (BitRequest, AnswerRequest, ReportsRequest), "replies": (ReportAnswer, ReportsAnswer)}
STREAM = {"media_types": ("text/event-stream",), "description": "Events, at most one a second."}


class App:
    """The application. Until the registry of experiments is opened it answers that it is starting."""

    routes = RouteTable()

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        table: SharedTable | None = None,
    ) -> None:
        self.settings, self.table = settings, table or SharedTable()
        self.clock = clock or Clock()  # the registry's, once there is one
        self._date_second, self._date = 0, b""
        self.metrics = metrics or Metrics()
        self.access = AccessControl(settings, self.table)
        self.registry: ExperimentRegistry | None = None
        self._admin_routes = AdminRoutes(lambda: self.registry)
        self.streams = Streams()
        self._health_routes = HealthRoutes(self._admin_routes, self.metrics)
        tables = self._admin_routes, self._health_routes, self
        endpoints = [endpoint for owner in tables for endpoint in owner.routes.bind(owner)]
        self._routes = [
            Route(each.operation.path, each, methods=[each.operation.method])  # type: ignore[arg-type]  # only to match
            for each in endpoints
        ]
        by_id = {each.operation.id: each for each in endpoints}
        self._report_endpoint = by_id["report"]
        self._device_endpoints = {"decisions": by_id["decide"], "reports": by_id["reportTo"]}

    # Start and end

    async def open(self, registry: ExperimentRegistry) -> None:
        """Accept requests: the registry has started, and with it the slow imports are done."""
        from maskedbandits.service.dashboard.broadcast import Broadcaster
        from maskedbandits.service.routes_decisions import DecisionRoutes
        from maskedbandits.service.routes_reports import ReportRoutes

        self._keys_lock = asyncio.Lock()
        self._secrets = await self._read_keys(registry)
        self._decision_routes = DecisionRoutes(registry, self._secrets, self.metrics)
        by_token = TokenBuckets(self.settings.token_rate, self.settings.burst, self.table, b"token")
        self._report_routes = ReportRoutes(
            registry, self._secrets, self.metrics, by_token, self.renew_keys, self.access.find_block
        )
        self.registry, self.clock = registry, registry.clock
        self.broadcaster = Broadcaster(registry)
        self.broadcaster.start()
        self._health_routes.feeds = self.broadcaster.feeds
        memory = self.metrics.memory
        repeated = self._renew_often(), readiness.publish_often(memory, registry)
        self._repeating = [asyncio.create_task(each) for each in repeated]
        memory.set("state", WorkerState.READY)

    async def close(self) -> None:
        """Refuse new requests, and stop the registry."""
        registry, self.registry = self.registry, None
        if registry is not None:
            self.streams.end()
            await self.broadcaster.stop()
            for task in self._repeating:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await registry.stop()

    async def _read_keys(self, registry: ExperimentRegistry) -> Secrets:
        def read(store: Store) -> tuple[list[KeyRow], Secrets]:
            return store.list_keys(), load_secrets(store)

        self._keys_read_at = time.monotonic()
        rows, secrets = cast("tuple[list[KeyRow], Secrets]", await registry.call_store(read))
        self.access.keys.refresh(rows)
        return secrets

    async def renew_keys(self) -> None:
        """Read the keys again; concurrent callers share one read."""
        called = time.monotonic()
        async with self._keys_lock:
            if self._keys_read_at >= called or self.registry is None:
                return
            await asyncio.sleep(max(0.0, self._keys_read_at + MIN_KEYS_PAUSE_S - called))
            if self.registry is not None:
                read = await self._read_keys(self.registry)
                self._secrets.ring = read.ring  # the other keys derive from the secret, which never changes

    async def _renew_often(self) -> None:
        while True:
            await asyncio.sleep(KEYS_EVERY_S)
            try:
                await self.renew_keys()
            except StoreUnavailable:
                continue  # requests show it; the known keys stay
            except Exception as error:  # the keys have to be read again the next time in any case
                logging.fault("keys could not be read", error)

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        if scope["type"] != "http":
            await _refuse_socket(scope, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        extra = [] if origin is None else self.access.cors_headers(origin)
        label, caller = "other", UNKNOWN_CALLER
        response: Response | Stream
        try:
            refuse_duplicates(scope, headers)
            if origin is not None and scope["method"] == "OPTIONS":
                response = self.access.preflight(origin)
            else:
                (operation, run), request = self._dispatch(scope, receive)
                label = operation.label
                if operation.role:
                    caller = self._admit(scope, headers, operation.role)
                    request.key, request.roles, request.experiments = caller.holder
                    request.charge = partial(self.access.charge, caller)
                    _check_scope(request)
                response = await run(request)
                if isinstance(response, Stream):
                    self.streams.refuse_if_full()
        except ClientGone:
            self._count(scope, label, CLIENT_GONE, began, caller)
            return
        except Exception as error:
            response = _translate_error(error)
        extra.append((b"date", self._format_date()))
        if isinstance(response, Stream):
            await self.streams.send_stream(scope, receive, send, response, extra)
        else:
            await send_response(send, response, extra, is_head=scope["method"] == "HEAD")
        self._count(scope, label, response.status, began, caller)

    def _format_date(self) -> bytes:
        """Return the Date header, by the clock that replies go by."""
        second = int(self.clock.now())
        if second != self._date_second:
            self._date_second, self._date = second, formatdate(second, usegmt=True).encode()
        return self._date

    def _count(self, scope: Scope, label: str, status: int, began: float, caller: Caller) -> None:
        seconds = time.perf_counter() - began
        self.metrics.count_request(label, status, seconds)
        if self.settings.access_log:
            method = scope["method"] if scope["method"] in METHODS else "other"
            facts = {"method": method, "route": label, "status": status, "ms": round(1e3 * seconds, 2)}
            logging.event("request", **facts, key=caller.holder.name)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes], role: str) -> Caller:
        if self.registry is None:  # the keys are not known either
            raise retry_later(503, STARTING, code="starting")
        if self.access.keys.is_open and not PROXY_HEADERS.isdisjoint(headers):  # the proxy is local, its client is not
            raise RequestError(403, FORWARDED, code="local_only")
        return self.access.admit(scope, headers, role)

    def _dispatch(self, scope: Scope, receive: Receive) -> tuple[Endpoint, Request]:
        """Return the endpoint of a request."""
        path, method, max_bytes = scope["path"], scope["method"], self.settings.body_limit
        if method == "POST":
            if path == "/v1/reports":
                return self._report_endpoint, Request(scope, receive, max_bytes, {})
            name, _, what = path[len(EXPERIMENTS) + 1 :].partition("/")
            if what in self._device_endpoints and path.startswith(f"{EXPERIMENTS}/"):
                return self._device_endpoints[what], Request(scope, receive, max_bytes, {"name": name})
        allowed: set[str] = set()
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                return child["endpoint"], Request(scope, receive, max_bytes, child["path_params"])
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            listed = ", ".join(sorted(allowed))
            raise RequestError(405, f"method not allowed: use {listed}", [(b"allow", listed.encode())])
        raise RequestError(404, "no such path: GET /openapi.json lists all paths", code="unknown_path")

    # Routes of devices

    @routes.add(
        *("POST", f"{EXPERIMENT}/decisions", "decide", "Ask for a decision.", "decisions", "device"),
        body=(DecisionRequest,),
        is_body_optional=True,
        replies=(DecisionAnswer, DecisionsAnswer, QuestionAnswer, QuestionsAnswer),
        errors=(410,),
    )
    async def _decide(self, request: Request) -> Response:
        body = await request.body()
        return await self._decision_routes.decide(request.params["name"], body, request.charge, request.roles)

    @routes.add("POST", f"{EXPERIMENT}/reports", "reportTo", "Send masked reports.", "reports", "device", **REPORT)
    @routes.add("POST", "/v1/reports", "report", "Send masked reports.", "reports", "device", **REPORT)
    async def _report(self, request: Request) -> Response:
        return await self._report_routes.report(request, await request.body())

    # Live state

    @routes.add(
        *("GET", f"{EXPERIMENT}/live", "followState", "Follow the state of an experiment.", "live", "read"),
        **STREAM,
    )
    async def _follow_state(self, request: Request) -> Stream:
        experiment = await self._admin_routes.registry.resolve_loaded(request.params["name"])
        return Stream(self.broadcaster.stream_experiment(experiment, self._track_roles(request)))

    @routes.add(*("GET", "/v1/live", "followExperiments", "Follow all experiments.", "live", "read"), **STREAM)
    async def _follow_experiments(self, request: Request) -> Stream:
        return Stream(self.broadcaster.stream_list(self._track_roles(request), request.experiments))

    def _track_roles(self, request: Request) -> Callable[[], frozenset[str]]:
        """Return a function for the present roles of a caller, whose key may be revoked meanwhile."""
        headers = dict(request.scope["headers"])
        return lambda: self.access.identify(headers).roles

    # Description and files

    @routes.add("GET", "/openapi.json", "description", "Get the OpenAPI description.", "openapi", replies=(dict,))
    async def _describe(self, request: Request) -> Response:
        return openapi_response(OPERATIONS)

    @routes.add(
        *("GET", "/client.js", "client", "Get the browser client.", "static"),
        media_types=(JAVASCRIPT,),
    )
    async def _send_client(self, request: Request) -> Response:
        return static.serve_client(request)

    @routes.add(
        *("GET", "/report-worker.js", "reportWorker", "Get the service worker of the browser client.", "static"),
        media_types=(JAVASCRIPT,),
    )
    async def _send_report_worker(self, request: Request) -> Response:
        return static.serve_report_worker(request)

    @routes.add(
        *("GET", "/client.{digest}.js", "clientRelease", "Get a release of the browser client.", "static"),
        media_types=(JAVASCRIPT,),
        errors=(404,),
    )
    async def _send_client_release(self, request: Request) -> Response:
        return static.serve_client_for_ever(request)

    @routes.add("GET", "/", "start", "Redirect to the dashboard.", "static", status=307)
    async def _redirect(self, request: Request) -> Response:
        return static.redirect("dashboard")

    @routes.add(
        *("GET", "/dashboard", "dashboard", "Get the dashboard.", "static"),
        media_types=(HTML,),
    )
    async def _send_dashboard(self, request: Request) -> Response:
        return static.serve_file(request, static.DASHBOARD / "index.html")

    @routes.add(
        *("GET", "/dashboard/{file}", "dashboardFile", "Get a file of the dashboard.", "static"),
        media_types=tuple(kind.decode() for kind in static.MEDIA_TYPES.values()),
    )
    async def _send_dashboard_file(self, request: Request) -> Response:
        return static.serve_from(request, static.DASHBOARD)


# Of the whole service.
OPERATIONS = (*HealthRoutes.routes.operations, *AdminRoutes.routes.operations, *App.routes.operations)


def _translate_error(error: Exception) -> Response:
    """Return the response to a request that failed."""
    if isinstance(error, RequestError):
        return error.to_response()
    if isinstance(error, StoreUnavailable):  # first, because a store that cannot be opened is a user's error as well
        return retry_later(503, GONE, code="store_unavailable").to_response()
    if isinstance(error, UserError):
        return RequestError(400, str(error)).to_response()
    logging.fault("request failed", error)
    return RequestError(500, "internal error: see the log of the service").to_response()


def _check_scope(request: Request) -> None:
    """Refuse a path to an experiment that the caller's key is not for, as if there were none of that name."""
    if "name" in request.params and not request.may_reach(request.params["name"]):
        raise unknown_experiment()


async def _refuse_socket(scope: Scope, send: Send) -> None:
    """Close a websocket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
