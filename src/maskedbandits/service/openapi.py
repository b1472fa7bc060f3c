"""The OpenAPI 3.1 description of the service, derived from its operations and the types in `schemas.py`.

It lists every status that a response can have. A test sends everything that it allows, and finds no other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from maskedbandits import __version__
from maskedbandits.service import schemas
from maskedbandits.service.http import BODY_TIMEOUT_S, MAX_HEAD_BYTES, PROBLEM_MEDIA_TYPE, Operation, Response
from maskedbandits.service.report_status import REPORT_STATUSES

ERRORS = {
    400: "The request is invalid. The detail says what to change.",
    401: "A key is required.",
    403: "The key lacks the required role.",
    404: "The experiment, arm, file or code does not exist.",
    408: "The body did not arrive in time.",
    409: "The name is taken, the change is already made, or the experiment is archived, or not archived.",
    410: "The experiment is archived, or the report is late.",
    412: "The experiment has changed since the version in If-Match.",
    413: "The body is too long.",
    422: "The Idempotency-Key was used for another request.",
    429: "Too many requests. Retry-After says when to try again.",
    503: "The service is starting, or cannot reach its store. Retry-After says when to try again.",
}
BODY_ERRORS = (400, 408, 413)
KEY_ERRORS = (400, 401, 403, 429, 503)  # 400 for two Host or Authorization headers, or no Host
REPORT_ERRORS = {status.code for status in REPORT_STATUSES.values() if status.error and status.is_final}
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
PARAMETERS: dict[str, dict[str, Any]] = {  # parts of a path, by name
    "name": {"type": "string", "pattern": schemas.SLUG},
    "arm": {"type": "string", "minLength": 1},
    "code": {"type": "string", "pattern": r"^[a-z_]+$"},
    "digest": {"type": "string", "pattern": r"^[0-9a-f]{32}$"},
    "file": {"type": "string", "pattern": r"^[a-z]+\.(css|html|js)$"},
}


def _refer_to(types: Iterable[Any]) -> dict[str, Any]:
    """Return the content of a JSON body of one of these types."""
    listed = [
        {"type": "object"} if each is dict else {"$ref": f"#/components/schemas/{each.__name__}"} for each in types
    ]
    return {"application/json": {"schema": listed[0] if len(listed) == 1 else {"anyOf": listed}}}


def _describe_error(code: int) -> dict[str, Any]:
    content = _refer_to([schemas.ProblemAnswer])["application/json"]
    about: dict[str, Any] = {"description": ERRORS[code], "content": {PROBLEM_MEDIA_TYPE: content}}
    if code in (429, 503):
        about["headers"] = RETRY_AFTER
    return about


def _describe_success(operation: Operation) -> dict[str, Any]:
    about: dict[str, Any] = {"description": operation.description or operation.summary}
    if operation.status == 307:
        about["headers"] = {"Location": {"schema": {"type": "string"}}}
    elif operation.media_types:
        about["content"] = {kind: {"schema": {"type": "string"}} for kind in operation.media_types}
    else:
        about["content"] = _refer_to(operation.replies)
    return about


def describe_operation(operation: Operation) -> dict[str, Any]:
    """Return the description of one operation."""
    parameters = [*_path_parameters(operation), *_other_parameters(operation)]
    codes = {*operation.errors, *(BODY_ERRORS if operation.body else ()), *(KEY_ERRORS if operation.role else ())}
    codes |= {400} if operation.query or operation.headers else set()
    codes |= {404} if _path_parameters(operation) else set()
    codes |= REPORT_ERRORS if schemas.ReportAnswer in operation.replies else set()
    responses = {code: _describe_error(code) for code in codes}
    responses[operation.status] = _describe_success(operation)
    if operation.label == "static" and operation.status == 200:
        responses[304] = {"description": "The file is unchanged."}
    about: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary}
    about["responses"] = {str(code): responses[code] for code in sorted(responses)}
    if parameters:
        about["parameters"] = parameters
    if operation.body:
        about["requestBody"] = {"required": not operation.is_body_optional, "content": _refer_to(operation.body)}
    if operation.role:
        about["security"] = [{"key": []}]
        about["description"] = f"Requires a key with the role {operation.role}."
    return about


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in PARAMETERS.items()
        if f"{{{name}}}" in path_format(operation)
    ]


def _other_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": place, "schema": dict(schema), "description": description}
        for place, listed in (("query", operation.query), ("header", operation.headers))
        for name, schema, description in listed
    ]


def path_format(operation: Operation) -> str:
    """Return the path without Starlette's convertors."""
    return operation.path.replace(":path}", "}")


@functools.cache
def describe_service(operations: tuple[Operation, ...]) -> dict[str, Any]:
    """Return the whole document."""
    types = {each for operation in operations for each in (*operation.body, *operation.replies) if each is not dict}
    ordered = sorted({*types, schemas.ProblemAnswer}, key=lambda each: str(each.__name__))
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    about = (
        "Devices ask what to show, randomise what happened, and report that. Nobody else sees what happened. "
        f"On every path a request head of more than {MAX_HEAD_BYTES} bytes gets 431, and one that takes more than "
        f"{BODY_TIMEOUT_S:g} seconds gets 408."
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(path_format(operation), {})[operation.method.lower()] = describe_operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Masked Bandits", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


@functools.cache
def openapi_response(operations: tuple[Operation, ...]) -> Response:
    """Return the document as a response."""
    return Response(200, msgspec.json.encode(describe_service(operations)))
