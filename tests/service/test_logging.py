"""The log of the service: one line of JSON for each event, without anything that a device sent."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator

import pytest
from web import SMALL, Served

from helpers.private import hear_messages
from maskedbandits._numba import cache
from maskedbandits.service.auth import create_key
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.server import logging as logs
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import Store

pytest_plugins = ["service_fixtures"]


@pytest.fixture
def chatty(registry: ExperimentRegistry, store: Store) -> Iterator[tuple[Served, str]]:
    key = create_key(store, "admin", "boss", 1)[1]
    with Served(registry, Settings(access_log=True)) as service:
        service.client.key = key
        yield service, key


def test_access_log_contains_nothing_of_request(chatty: tuple[Served, str], capsys: pytest.CaptureFixture[str]) -> None:
    served, key = chatty
    served.post("/v1/experiments", SMALL)
    token = served.post("/v1/experiments/headline/decisions", {"visitor": "alice"}).json["token"]
    served.post(f"/v1/reports?token={token}", {"token": token, "bit": 1})
    served.post("/v1/experiments/headline/decisions", {"alice": 1})
    served.get(f"/{token}", headers={"x-forwarded-for": "198.51.100.77"})
    served.ask("ALICE", "/healthz")
    captured = capsys.readouterr()
    assert captured.out == ""
    values = [json.loads(line) for line in captured.err.splitlines()]
    assert {line["event"] for line in values} <= {"request", "experiment is live"}
    lines = [line for line in values if line["event"] == "request"]
    assert [(line["route"], line["status"]) for line in lines] == [
        ("experiments", 201),
        ("decisions", 200),
        ("reports", 200),
        ("decisions", 400),
        ("other", 404),
        ("other", 405),
    ]
    assert lines[1]["key"] == "boss"
    for secret in (token, key, "alice", "ALICE", "198.51.100.77", "203.0.113.7"):
        assert secret not in captured.err


def test_access_log_is_off_by_default(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.run(served.registry.catch_up())  # that the experiment is live was said, then
    capsys.readouterr()
    served.post("/v1/experiments/headline/decisions", {"visitor": "alice"})
    assert capsys.readouterr().err == ""


def test_any_fact_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.event("a\nb", path=object, text="é\u2028\x1b[2J")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isascii()
    assert json.loads(line)["event"] == "a\nb"


def test_fault_names_lines_and_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    def deep(secret: str) -> None:
        raise ValueError(secret)

    try:
        deep("alice")
    except ValueError as error:
        logs.fault("it failed", error)
    values = json.loads(capsys.readouterr().err)
    assert values["kind"] == "ValueError"
    assert values["places"][0].startswith("test_logging.py:")
    assert "alice" not in json.dumps(values)


def test_fault_type_has_its_module(capsys: pytest.CaptureFixture[str]) -> None:
    logs.fault("it failed", struct.error("alice"))  # its name alone is "error"
    assert json.loads(capsys.readouterr().err)["kind"] == "struct.error"


def test_web_server_and_cache_log_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hear_messages(monkeypatch)  # another listener until the end
    cache.set_listener(lambda message: logs.event("machine code", message=message))
    logs.capture_web_server()
    cache.say("compiling a policy that was never heard of")
    logger = logging.getLogger("uvicorn.error")
    logger.warning("Invalid HTTP request received.")  # any client can cause this any number of times
    logger.error("something is wrong")
    logger.error("Exception in ASGI application\n", exc_info=RuntimeError("alice"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[0]["message"] == "compiling a policy that was never heard of"
    assert {line["event"] for line in lines} == {"machine code", "web server"}
    assert [line.get("message", line.get("kind")) for line in lines[1:]] == ["something is wrong", "RuntimeError"]
