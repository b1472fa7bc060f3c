"""Deletion of archived experiments over HTTP."""

from __future__ import annotations

import gc
import weakref

import pytest
from registries import build_registry, until
from web import SMALL, Served

from helpers.private import read_tables
from maskedbandits.service import log_reader
from maskedbandits.service.http import RequestError
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import Store, schema
from maskedbandits.service.storage.deletion import OWNED_TABLES

pytest_plugins = ["service_fixtures"]

ONE, REPORTS = "/v1/experiments/headline", "/v1/reports"


def test_only_archived_experiments_are_deleted(served: Served) -> None:
    reply = served.ask("DELETE", ONE)
    assert (reply.status, reply.json["code"]) == (409, "not_archived")
    assert "export" in reply.error
    assert served.get(ONE).status == 200


def count_rows(store: Store, experiment: int) -> dict[str, int]:
    with read_tables(store) as tx:
        counts = {
            table: tx.query(f"SELECT count(*) FROM {table} WHERE experiment = ?", (experiment,))[0][0]  # noqa: S608
            for table in OWNED_TABLES
        }
    return {table: count for table, count in counts.items() if count}


def test_deleted_experiment_is_gone_for_good(served: Served, store: Store) -> None:
    tokens = [each["token"] for each in served.post(f"{ONE}/decisions", {"n": 3}).json["decisions"]]
    served.post(f"{ONE}/decisions", {"visitor": "v"})
    assert served.post(REPORTS, {"token": tokens[0], "bit": 1}).verdict == "accepted"
    served.patch(ONE, {"status": "archived"})
    assert {"event", "issued", "snapshot", "visitor"} <= count_rows(store, 1).keys()
    assert served.ask("DELETE", ONE, headers={"if-match": '"1"'}).status == 412
    reply = served.ask("DELETE", ONE, headers={"if-match": '"2"'})
    assert (reply.status, reply.json) == (202, {"name": "headline", "seq": 3})
    for path in (ONE, f"{ONE}/state"):
        assert served.get(path).json["code"] == "unknown_experiment"
    assert served.ask("DELETE", ONE).status == 404
    assert served.post(f"{ONE}/decisions").status == 404
    reply = served.post(REPORTS, {"token": tokens[1], "bit": 1})
    assert (reply.status, reply.verdict) == (410, "late")
    served.run(until(lambda: not count_rows(store, 1)))


def test_name_is_free_and_id_is_not(served: Served, store: Store) -> None:
    token = served.post(f"{ONE}/decisions").json["token"]
    served.patch(ONE, {"status": "archived"})
    assert served.ask("DELETE", ONE).status == 202
    assert served.post("/v1/experiments", SMALL).status == 201
    assert [row.id for row in store.list_experiments()] == [2]
    assert served.get(ONE).json["status"] == "running"
    assert served.post(REPORTS, {"token": token, "bit": 1}).verdict == "late"
    assert served.post(f"{ONE}/reports", {"token": token, "bit": 1}).verdict == "foreign"
    assert served.get(f"{ONE}/state").json["reported"] == [0, 0]


def test_next_process_goes_on_with_a_deletion(
    served: Served, store: Store, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between two batches."""
    for token in [each["token"] for each in served.post(f"{ONE}/decisions", {"n": 9}).json["decisions"]]:
        assert served.post(REPORTS, {"token": token, "bit": 1}).verdict == "accepted"
    served.patch(ONE, {"status": "archived"})
    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "DELETIONS_AT_ONCE", 0)
        assert served.ask("DELETE", ONE).status == 202
        served.close()
    assert count_rows(store, 1)
    monkeypatch.setattr(schema, "get_batch_size", lambda table: 2)
    with Served(build_registry(storage)) as later:
        later.run(until(lambda: not count_rows(store, 1)))
        assert later.get(ONE).status == 404


def test_change_of_just_deleted_experiment_gets_404(
    served: Served, registry: ExperimentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process deletes it after the request has found it."""
    live = registry.get("headline")
    served.patch(ONE, {"status": "archived"})
    archived = served.run(registry.resolve("headline"))
    assert served.ask("DELETE", ONE).status == 202

    async def find(name: str) -> object:
        return live

    monkeypatch.setattr(registry, "resolve_open", find)
    for method, path, body in [
        ("PATCH", ONE, {"status": "paused"}),
        ("POST", f"{ONE}/arms", {"name": "new"}),
        ("PATCH", f"{ONE}/arms/long", {"payload": 1}),
    ]:
        reply = served.ask(method, path, body)
        assert (reply.status, reply.json["code"]) == (404, "unknown_experiment"), path
    with pytest.raises(RequestError, match="no such experiment"):
        served.run(registry.delete(archived))


def test_closed_experiment_leaves_no_memory(served: Served, registry: ExperimentRegistry) -> None:
    served.patch(ONE, {"source_limit": {"second": 900}})
    for token in [each["token"] for each in served.post(f"{ONE}/decisions", {"n": 3}).json["decisions"]]:
        assert served.post(REPORTS, {"token": token, "bit": 1}).verdict == "accepted"
    live = registry.get("headline")
    assert live is not None
    parts = [weakref.ref(part) for part in (live, live.arms, live.sources, live.unmasked)]
    del live
    served.patch(ONE, {"status": "archived"})
    gc.collect()
    assert [part() for part in parts] == [None] * 4


@pytest.mark.parametrize("name", ["none", "no_slug"])
def test_unknown_experiment_cannot_be_deleted(served: Served, name: str) -> None:
    assert served.ask("DELETE", f"/v1/experiments/{name}").status == 404
