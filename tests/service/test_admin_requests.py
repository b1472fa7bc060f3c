"""Changes by administrators: their conditions, their repetition, and the audit trail they leave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registries import build_registry
from web import SMALL, Reply, Served

from maskedbandits.service.auth import create_key
from maskedbandits.service.evaluation.export import export, read_export
from maskedbandits.service.evaluation.log import read_log, read_stored_events
from maskedbandits.service.replay import replay
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.storage.store import Store as AnyStore

pytest_plugins = ["service_fixtures"]

ONE, ARMS, AUDIT = "/v1/experiments/headline", "/v1/experiments/headline/arms", "/v1/audit"
OTHER = {**SMALL, "name": "other"}


def read_audit(served: Served, query: str = "") -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = served.get(f"{AUDIT}{query}").json["entries"]
    return entries


# If-Match


def test_etag_is_the_version_of_the_configuration(served: Served) -> None:
    shown = served.get(ONE)
    assert shown.headers["etag"] == f'"{shown.json["config_version"]}"'
    changed = served.patch(ONE, {"floor": 0.1}, headers={"if-match": shown.headers["etag"]})
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')
    assert served.get(ONE).headers["etag"] == '"2"'


CHANGES: list[tuple[str, str, Any]] = [
    ("PATCH", ONE, {"floor": 0.2}),
    ("POST", ARMS, {"name": "new"}),
    ("PATCH", f"{ARMS}/long", {"payload": 1}),
    ("POST", f"{ARMS}/long/retire", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize("tag", ['"2"', 'W/"1"', '"x"', '"1x"', '"2", "3"', '""'])
def test_stale_versions_change_nothing(served: Served, method: str, path: str, body: Any, tag: str) -> None:
    before = served.get(ONE).json
    reply = served.ask(method, path, body, headers={"if-match": tag})
    assert (reply.status, reply.json["code"]) == (412, "version_changed")
    assert "config_version 1 now" in reply.error
    assert served.get(ONE).json == before


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize("tag", ['"1"', "*", '"7", "1"', None])
def test_present_version_may_change(served: Served, method: str, path: str, body: Any, tag: str | None) -> None:
    reply = served.ask(method, path, body, headers={"if-match": tag} if tag else {})
    assert reply.status < 300
    assert reply.headers["etag"] == '"2"'


@pytest.mark.parametrize("tag", ["1", "", '"1', "one, two"])
def test_malformed_condition_is_refused(served: Served, tag: str) -> None:
    reply = served.patch(ONE, {"floor": 0.2}, headers={"if-match": tag})
    assert (reply.status, "with its quotes" in reply.error) == (400, True)


def test_one_of_two_editors_wins(served: Served) -> None:
    async def edit() -> list[Reply]:
        asks = [served.client.ask("PATCH", ONE, {"floor": f}, headers={"if-match": '"1"'}) for f in (0.1, 0.2)]
        return await asyncio.gather(*asks)

    replies = served.run(edit())
    assert sorted(reply.status for reply in replies) == [200, 412]
    (won,) = [reply.json["floor"] for reply in replies if reply.status == 200]
    assert served.get(ONE).json["floor"] == won


# Payloads


def test_payload_of_arm_can_be_replaced(served: Served, store: Store) -> None:
    reply = served.patch(f"{ARMS}/long", {"payload": {"size": 9}})
    assert reply.json["arms"][1] == {"place": 1, "name": "long", "payload": {"size": 9}, "status": "open"}
    served.patch(ONE, {"default_arm": "long", "status": "paused"})
    assert served.post(f"{ONE}/decisions").json["payload"] == {"size": 9}
    event = store.read_events(1, 1, 1)[0]
    assert (event.kind, event.arm, event.detail) == ("payload", 1, '{"name":"long","payload":{"size":9}}')


def test_payload_changes_no_state(served: Served) -> None:
    before = served.get(f"{ONE}/state").json
    served.patch(f"{ARMS}/long", {"payload": None})
    after = served.get(f"{ONE}/state").json
    assert (after["seq"], after["digest"]) == (before["seq"] + 1, before["digest"])


def test_log_with_new_payload_can_be_read_and_exported(served: Served, store: Store, tmp_path: Path) -> None:
    served.patch(f"{ARMS}/long", {"payload": "secret"})
    token = served.post(f"{ONE}/decisions").json["token"]
    assert served.post("/v1/reports", {"token": token, "bit": 1}).verdict == "accepted"
    (row,) = store.list_experiments()
    events = list(read_stored_events(store, row))
    assert [event.kind for event in events] == ["create", "payload", "report"]
    assert len(read_log("headline", events).bit) == 1
    assert replay(store, row, []).holds
    export(events, tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text(encoding="utf-8")
    assert "payload" in text
    assert "secret" not in text  # payloads are not exported
    assert [event.kind for event in read_export(tmp_path / "log.csv")] == ["create", "payload", "report"]


@pytest.mark.parametrize(
    ("arm", "body", "status", "code"),
    [
        ("lang", {"payload": 1}, 404, "unknown_arm"),
        ("long", {}, 400, "invalid_request"),
        ("long", {"name": "x"}, 400, "invalid_request"),
        ("long", {"payload": "\ud800"}, 400, "invalid_request"),
        ("third", {"payload": 1}, 409, "arm_retired"),
    ],
)
def test_invalid_payloads_are_refused(served: Served, arm: str, body: Any, status: int, code: str) -> None:
    served.post(ARMS, {"name": "third"})
    served.post(f"{ARMS}/third/retire")
    reply = served.patch(f"{ARMS}/{arm}", body)
    assert (reply.status, reply.json["code"]) == (status, code)


# Idempotency-Key


def test_repeated_request_gets_the_first_reply(storage: str, served: Served) -> None:
    header = {"idempotency-key": "a-1"}
    first = served.post("/v1/experiments", OTHER, headers=header)
    served.patch("/v1/experiments/other", {"floor": 0.1})
    again = served.post("/v1/experiments", OTHER, headers=header)
    assert (first.status, again.status) == (201, 201)
    assert (first.body, first.headers["etag"]) == (again.body, again.headers["etag"])
    with Served(build_registry(storage)) as elsewhere:  # another worker
        assert elsewhere.post("/v1/experiments", OTHER, headers=header).body == first.body
    assert len(served.get("/v1/experiments").json["experiments"]) == 2


def test_repeated_arm_is_added_once(served: Served) -> None:
    header = {"idempotency-key": "a-2"}
    first = served.post(ARMS, {"name": "new"}, headers=header)
    assert served.post(ARMS, {"name": "new"}, headers=header).body == first.body
    assert len(served.get(ONE).json["arms"]) == 3
    assert len(read_audit(served)) == 2  # a repetition changes nothing
    assert served.patch(ONE, {"status": "archived"}).status == 200
    assert served.post(ARMS, {"name": "new"}, headers=header).body == first.body


def test_key_of_another_request_is_refused(served: Served) -> None:
    header = {"idempotency-key": "a-3"}
    assert served.post("/v1/experiments", OTHER, headers=header).status == 201
    reply = served.post("/v1/experiments", {**OTHER, "name": "third"}, headers=header)
    assert (reply.status, reply.json["code"]) == (422, "idempotency_key_reused")
    assert served.post(ARMS, {"name": "new"}, headers=header).status == 201  # of another path


def test_refused_request_may_be_corrected(served: Served) -> None:
    header = {"idempotency-key": "a-4"}
    assert served.post("/v1/experiments", {**OTHER, "floor": 2}, headers=header).status == 400
    assert served.post("/v1/experiments", SMALL, headers=header).status == 409
    assert served.post("/v1/experiments", OTHER, headers=header).status == 201


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_malformed_idempotency_keys_are_refused(served: Served, key: str) -> None:
    reply = served.post("/v1/experiments", OTHER, headers={"idempotency-key": key})
    assert (reply.status, "visible ASCII" in reply.error) == (400, True)


def test_lost_reply_is_found_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the store is lost right after the commit: the client knows nothing, and asks again."""
    header, create = {"idempotency-key": "a-5"}, AnyStore.create_experiment

    def lose(self: AnyStore, *arguments: Any) -> Any:
        create(self, *arguments)
        raise StoreUnavailable("lost", may_be_committed=True)

    with monkeypatch.context() as patch:
        patch.setattr(AnyStore, "create_experiment", lose)
        assert served.post("/v1/experiments", OTHER, headers=header).status == 503
    reply = served.post("/v1/experiments", OTHER, headers=header)
    assert (reply.status, reply.json["name"]) == (201, "other")


def test_concurrent_repetitions_create_once(served: Served) -> None:
    async def ask() -> list[Reply]:
        header = {"idempotency-key": "a-6"}
        return await asyncio.gather(*(served.client.ask("POST", ARMS, {"name": "new"}, header) for _ in range(4)))

    replies = served.run(ask())
    assert {reply.status for reply in replies} == {201}
    assert len({reply.body for reply in replies}) == 1
    assert len(served.get(ONE).json["arms"]) == 3


# The audit trail


@pytest.fixture
def keyed(served: Served, store: Store) -> Iterator[Served]:
    for role, name in (("admin", "ann"), ("read", "rita"), ("admin", "bob")):
        keys[name] = create_key(store, role, name, 0)[1]
    served.renew_keys()
    yield served
    keys.clear()


keys: dict[str, str] = {}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {keys[name]}"}


def test_every_change_leaves_an_entry(keyed: Served) -> None:
    ann, bob = bearer("ann"), bearer("bob")
    keyed.post(ARMS, {"name": "new", "payload": 3}, headers=ann)
    keyed.patch(f"{ARMS}/new", {"payload": 4}, headers=bob)
    keyed.post(f"{ARMS}/new/retire", headers=ann)
    keyed.patch(ONE, {"floor": 0.1, "status": "paused"}, headers=bob)
    keyed.patch(ONE, {"floor": 7}, headers=bob)  # refused: no entry
    keyed.patch(ONE, {"status": "archived"}, headers=ann)
    assert keyed.ask("DELETE", ONE, headers=bob).status == 202
    entries = keyed.get(AUDIT, headers=ann).json["entries"]
    assert [(e["action"], e["key"], e["version_before"], e["config_version"]) for e in entries] == [
        ("delete", "bob", 7, 7),
        ("change", "ann", 6, 7),
        ("change", "bob", 4, 6),
        ("retire_arm", "ann", 3, 4),
        ("change_arm", "bob", 2, 3),
        ("add_arm", "ann", 1, 2),
        ("create", None, None, 1),
    ]
    assert [e["what"] for e in entries[1:6]] == [
        {"status": "archived"},
        {"floor": 0.1, "status": "paused"},
        {"arm": "new"},
        {"arm": "new", "payload": 4},
        {"name": "new", "payload": 3},
    ]
    assert entries[6]["what"]["arms"] == ["short", "long"]
    assert {e["experiment"] for e in entries} == {"headline"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", e["at"]) for e in entries)


def test_only_administrators_read_the_audit_trail(keyed: Served) -> None:
    assert keyed.get(AUDIT, headers=bearer("ann")).status == 200
    assert keyed.get(AUDIT, headers=bearer("rita")).json["code"] == "role_required"
    assert keyed.get(AUDIT).json["code"] == "key_required"


def test_audit_trail_has_pages_and_a_filter(served: Served) -> None:
    served.post("/v1/experiments", OTHER)
    for floor in (0.1, 0.2, 0.3):
        served.patch(ONE, {"floor": floor})
    everything = read_audit(served)
    found, cursor = [], ""
    while True:
        page = served.get(f"{AUDIT}?limit=2{cursor}").json
        found += page["entries"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == everything
    assert [each["id"] for each in everything] == [5, 4, 3, 2, 1]
    assert [each["id"] for each in read_audit(served, "?experiment=other")] == [2]
    assert read_audit(served, "?experiment=none") == []
    assert served.get(f"{AUDIT}?status=running").status == 400


def test_change_without_its_entry_does_not_happen(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr("maskedbandits.service.storage.audit.AdminRequest.finish", fail)
        patch.setattr("maskedbandits.service.log_writer.COMMIT_TIMEOUT_S", 0.0)
        assert served.patch(ONE, {"floor": 0.3}).status == 503
    assert served.get(ONE).json["floor"] == 0.0
