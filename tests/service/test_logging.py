"""The log of the service: one line of JSON for each event, without anything that a device sent."""

from __future__ import annotations

import ast
import json
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import SMALL, Served

from helpers.private import hear_messages
from maskedbandits import service
from maskedbandits._numba import cache
from maskedbandits.service.auth import create_key
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.server import logging as logs
from maskedbandits.service.server import warmup
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


# Names, severities, forms


def list_logged_names() -> set[str]:
    """Return the names of events in the sources of the service."""
    found = set()
    for path in Path(service.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = ast.unparse(node.func)
                if called in ("logging.event", "logging.fault", "event", "fault", "Outage", "logging.Outage"):
                    found |= {each.value for each in node.args if isinstance(each, ast.Constant)}
    return {name for name in found if isinstance(name, str)}


def test_every_event_is_listed() -> None:
    """Alerts rely on these names: a new one needs a line in EVENTS, and one that is gone has to leave it."""
    assert list_logged_names() | {warmup.NO_CHILD} == logs.EVENTS.keys()


@pytest.fixture
def text_log() -> Iterator[None]:
    logs.configure("text", worker=3)
    yield
    logs.configure("json")


def test_text_log_is_one_line(text_log: None, capsys: pytest.CaptureFixture[str]) -> None:
    logs.event("store is gone", reason="no\nroute", storage="a b")
    logs.event("new\nevent")
    first, second = capsys.readouterr().err.splitlines()
    assert first.split(" ", 1)[1] == (
        f'ERROR store is gone: process={os.getpid()} worker=3 reason="no\\nroute" storage="a b"'
    )
    assert " INFO new\\nevent: " in second


def test_lines_have_the_same_first_members(capsys: pytest.CaptureFixture[str]) -> None:
    for name in logs.EVENTS:
        logs.event(name, more=1)
    for line, (name, known) in zip(capsys.readouterr().err.splitlines(), logs.EVENTS.items(), strict=True):
        values = json.loads(line)
        assert list(values) == ["time", "severity", "process", "event", "more"]
        assert (values["event"], values["severity"]) == (name, known.severity)


def test_outage_is_one_line_and_its_end_another(capsys: pytest.CaptureFixture[str]) -> None:
    outage = logs.build_store_outage()

    def is_lasting() -> bool:
        return outage.since is not None

    outage.end("reader")  # nothing has begun
    for part in ("reader", "writer", "reader"):
        outage.begin(part, reason=part)
    outage.end("reader")
    assert is_lasting()  # the writer still fails
    outage.end("writer")
    outage.end("writer")
    assert not is_lasting()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("store is gone", "reader"),
        ("store is back", None),
    ]
    assert lines[1]["seconds"] >= 0


def test_outage_that_others_have_logged_shows_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    outage = logs.build_store_outage()
    outage.begin("start", is_logged=True)
    outage.end("start")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["store is back"]
