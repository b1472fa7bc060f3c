"""The description of the service that programs read: OpenAPI 3.1, made of the types in `schemas.py` and `replies.py`.

Every status that an answer can have is listed, so that a test can ask everything and find nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from maskedbandits import __version__
from maskedbandits.service import replies, schemas
from maskedbandits.service.http import MOST_HEAD, SLOWEST, Answer

TYPES = (
    schemas.AnswerRequest,
    schemas.BitRequest,
    schemas.DecisionRequest,
    schemas.ExperimentChange,
    schemas.ExperimentConfig,
    schemas.NewArm,
    schemas.ReportsRequest,
    replies.Complaint,
    replies.DecisionAnswer,
    replies.DecisionsAnswer,
    replies.ExperimentAnswer,
    replies.ExperimentsAnswer,
    replies.GroupsStateAnswer,
    replies.QuestionAnswer,
    replies.QuestionsAnswer,
    replies.ReportAnswer,
    replies.ReportsAnswer,
    replies.StateAnswer,
)
SAID = {
    400: "The request is not understood, or cannot be done; the answer says what to change.",
    401: "A key is needed.",
    403: "The key has not the role that is needed.",
    404: "There is no such experiment, arm or file.",
    408: "The body did not arrive in time.",
    409: "The name is taken, it is done already, or the experiment is archived.",
    410: "It is over: the experiment is archived, or the report late.",
    413: "The body is too long.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "Not now: the service is starting, or its store cannot be reached; Retry-After says when to come again.",
}
SENT = (400, 408, 413)  # whatever a body is for
KEYED = (
    400,
    401,
    403,
    429,
    503,
)  # wherever a key is needed; the first is for two Host or Authorization headers, or no Host
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "pattern": schemas.SLUG}}
PARTS = ("text/css", "text/html", "text/javascript")  # of the dashboard
FILE_NAME = {"type": "string", "pattern": r"^[a-z]+\.(css|html|js)$"}
FILE = {"name": "file", "in": "path", "required": True, "schema": FILE_NAME}
ARM = {"name": "arm", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _ref(*names: str) -> dict[str, Any]:
    listed = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return listed[0] if len(listed) == 1 else {"anyOf": listed}


def _json(*names: str) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(*names)}}


def _refusal(code: int, *names: str) -> dict[str, Any]:
    about: dict[str, Any] = {"description": SAID[code], "content": _json(*(names or ("Complaint",)))}
    if code in (429, 503):
        about["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
    return about


def _operation(
    name: str,
    summary: str,
    answer: Mapping[int, tuple[str, ...]],
    *,
    role: str = "",
    body: tuple[str, ...] = (),
    is_optional: bool = False,
    codes: tuple[int, ...] = (),
    path: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """Return the description of one operation; ``codes`` are refusals beside those that all of its kind have."""
    told = [*codes, *(SENT if body else ()), *(KEYED if role else ()), *((404,) if path else ())]
    found = {code: _refusal(code) for code in sorted(set(told))}
    for code, names in answer.items():
        if code >= 400:
            found[code] = _refusal(code, *names)
        else:
            found[code] = {"description": summary, "content": _json(*names)}
    about: dict[str, Any] = {"operationId": name, "summary": summary}
    about["responses"] = {str(code): found[code] for code in sorted(found)}
    if path:
        about["parameters"] = list(path)
    if body:
        about["requestBody"] = {"required": not is_optional, "content": _json(*body)}
    if role:
        about["security"] = [{"key": []}]
        about["description"] = f"Needs a key with the role {role}."
    return about


def _of_experiments() -> dict[str, Any]:
    one, many, state = (
        {200: ("ExperimentAnswer",)},
        {200: ("ExperimentsAnswer",)},
        {200: ("StateAnswer", "GroupsStateAnswer")},
    )
    made = {201: ("ExperimentAnswer",)}
    config, change, arm, path = ("ExperimentConfig",), ("ExperimentChange",), ("NewArm",), (NAME,)
    listed = _operation("listExperiments", "All experiments.", many, role="read")
    created = _operation("createExperiment", "Create an experiment.", made, role="admin", body=config, codes=(409,))
    shown = _operation("showExperiment", "An experiment.", one, role="read", path=path)
    changed = _operation(
        "changeExperiment", "Change its status or terms.", one, role="admin", body=change, codes=(409,), path=path
    )
    learnt = _operation("showState", "What it has learnt.", state, role="read", path=path)
    followed = _streamed("followState", "What it has learnt, as server-sent events.", path)
    added = _operation("addArm", "Add an arm.", made, role="admin", body=arm, codes=(409,), path=path)
    retired = _operation("retireArm", "Retire an arm.", one, role="admin", codes=(400, 409), path=(NAME, ARM))
    return {
        "/v1/experiments": {"get": listed, "post": created},
        "/v1/experiments/{name}": {"get": shown, "patch": changed},
        "/v1/experiments/{name}/state": {"get": learnt},
        "/v1/experiments/{name}/live": {"get": followed},
        "/v1/live": {"get": _streamed("followExperiments", "All experiments, as server-sent events.")},
        "/v1/experiments/{name}/arms": {"post": added},
        "/v1/experiments/{name}/arms/{arm}/retire": {"post": retired},
    }


def _of_devices() -> dict[str, Any]:
    decided = {200: ("DecisionAnswer", "DecisionsAnswer", "QuestionAnswer", "QuestionsAnswer")}
    refused = dict.fromkeys((400, 403, 410), ("Complaint", "ReportAnswer"))
    taken = {200: ("ReportAnswer", "ReportsAnswer")} | refused
    reports: dict[str, Any] = {"role": "device", "body": ("BitRequest", "AnswerRequest", "ReportsRequest")}
    decide: dict[str, Any] = {"role": "device", "body": ("DecisionRequest",), "is_optional": True, "codes": (410,)}
    return {
        "/v1/experiments/{name}/decisions": {
            "post": _operation("decide", "What to show.", decided, path=(NAME,), **decide)
        },
        "/v1/experiments/{name}/reports": {
            "post": _operation("reportTo", "What happened, masked.", taken, path=(NAME,), **reports)
        },
        "/v1/reports": {"post": _operation("report", "What happened, masked.", taken, **reports)},
    }


def _of_the_service() -> dict[str, Any]:
    return {
        "/healthz": {"get": _plain("health", "The process answers.")},
        "/readyz": {"get": _plain("readiness", "Decisions can be made and reports taken.", 503)},
        "/metrics": {"get": _metrics()},
        "/openapi.json": {"get": _plain("description", "This description.")},
        "/client.js": {"get": _file("client", "The module that runs on people's pages.", "text/javascript")},
        "/": {"get": _elsewhere("start", "Sends a browser on to the dashboard.")},
        "/dashboard": {"get": _file("dashboard", "The dashboard, a page; what it shows needs a key.", "text/html")},
        "/dashboard/{file}": {"get": _file("dashboardFile", "A part of it.", *PARTS, path=(FILE,))},
    }


def _file(name: str, summary: str, *kinds: str, path: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    about = _operation(name, summary, {}, path=path)
    content = {f"{kind}; charset=utf-8": {"schema": {"type": "string"}} for kind in kinds}
    about["responses"]["200"] = {"description": summary, "content": content}
    about["responses"]["304"] = {"description": "It is as If-None-Match says."}
    return about


def _elsewhere(name: str, summary: str) -> dict[str, Any]:
    about = _operation(name, summary, {})
    about["responses"]["307"] = {"description": summary, "headers": {"Location": {"schema": {"type": "string"}}}}
    return about


def _streamed(name: str, summary: str, path: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    about = _operation(name, summary, {}, role="read", path=path)
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    about["responses"]["200"] = {"description": "Events, at most one a second.", "content": content}
    return about


def _plain(name: str, summary: str, *codes: int) -> dict[str, Any]:
    about = _operation(name, summary, {}, codes=codes)
    about["responses"]["200"] = {
        "description": summary,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
    return about


def _metrics() -> dict[str, Any]:
    about = _operation("metrics", "Counts, as Prometheus reads them.", {}, role="read")
    content = {"text/plain": {"schema": {"type": "string"}}}
    about["responses"]["200"] = {"description": "Counts.", "content": content}
    return about


@functools.cache
def document() -> dict[str, Any]:
    """Return the whole description."""
    _, components = msgspec.json.schema_components(TYPES, ref_template="#/components/schemas/{name}")
    about = (
        "Devices ask what to show, randomise what happened, and report that; nobody else sees what it was. "
        f"On every path a request whose head is longer than {MOST_HEAD} bytes is answered with 431, and one whose head "
        f"takes longer than {SLOWEST:g} seconds with 408."
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Masked Bandits", "version": __version__, "description": about},
        "paths": {**_of_experiments(), **_of_devices(), **_of_the_service()},
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


@functools.cache
def description() -> Answer:
    """Return it as it is sent."""
    return Answer(200, msgspec.json.encode(document()))
