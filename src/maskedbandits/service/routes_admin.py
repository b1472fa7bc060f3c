"""The routes of administrators and observers: experiments and their state."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from maskedbandits.errors import suggest_nearest
from maskedbandits.service import lists
from maskedbandits.service.admin_requests import IF_MATCH, REPEATABLE, AdminRequests, format_etag
from maskedbandits.service.http import (
    LIMITED_KEY,
    Request,
    RequestError,
    Response,
    RouteTable,
    json_response,
    retry_later,
)
from maskedbandits.service.lists import (
    AuditAnswer,
    DeletionAnswer,
    ExperimentsAnswer,
    Summary,
    describe_entry,
    format_hour,
)
from maskedbandits.service.problems import PROBLEMS, TYPE_PREFIX
from maskedbandits.service.schemas import (
    ArmAnswer,
    ArmChange,
    BodyDecoder,
    ExperimentAnswer,
    ExperimentChange,
    ExperimentConfig,
    GroupsStateAnswer,
    NewArm,
    StateAnswer,
    check_arm,
)
from maskedbandits.service.storage.models import OPEN, STATUSES, ArmRow, ExperimentRow

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment
    from maskedbandits.service.registry import Experiment, ExperimentRegistry

EXPERIMENTS = "/v1/experiments"
EXPERIMENT = f"{EXPERIMENTS}/{{name}}"
STARTING = "the service is starting: send the request again in a moment"


class ProblemDescription(Struct):
    """A kind of error."""

    code: Annotated[str, Meta(description="The code of such errors.")]
    status: Annotated[int, Meta(description="The HTTP status of such errors.")]
    title: Annotated[str, Meta(description="What the code means.")]


class AdminRoutes:
    """Handles the requests of administrators and observers."""

    routes = RouteTable()

    def __init__(self, get_registry: Callable[[], ExperimentRegistry | None]) -> None:
        self._get_registry = get_registry
        self._decode_config = BodyDecoder(ExperimentConfig)
        self._decode_change = BodyDecoder(ExperimentChange)
        self._decode_arm = BodyDecoder(NewArm)
        self._decode_arm_change = BodyDecoder(ArmChange)
        self._requests = AdminRequests(describe_row)

    @property
    def registry(self) -> ExperimentRegistry:
        """The experiments; before there are any, requests are refused."""
        registry = self._get_registry()
        if registry is None:
            raise retry_later(503, STARTING, code="starting")
        return registry

    @routes.add(
        *("GET", f"{TYPE_PREFIX}{{code}}", "describeError", "Get the meaning of an error.", "openapi"),
        replies=(ProblemDescription,),
    )
    async def describe_problem(self, request: Request) -> Response:
        """Describe an error by its code."""
        code = request.params["code"]
        if code not in PROBLEMS:
            raise RequestError(
                404, f"no error has the code {code!r}{suggest_nearest(code, PROBLEMS)}", code="unknown_code"
            )
        return json_response(200, ProblemDescription(code, *PROBLEMS[code]))

    @routes.add(
        *("GET", EXPERIMENTS, "listExperiments", "List experiments.", "experiments", "read"),
        query=lists.EXPERIMENTS_QUERY,
        replies=(ExperimentsAnswer,),
    )
    async def list_all(self, request: Request) -> Response:
        """List the experiments that the caller may see, a page at a time, as the store has them."""
        values = request.query(lists.EXPERIMENTS_QUERY)
        limit, after = lists.read_limit(values), lists.read_cursor(values)
        status = lists.read_choice("status", values, STATUSES)
        search = lists.read_text("search", values, 64)
        rows = await self.registry.call_store(
            lambda store: store.list_page(after, limit + 1, status, search, request.experiments)
        )
        following = rows[limit - 1].row.id if len(rows) > limit else None
        return json_response(200, ExperimentsAnswer([summarize_row(*each) for each in rows[:limit]], following))

    @routes.add(
        *("POST", EXPERIMENTS, "createExperiment", "Create an experiment.", "experiments", "admin"),
        headers=(REPEATABLE,),
        body=(ExperimentConfig,),
        status=201,
        replies=(ExperimentAnswer,),
        errors=(409, 422),
    )
    async def create(self, request: Request) -> Response:
        """Create an experiment."""
        body, registry = await request.body(), self.registry
        config = self._decode_config(body)
        if not request.may_reach(config.name):
            raise RequestError(403, LIMITED_KEY.format(f"it cannot create {config.name!r}"), code="limited_key")
        what = {**msgspec.to_builtins(config), "arms": [arm.name for arm in config.arms]}
        admin = self._requests.build_repeatable(request, registry, "create", what, body)

        async def work() -> Response:
            return _show(201, await registry.create(config, admin))

        return await self._requests.carry_out(registry, admin, work)

    @routes.add(
        *("GET", EXPERIMENT, "showExperiment", "Get an experiment.", "experiments", "read"), replies=(ExperimentAnswer,)
    )
    async def show(self, request: Request) -> Response:
        """Describe an experiment."""
        return _show(200, await self._resolve(request))

    @routes.add(
        *("PATCH", EXPERIMENT, "changeExperiment", "Change an experiment.", "experiments", "admin"),
        headers=(IF_MATCH,),
        body=(ExperimentChange,),
        replies=(ExperimentAnswer,),
        errors=(409, 412),
    )
    async def change(self, request: Request) -> Response:
        """Change the status or the configuration of an experiment."""
        registry, experiment = self.registry, await self._resolve_open(request)
        changes = self._decode_change(await request.body()).to_dict()
        admin = self._requests.build(request, registry, "change", changes)

        async def work() -> Response:
            return _show(200, await registry.change(experiment, changes, admin))

        return await self._requests.carry_out(registry, admin, work)

    @routes.add(
        *("DELETE", EXPERIMENT, "deleteExperiment", "Delete an archived experiment.", "experiments", "admin"),
        headers=(IF_MATCH,),
        status=202,
        replies=(DeletionAnswer,),
        errors=(409, 412),
    )
    async def delete(self, request: Request) -> Response:
        """Delete an archived experiment."""
        registry, experiment = self.registry, await self._resolve(request)
        admin = self._requests.build(request, registry, "delete", {"seq": experiment.seq})

        async def work() -> Response:
            await registry.delete(experiment, admin)
            return json_response(202, DeletionAnswer(experiment.name, experiment.seq))

        return await self._requests.carry_out(registry, admin, work)

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
        headers=(IF_MATCH, REPEATABLE),
        body=(NewArm,),
        status=201,
        replies=(ExperimentAnswer,),
        errors=(409, 412, 422),
    )
    async def add_arm(self, request: Request) -> Response:
        """Add an arm."""
        registry, body = self.registry, await request.body()
        arm = self._decode_arm(body)
        check_arm(arm)
        admin = self._requests.build_repeatable(request, registry, "add_arm", msgspec.to_builtins(arm), body)

        async def work() -> Response:
            return _show(201, await registry.add_arm(await self._resolve_open(request), arm, admin))

        return await self._requests.carry_out(registry, admin, work)

    @routes.add(
        *("PATCH", f"{EXPERIMENT}/arms/{{arm:path}}", "changeArm", "Change an arm.", "experiments", "admin"),
        headers=(IF_MATCH,),
        body=(ArmChange,),
        replies=(ExperimentAnswer,),
        errors=(409, 412),
    )
    async def change_arm(self, request: Request) -> Response:
        """Change the payload of an arm."""
        registry, experiment, name = self.registry, await self._resolve_open(request), request.params["arm"]
        payload = self._decode_arm_change(await request.body()).payload
        admin = self._requests.build(request, registry, "change_arm", {"arm": name, "payload": payload})

        async def work() -> Response:
            _check_open(experiment, name)
            return _show(200, await registry.set_payload(experiment, name, payload, admin))

        return await self._requests.carry_out(registry, admin, work)

    @routes.add(
        *("POST", f"{EXPERIMENT}/arms/{{arm:path}}/retire", "retireArm", "Retire an arm.", "experiments", "admin"),
        headers=(IF_MATCH,),
        replies=(ExperimentAnswer,),
        errors=(400, 409, 412),
    )
    async def retire(self, request: Request) -> Response:
        """Retire an arm."""
        registry, experiment, name = self.registry, await self._resolve_open(request), request.params["arm"]
        admin = self._requests.build(request, registry, "retire_arm", {"arm": name})

        async def work() -> Response:
            _check_open(experiment, name)
            return _show(200, await registry.retire(experiment, name, admin))

        return await self._requests.carry_out(registry, admin, work)

    @routes.add(
        *("GET", "/v1/audit", "listChanges", "List the changes that administrators made.", "experiments", "admin"),
        query=lists.AUDIT_QUERY,
        replies=(AuditAnswer,),
    )
    async def list_changes(self, request: Request) -> Response:
        """List the audit trail, a page at a time, the newest change first."""
        values = request.query(lists.AUDIT_QUERY)
        limit, before = lists.read_limit(values), lists.read_cursor(values)
        experiment = lists.read_text("experiment", values, 64)
        rows = await self.registry.call_store(
            lambda store: store.list_audit(before, limit + 1, experiment, request.experiments)
        )
        following = rows[limit - 1].id if len(rows) > limit else None
        return json_response(200, AuditAnswer(list(map(describe_entry, rows[:limit])), following))

    async def _resolve(self, request: Request) -> Experiment:
        return await self.registry.resolve(request.params["name"])

    async def _resolve_open(self, request: Request) -> LiveExperiment:
        return await self.registry.resolve_open(request.params["name"])


def _check_open(experiment: LiveExperiment, name: str) -> None:
    """Raise an error unless an arm exists and is open."""
    if name not in experiment.arms.index:
        what = f"no arm is called {name!r}{suggest_nearest(name, experiment.arms.names[:20])}"
        raise RequestError(404, what, code="unknown_arm")
    if experiment.arms.index[name] not in experiment.arms.open:
        raise RequestError(409, f"the arm {name!r} is already retired", code="arm_retired")


def _show(status: int, experiment: Experiment) -> Response:
    """Reply with the description of an experiment, and its version as ETag."""
    return json_response(status, describe_experiment(experiment), format_etag(experiment.row.config_version))


def summarize_row(row: ExperimentRow, open_arms: int) -> Summary:
    """Return an experiment as a list shows it, from its row."""
    policy, epsilon = _read_config(row.config)
    return Summary(
        name=row.name,
        status=row.status,  # type: ignore[arg-type]  # the store has the same words
        policy=policy,
        epsilon=epsilon,
        arms=open_arms,
        seq=row.seq,
        config_version=row.config_version,
        created_hour=row.created_hour,
        created=format_hour(row.created_hour),
    )


def _read_config(text: str) -> tuple[str, float]:
    """Return policy and epsilon of a stored configuration; a damaged experiment is listed without them."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return "", 0.0
    if not isinstance(values, dict):
        return "", 0.0
    policy, epsilon = values.get("policy"), values.get("epsilon")
    return policy if isinstance(policy, str) else "", epsilon if isinstance(epsilon, (int, float)) else 0.0


def describe_experiment(experiment: Experiment) -> ExperimentAnswer:
    """Return the description of an experiment: all but its state."""
    row = experiment.row._replace(seq=experiment.seq)  # which the reports have moved since the row was read
    return describe_row(row, experiment.arms.rows)


def describe_row(row: ExperimentRow, arms: Sequence[ArmRow]) -> ExperimentAnswer:
    """Return the description of an experiment as the store has it."""
    from maskedbandits.service.config import StoredConfig  # slow: the first response does not wait for it

    config, open_arms = StoredConfig.decode(row.config), sum(arm.status == OPEN for arm in arms)
    about: dict[str, Any] = msgspec.structs.asdict(summarize_row(row, open_arms))
    about |= {name: getattr(config, name) for name in config.__struct_fields__}
    about["default_arm"] = next(arm.name for arm in arms if arm.place == row.default_arm)
    about["arms"] = [
        ArmAnswer(arm.place, arm.name, msgspec.Raw(arm.payload.encode()), arm.status)  # type: ignore[arg-type]
        for arm in sorted(arms)
    ]
    return ExperimentAnswer(**about)
