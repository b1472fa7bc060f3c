"""The routes of administrators and observers: experiments and their state."""

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
from maskedbandits.service.storage import Conflict

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment
    from maskedbandits.service.registry import ExperimentRegistry

EXPERIMENTS = "/v1/experiments"
EXPERIMENT = f"{EXPERIMENTS}/{{name}}"
STARTING = "the service is starting: send the request again in a moment"


class AdminRoutes:
    """Handles the requests of administrators and observers."""

    routes = RouteTable()

    def __init__(self, get_registry: Callable[[], ExperimentRegistry | None]) -> None:
        self._get_registry = get_registry
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

    @routes.add(
        *("GET", EXPERIMENTS, "listExperiments", "List all experiments.", "experiments", "read"),
        replies=(ExperimentsAnswer,),
    )
    async def list_all(self, request: Request) -> Response:
        """List all experiments."""
        return json_response(200, ExperimentsAnswer(list(map(summarize_experiment, self.registry.experiments()))))

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
