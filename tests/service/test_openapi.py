"""The OpenAPI description: replies to any request that it allows match it, and no request causes a 500."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registries import build_registry, storage_in
from running import running
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from web import SMALL, Served

from maskedbandits.service.app import OPERATIONS as SERVED
from maskedbandits.service.auth import create_key
from maskedbandits.service.openapi import describe_service
from maskedbandits.service.server.metrics import STATUSES
from maskedbandits.service.storage import open_store

pytest_plugins = ["service_fixtures"]

DOCUMENT = describe_service(SERVED)
OPERATIONS = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 5
SLOW_EXAMPLES = 50
STREAMED = {("get", "/v1/live"), ("get", "/v1/experiments/{name}/live")}
CAN_BE_WRONG = [each for each in OPERATIONS if {"parameters", "requestBody"} & set(DOCUMENT["paths"][each[1]][each[0]])]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, restless: None) -> Iterator[Served]:
    storage = storage_in(tmp_path_factory.mktemp("described"))
    with open_store(storage) as store, Served(build_registry(storage)) as served:
        served.client.key = create_key(store, "admin", "admin", 0)[1]
        served.renew_keys()
        assert served.post("/v1/experiments", SMALL).status == 201
        yield served


@pytest.fixture(scope="module")
def described(service: Served) -> Any:
    """The operations by path and method, as the service describes them."""
    return schemathesis.openapi.from_asgi("/openapi.json", service.from_another_loop)


def test_document_is_served(service: Served) -> None:
    reply = service.get("/openapi.json")
    assert reply.json == DOCUMENT


def test_every_described_status_is_counted() -> None:
    answers = [answers["responses"] for methods in DOCUMENT["paths"].values() for answers in methods.values()]
    assert {int(code) for each in answers for code in each} <= set(STATUSES)


def test_every_reference_resolves() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from ([value["$ref"]] if "$ref" in value else [])
            value = list(value.values())
        for each in value if isinstance(value, list) else []:
            yield from references(each)

    found = {each.removeprefix("#/components/schemas/") for each in references(DOCUMENT)}
    assert found <= set(schemas)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_replies_to_valid_requests_match_description(service: Served, described: Any, method: str, path: str) -> None:
    ask_everything(described[path][method], GenerationMode.POSITIVE, service.client.key)
    assert service.get("/readyz").status == 200


@pytest.mark.parametrize(("method", "path"), CAN_BE_WRONG)
def test_replies_to_invalid_requests_match_description(service: Served, described: Any, method: str, path: str) -> None:
    ask_everything(described[path][method], GenerationMode.NEGATIVE, service.client.key)
    assert service.get("/readyz").status == 200


@pytest.mark.slow
@pytest.mark.long
def test_real_service_matches_description(tmp_path: Path) -> None:
    """Over a socket, with a web server in between that judges requests as well."""
    storage = f"sqlite:///{tmp_path}/bandits.db"
    with open_store(storage, create=True) as store:
        key = create_key(store, "admin", "admin", 0)[1]
    with running(storage) as real:
        real.wait_until_ready()
        real.key = key
        assert real.ask("POST", "/v1/experiments", SMALL)[0] == 201
        schema = schemathesis.openapi.from_url(f"{real.address}/openapi.json")
        for method, path in OPERATIONS:
            if (method, path) not in STREAMED:  # which would be read for minutes
                ask_everything(schema[path][method], GenerationMode.POSITIVE, key, SLOW_EXAMPLES)
        for method, path in set(CAN_BE_WRONG) - STREAMED:
            ask_everything(schema[path][method], GenerationMode.NEGATIVE, key, SLOW_EXAMPLES)
        assert real.ask("GET", "/readyz") == (200, {"status": "ready", "reasons": []})
        code, logged = real.stop(signal.SIGTERM)
    assert code == 0
    expected = {
        "compiling for this machine",
        "experiment is live",
        "ready",
        "stopped",
        "experiment is not followed any more",
    }
    assert {line["event"] for line in logged} <= expected


def ask_everything(operation: Any, mode: GenerationMode, key: str | None, examples: int = EXAMPLES) -> None:
    """Send valid or invalid requests of one operation, to an existing experiment and to others."""
    here = {"name": "headline", "arm": "long", "file": "plots.js", "code": "late", "digest": "0" * 32}

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(generation_mode=mode), is_here=st.booleans())
    def ask(case: Any, is_here: bool) -> None:
        if is_here and case.path_parameters:
            case.path_parameters = {name: here[name] for name in case.path_parameters}
        case.call_and_validate(checks=CHECKS, headers={"authorization": f"Bearer {key}"})

    ask()
