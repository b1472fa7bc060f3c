"""Keys for some experiments: to their holders, other experiments do not exist, on any route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streaming import reading
from web import SMALL, Served

from commands import call, refused
from helpers.private import write_tables
from maskedbandits.errors import UserError
from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.auth import ApiKeys, create_key
from maskedbandits.service.openapi import path_format
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import Store, open_store

pytest_plugins = ["service_fixtures"]

OURS, THEIRS = "/v1/experiments/ours", "/v1/experiments/theirs"


@pytest.fixture
def keys(store: Store) -> dict[str, str]:
    """Keys of all roles for the experiment "ours", and one for all experiments."""
    limited = {role: create_key(store, role, role, 7, ["ours"])[1] for role in ("device", "read", "admin")}
    return {**limited, "owner": create_key(store, "admin", "owner", 7)[1]}


@pytest.fixture
def shared(registry: ExperimentRegistry, keys: dict[str, str]) -> Iterator[Served]:
    with Served(registry) as service:
        service.client.key = keys["owner"]
        for name in ("ours", "theirs"):
            assert service.post("/v1/experiments", {**SMALL, "name": name}).status == 201
        yield service


def test_other_experiments_do_not_exist_on_any_route(shared: Served, keys: dict[str, str]) -> None:
    """The reply about another's experiment is that about one that was never created."""
    shared.client.key = keys["admin"]
    paths = [(each.method, path_format(each)) for each in OPERATIONS if each.role and "{name}" in each.path]
    assert len(paths) >= 8
    for method, path in paths:
        replies = [
            shared.ask(method, path.replace("{name}", name).replace("{arm}", "short"), {}) for name in ("theirs", "no")
        ]
        assert [reply.status for reply in replies] == [404, 404], path
        assert replies[0].body == replies[1].body
    assert shared.get(f"{OURS}/state").status == 200
    shared.client.key = keys["owner"]
    assert shared.get(f"{THEIRS}/state").json["issued"] == [0, 0]


def test_report_to_another_experiment_is_foreign(shared: Served, keys: dict[str, str]) -> None:
    tokens = [shared.post(f"{path}/decisions").json["token"] for path in (OURS, THEIRS)]
    shared.client.key = keys["device"]
    reports = [{"token": token, "bit": 1} for token in tokens]
    results = shared.post("/v1/reports", {"reports": reports}).json["results"]
    assert [each["status"] for each in results] == ["accepted", "foreign"]
    shared.client.key = keys["owner"]
    assert shared.post("/v1/reports", reports[1]).json["status"] == "accepted"


def test_list_has_only_own_experiments(shared: Served, keys: dict[str, str]) -> None:
    shared.client.key = keys["read"]
    assert [each["name"] for each in shared.get("/v1/experiments").json["experiments"]] == ["ours"]


def test_audit_trail_has_only_own_experiments(shared: Served, keys: dict[str, str], store: Store) -> None:
    assert {each["experiment"] for each in shared.get("/v1/audit").json["entries"]} == {"ours", "theirs"}
    shared.client.key = keys["admin"]
    for path in ("/v1/audit", "/v1/audit?experiment=ours", "/v1/audit?limit=1"):
        assert [each["experiment"] for each in shared.get(path).json["entries"]] == ["ours"]
    assert shared.get("/v1/audit?experiment=theirs").json["entries"] == []
    assert not store.list_page(0, 9, names=[])
    assert not store.list_audit(names=[])


def test_stream_of_list_has_only_own_experiments(shared: Served, keys: dict[str, str]) -> None:
    async def read(key: str) -> list[str]:
        async with reading(shared.app, "/v1/live", key=keys[key]) as reader:
            event = await reader.event("experiments")
            return sorted(each["name"] for each in event["experiments"])

    assert shared.run(read("owner")) == ["ours", "theirs"]
    assert shared.run(read("read")) == ["ours"]
    assert shared.run(read("admin")) == ["ours"]


@pytest.mark.parametrize(("method", "path", "body"), [("GET", "/metrics", b""), ("POST", "/v1/experiments", SMALL)])
def test_limited_key_cannot_see_or_create_others(
    shared: Served, keys: dict[str, str], method: str, path: str, body: Any
) -> None:
    shared.client.key = keys["admin"]
    reply = shared.ask(method, path, body)
    assert reply.status == 403
    assert "limited to some experiments" in reply.error


def test_limited_admin_creates_own_experiment(shared: Served, keys: dict[str, str], store: Store) -> None:
    _, shared.client.key = create_key(store, "admin", "later", 7, ["later"])
    shared.renew_keys()
    assert shared.post("/v1/experiments", {**SMALL, "name": "later"}).status == 201
    assert [each["name"] for each in shared.get("/v1/experiments").json["experiments"]] == ["later"]


def test_names_of_experiments_are_checked(store: Store) -> None:
    for name in ("", "No Name", "a,b", "x" * 65):
        with pytest.raises(UserError, match="experiment"):
            create_key(store, "device", None, 7, [name])
    assert store.list_keys() == []


def test_key_without_experiments_is_for_all(store: Store) -> None:
    _, key = create_key(store, "device", None, 7, [])
    keys = ApiKeys("127.0.0.1")
    keys.refresh(store.list_keys())
    assert keys.identify(b"Bearer " + key.encode()).experiments is None


def test_damaged_list_of_experiments_reaches_none(store: Store) -> None:
    _, key = create_key(store, "device", "web", 7, ["ours"])
    for damaged in ('["ours', "7"):
        with write_tables(store) as tx:
            tx.execute("UPDATE api_key SET experiments = ?", (damaged,))
        keys = ApiKeys("127.0.0.1")
        keys.refresh(store.list_keys())
        assert keys.identify(b"Bearer " + key.encode()).experiments == frozenset()


def test_command_limits_key_to_experiments(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/keys.db"
    made = call(
        "key", "create", "--role", "device", "--name", "web", "--experiment", "b", "--experiment", "a", "--storage", url
    )
    assert made.exit_code == 0, made.output
    assert made.stdout.count("once you create it") == 2
    assert "only a, b" in call("key", "list", "--storage", url).stdout
    (listed,) = json.loads(call("key", "list", "--storage", url, "--json").stdout)
    assert listed["experiments"] == ["a", "b"]
    with open_store(url) as store:
        assert [row.experiments for row in store.list_keys()] == [("a", "b")]
    refused(call("key", "create", "--role", "device", "--experiment", "A B", "--storage", url), "name of an experiment")
