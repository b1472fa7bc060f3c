"""The whole service with policies and a store, over HTTP and from the command line."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from postgres import Cluster
from running import Running, running
from web import SMALL

from children import wait_until
from commands import call
from maskedbandits.service.storage import open_store

pytest_plugins = ["postgres_fixtures"]

AUTO = {**SMALL, "policy": "auto"}  # the default
DECISIONS, REPORTS, STATE = (f"/v1/experiments/headline/{what}" for what in ("decisions", "reports", "state"))


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/bandits.db"


def key(storage: str, role: str, name: str) -> str:
    made = json.loads(call("key", "create", "--role", role, "--name", name, "--storage", storage, "--json").stdout)
    return str(made["key"])


def report(service: Running, bit: int = 1) -> str:
    token = service.ask("POST", DECISIONS)[1]["token"]
    status, said = service.ask("POST", REPORTS, {"token": token, "bit": bit})
    assert (status, said) == (200, {"status": "accepted"})
    return str(token)


def test_acknowledged_reports_survive_restart_and_kill(storage: str) -> None:
    tokens: list[str] = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        with running(storage) as service:
            service.wait_until_ready()
            if not tokens:
                assert service.ask("POST", "/v1/experiments", AUTO)[0] == 201
            for token in tokens:
                values = service.ask("POST", REPORTS, {"token": token, "bit": 0})
                assert values == (200, {"status": "duplicate"})
            tokens.extend(report(service) for _ in range(5))
            wait_until(lambda: service.ask("GET", STATE)[1]["seq"] == 1 + len(tokens), service.process)
            assert service.ask("GET", STATE)[1]["observations"] == len(tokens)
            service.stop(number)
    with open_store(storage) as store, store.dump() as tables:
        stored = sum(len(list(rows)) for table, rows in tables if table == "event")
    assert (len(tokens), stored) == (10, 11)  # the experiment is an event, too


def test_arms_and_status_change_while_running(postgres_server: Cluster) -> None:
    with running(postgres_server.place(), "--workers", 2) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", AUTO)[0] == 201
        report(service)
        status, said = service.ask("POST", "/v1/experiments/headline/arms", {"name": "new", "payload": 7})
        assert (status, [arm["name"] for arm in said["arms"]]) == (201, ["short", "long", "new"])
        assert service.ask("POST", "/v1/experiments/headline/arms/long/retire")[0] == 200
        events = 4  # created, reported, added, retired: a worker that has not read the last may still show the arm
        wait_until(lambda: {service.ask("GET", STATE)[1]["seq"] for _ in range(20)} == {events}, service.process)
        wait_until(lambda: "new" in {service.ask("POST", DECISIONS)[1]["arm"] for _ in range(10)}, service.process)
        answers = [service.ask("POST", DECISIONS)[1] for _ in range(40)]
        shown = {each["arm"] for each in answers}
        assert "new" in shown
        assert shown <= {"short", "new"}
        assert service.ask("PATCH", "/v1/experiments/headline", {"status": "paused"})[0] == 200
        wait_until(lambda: service.ask("POST", DECISIONS)[1]["participate"] is False, service.process)


@pytest.mark.slow
def test_keys_change_while_running(storage: str) -> None:
    admin = key(storage, "admin", "ops")
    with running(storage) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", AUTO)[0] == 401
        service.key = admin
        assert service.ask("POST", "/v1/experiments", AUTO)[0] == 201
        service.key = key(storage, "device", "shop")
        wait_until(lambda: service.ask("POST", DECISIONS)[0] == 200, service.process)
        assert service.ask("GET", STATE)[0] == 403
        report(service)
        assert call("key", "rotate", "--storage", storage).exit_code == 0
        report(service)
        assert call("key", "revoke", "shop", "--storage", storage).exit_code == 0
        wait_until(lambda: service.ask("POST", DECISIONS)[0] == 401, service.process)
        service.key = admin
        assert service.ask("GET", STATE)[0] == 200


@pytest.mark.slow
def test_visitor_keeps_token_across_workers_and_restart(postgres_server: Cluster) -> None:
    tokens, storage = set(), postgres_server.place()
    for start in range(2):
        with running(storage, "--workers", 2) as service:
            service.wait_until_ready()
            if not start:
                assert service.ask("POST", "/v1/experiments", AUTO)[0] == 201
            for _ in range(10):
                tokens.add(service.ask("POST", DECISIONS, {"visitor": "somebody"})[1]["token"])
            service.stop(signal.SIGTERM)
    assert len(tokens) == 1
