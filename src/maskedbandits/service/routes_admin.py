"""The routes of administrators and observers: experiments, their state, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from maskedbandits.errors import suggest_nearest
from maskedbandits.service.http import Request, RequestError, Response, RouteTable, json_response, retry_later
from maskedbandits.service.schemas import (
    ArmAnswer,
    BodyDecoder,
    ExperimentAnswer,
    ExperimentChange,
    ExperimentConfig,
    ExperimentsAnswer,
    GroupsStateAnswer,
    NewArm,
    StateAnswer,
    Summary,
    check_arm,
)
from maskedbandits.service.storage import Conflict, StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.server.metrics import Metrics

EXPERIMENTS = "/v1/experiments"
EXPERIMENT = f"{EXPERIMENTS}/{{name}}"
STARTING = "the service is starting: send the request again in a moment"
LIMITED_KEY = "this key is limited to some experiments, and {}: use a key without --experiment"
PROMETHEUS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class AdminRoutes:
    """Handles the requests of administrators and observers."""

    routes = RouteTable()

    def __init__(self, get_registry: Callable[[], ExperimentRegistry | None], metrics: Metrics) -> None:
        self._get_registry, self.metrics = get_registry, metrics
        self._decode_config = BodyDecoder(ExperimentConfig)
        self._decode_change = BodyDecoder(ExperimentChange)
        self._decode_arm = BodyDecoder(NewArm)

    @property
    def registry(self) -> ExperimentRegistry:
        """The experiments; before there are any, requests are refused."""
        registry = self._get_registry()
        if registry is None:
            raise retry_later(503, STARTING)
        return registry

    @routes.add("GET", "/healthz", "health", "Check that the process answers.", "health", replies=(dict,))
    async def health(self, request: Request) -> Response:
        """Answer that the process is alive."""
        return json_response(200, {"status": "ok"})

    @routes.add(
        *("GET", "/readyz", "readiness", "Check that decisions and reports are accepted.", "health"),
        replies=(dict,),
        errors=(503,),
    )
    async def ready(self, request: Request) -> Response:
        """Answer whether decisions and reports are accepted."""
        if not self.registry.is_ready:
            raise retry_later(503, "the store is unreachable: send the request again in a moment")
        return json_response(200, {"status": "ready"})

    @routes.add(
        *("GET", "/metrics", "metrics", "Get the metrics for Prometheus.", "metrics", "read"),
        media_types=("text/plain",),
        description="Metrics in the text format of Prometheus.",
    )
    async def export_metrics(self, request: Request) -> Response:
        """Return all metrics; those that the store has are missing while it cannot be reached."""
        if request.experiments is not None:
            raise RequestError(403, LIMITED_KEY.format("metrics count all experiments"))
        try:
            outcomes = await self.registry.outcomes()
        except StoreUnavailable:
            outcomes = {}
        registry = self.registry
        quarantined = len(registry.log_reader.quarantined)
        text = self.metrics.format_text(registry.experiments(), registry.is_ready, outcomes, quarantined)
        return Response(200, text.encode(), (PROMETHEUS,))

    @routes.add(
        *("GET", EXPERIMENTS, "listExperiments", "List all experiments.", "experiments", "read"),
        replies=(ExperimentsAnswer,),
    )
    async def list_all(self, request: Request) -> Response:
        """List the experiments that the caller may see."""
        found = [summarize_experiment(each) for each in self.registry.experiments() if request.may_reach(each.name)]
        return json_response(200, ExperimentsAnswer(found))

    @routes.add(
        *("POST", EXPERIMENTS, "createExperiment", "Create an experiment.", "experiments", "admin"),
        body=(ExperimentConfig,),
        status=201,
        replies=(ExperimentAnswer,),
        errors=(409,),
    )
    async def create(self, request: Request) -> Response:
        """Create an experiment."""
        config = self._decode_config(await request.body())
        if not request.may_reach(config.name):
            raise RequestError(403, LIMITED_KEY.format(f"it cannot create {config.name!r}"))
        with _translate_conflicts():
            return json_response(201, describe_experiment(await self.registry.create(config)))

    @routes.add(
        *("GET", EXPERIMENT, "showExperiment", "Get an experiment.", "experiments", "read"), replies=(ExperimentAnswer,)
    )
    async def show(self, request: Request) -> Response:
        """Describe an experiment."""
        return json_response(200, describe_experiment(await self._resolve(request)))

    @routes.add(
        *("PATCH", EXPERIMENT, "changeExperiment", "Change an experiment.", "experiments", "admin"),
        body=(ExperimentChange,),
        replies=(ExperimentAnswer,),
        errors=(409,),
    )
    async def change(self, request: Request) -> Response:
        """Change the status or the configuration of an experiment."""
        experiment = await self._resolve(request)
        change = self._decode_change(await request.body())
        with _translate_conflicts():
            return json_response(200, describe_experiment(await self.registry.change(experiment, change.to_dict())))

    @routes.add(
        *("GET", f"{EXPERIMENT}/state", "showState", "Get the state of an experiment.", "state", "read"),
        replies=(StateAnswer, GroupsStateAnswer),
    )
    async def state(self, request: Request) -> Response:
        """Return the state of an experiment and the outcomes of its decisions."""
        experiment = await self._resolve(request)
        reply = StateAnswer if experiment.config.groups is None else GroupsStateAnswer
        return json_response(200, reply(**await self.registry.view(experiment)))

    @routes.add(
        *("POST", f"{EXPERIMENT}/arms", "addArm", "Add an arm.", "experiments", "admin"),
        body=(NewArm,),
        status=201,
        replies=(ExperimentAnswer,),
        errors=(409,),
    )
    async def add_arm(self, request: Request) -> Response:
        """Add an arm."""
        experiment = await self._resolve(request)
        arm = self._decode_arm(await request.body())
        check_arm(arm)
        with _translate_conflicts():
            return json_response(201, describe_experiment(await self.registry.add_arm(experiment, arm)))

    @routes.add(
        *("POST", f"{EXPERIMENT}/arms/{{arm:path}}/retire", "retireArm", "Retire an arm.", "experiments", "admin"),
        replies=(ExperimentAnswer,),
        errors=(400, 409),
    )
    async def retire(self, request: Request) -> Response:
        """Retire an arm."""
        experiment, name = await self._resolve(request), request.params["arm"]
        if name not in experiment.arms.index:
            raise RequestError(404, f"no arm is called {name!r}{suggest_nearest(name, experiment.arms.names[:20])}")
        if experiment.arms.index[name] not in experiment.arms.open:
            raise RequestError(409, f"the arm {name!r} is already retired")
        with _translate_conflicts():
            return json_response(200, describe_experiment(await self.registry.retire(experiment, name)))

    async def _resolve(self, request: Request) -> LiveExperiment:
        return await self.registry.resolve(request.params["name"])


@contextmanager
def _translate_conflicts() -> Iterator[None]:
    """Answer 409 to a conflict."""
    try:
        yield
    except Conflict as conflict:
        raise RequestError(409, str(conflict)) from conflict


def summarize_experiment(experiment: LiveExperiment) -> Summary:
    """Return an experiment as a list shows it."""
    return Summary(
        name=experiment.name,
        status=experiment.status,  # type: ignore[arg-type]  # the store has the same words
        policy=experiment.config.policy,
        epsilon=experiment.config.epsilon,
        arms=len(experiment.arms.open),
        seq=experiment.state.seq,
        config_version=experiment.row.config_version,
        created_hour=experiment.row.created_hour,
    )


def describe_experiment(experiment: LiveExperiment) -> ExperimentAnswer:
    """Return the description of an experiment: all but its state."""
    about: dict[str, Any] = msgspec.structs.asdict(summarize_experiment(experiment))
    about |= {name: getattr(experiment.config, name) for name in experiment.config.__struct_fields__}
    about["default_arm"] = experiment.arms.names[experiment.row.default_arm]
    about["arms"] = [
        ArmAnswer(row.place, row.name, msgspec.Raw(row.payload.encode()), row.status)  # type: ignore[arg-type]
        for row in experiment.arms.rows
    ]
    return ExperimentAnswer(**about)
