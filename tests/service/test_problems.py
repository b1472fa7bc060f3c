"""Every error has a code that is listed, described and served, and no listed code is unused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web import Served

from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.http import RequestError
from maskedbandits.service.openapi import describe_service
from maskedbandits.service.problems import GENERAL_CODES, PROBLEMS
from maskedbandits.service.report_status import REPORT_STATUSES
from maskedbandits.service.storage import Conflict

pytest_plugins = ["service_fixtures"]

SERVICE = Path(__file__).parents[2] / "src" / "maskedbandits" / "service"
POSITIONS = {"RequestError": 3, "retry_later": 3, "Conflict": 1}  # of the code among the arguments


def list_raised() -> Iterator[tuple[str, Any, Any]]:
    """Yield call, status and code of each error that the sources build; None where it is not a literal."""
    for path in SERVICE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in POSITIONS:
                place = POSITIONS[node.func.id]
                given = [each.value for each in node.keywords if each.arg == "code"] + node.args[place : place + 1]
                code = given[0] if given else ast.Constant("")
                status = node.args[0] if node.func.id != "Conflict" else ast.Constant(None)
                values = [each.value if isinstance(each, ast.Constant) else None for each in (status, code)]
                yield node.func.id, values[0], values[1]


def test_every_raised_code_is_listed_with_its_status() -> None:
    raised = list(list_raised())
    assert len(raised) > 20
    for call, status, code in raised:
        if code:
            assert code in PROBLEMS, (call, code)
            assert status is None or PROBLEMS[code].status == status, (call, status, code)
        elif status is not None:
            assert status in GENERAL_CODES, (call, status)


def test_every_listed_code_is_used() -> None:
    raised = {code for _, _, code in list_raised() if code}
    assert set(PROBLEMS) - set(GENERAL_CODES.values()) - set(REPORT_STATUSES) <= raised


def test_code_of_another_status_is_a_bug() -> None:
    with pytest.raises(ValueError, match="the status 409"):
        RequestError(404, "no", code="name_taken")
    assert RequestError(404, "no").code == "not_found"
    assert Conflict("taken").code == "conflict"


def test_document_lists_all_codes() -> None:
    schema = describe_service(OPERATIONS)["components"]["schemas"]["ProblemAnswer"]
    assert schema["properties"]["code"]["enum"] == sorted(PROBLEMS)


def test_type_of_error_leads_to_its_description(served: Served) -> None:
    refused = served.post("/v1/experiments", {"name": "headline", "epsilon": 1, "arms": [{"name": "a"}]})
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json == {
        "type": "/v1/problems/name_taken",
        "title": PROBLEMS["name_taken"].title,
        "status": 409,
        "detail": "the experiment 'headline' already exists: give another name",
        "code": "name_taken",
    }
    described = served.get(refused.json["type"])
    assert described.json == {"code": "name_taken", "status": 409, "title": PROBLEMS["name_taken"].title}
    assert served.get("/v1/problems/none").json["code"] == "unknown_code"


def test_status_of_single_report_is_its_code(served: Served) -> None:
    reply = served.post("/v1/reports", {"token": "x" * 64, "bit": 1})
    assert (reply.status, reply.json["code"]) == (400, "forged")
    assert "drop the report" in reply.error
    batch = served.post("/v1/reports", {"reports": [{"token": "x" * 64, "bit": 1}]})
    assert batch.json["results"][0]["status"] == "forged"
