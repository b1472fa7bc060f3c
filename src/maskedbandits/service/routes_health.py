"""The routes of load balancers and monitoring: whether the process answers, whether it decides, and metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from maskedbandits.service.http import LIMITED_KEY, Request, RequestError, Response, RouteTable, json_response
from maskedbandits.service.server.metrics import View, select_listed
from maskedbandits.service.server.readiness import list_reasons, publish
from maskedbandits.service.storage import StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.dashboard.broadcast import ExperimentFeed
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.routes_admin import AdminRoutes
    from maskedbandits.service.server.metrics import Metrics

OPEN_METRICS = "application/openmetrics-text"
TEXT_TYPE = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
OPEN_TYPE = (b"content-type", f"{OPEN_METRICS}; version=1.0.0; charset=utf-8".encode())


class Degradation(Struct):
    """A reason why a part of the service does not work now."""

    code: Annotated[str, Meta(description="Stable name of the reason.")]
    text: Annotated[str, Meta(description="The reason in one line.")]


class Readiness(Struct):
    """Whether every worker that accepts requests can decide."""

    status: Annotated[
        Literal["ready", "degraded"], Meta(description="`degraded`: decisions go on, and something else does not.")
    ]
    reasons: Annotated[list[Degradation], Meta(description="Why the service is degraded.")]


class HealthRoutes:
    """Handles the requests of load balancers and monitoring."""

    routes = RouteTable()

    def __init__(self, admin: AdminRoutes, metrics: Metrics) -> None:
        self._admin, self.metrics = admin, metrics
        self.feeds: Mapping[int, ExperimentFeed] = {}  # of the dashboard, by the id of an experiment

    @property
    def registry(self) -> ExperimentRegistry:
        """The experiments; before there are any, requests are refused."""
        return self._admin.registry

    @routes.add("GET", "/healthz", "health", "Check that the process answers.", "health", replies=(dict,))
    async def check_health(self, request: Request) -> Response:
        """Answer that the process is alive."""
        return json_response(200, {"status": "ok"})

    @routes.add(
        *("GET", "/readyz", "readiness", "Check that every worker can decide.", "health"),
        replies=(Readiness,),
        errors=(503,),
    )
    async def check_readiness(self, request: Request) -> Response:
        """Answer whether the service decides, and the reasons why something else does not work."""
        publish(self.metrics.memory, self.registry)
        reasons = [Degradation(*reason) for reason in list_reasons(self.metrics.memory)]
        return json_response(200, Readiness("degraded" if reasons else "ready", reasons))

    @routes.add(
        *("GET", "/metrics", "metrics", "Get the metrics for Prometheus.", "metrics", "read"),
        media_types=("text/plain", OPEN_METRICS),
        description="Metrics in the text format of Prometheus, or in OpenMetrics if the Accept header asks for it.",
    )
    async def export_metrics(self, request: Request) -> Response:
        """Return all metrics; those that the store has are missing while it cannot be reached."""
        if request.experiments is not None:
            raise RequestError(403, LIMITED_KEY.format("metrics count all experiments"), code="limited_key")
        registry, heads, outcomes = self.registry, {}, {}
        experiments = registry.experiments()
        publish(self.metrics.memory, registry)
        with contextlib.suppress(StoreUnavailable):  # what the store has is missing then
            heads = (await registry.call_store(lambda store: store.read_status())).heads
            outcomes = await registry.outcomes(select_listed(experiments))
        view = View(experiments, heads, outcomes, self._list_alerts(registry))
        is_open = OPEN_METRICS in dict(request.scope["headers"]).get(b"accept", b"").decode("latin-1")
        text = self.metrics.format_text(view, is_open=is_open)
        return Response(200, text.encode(), (OPEN_TYPE if is_open else TEXT_TYPE,))

    def _list_alerts(self, registry: ExperimentRegistry) -> dict[str, list[str]]:
        """Return the kinds of active alerts by experiment, as the dashboard last computed them."""
        found = {}
        for number, feed in [*self.feeds.items()]:
            experiment = registry.get_by_id(number)
            if experiment is not None and feed.alerts:
                found[experiment.name] = [alert["kind"] for alert in feed.alerts]
        return found
