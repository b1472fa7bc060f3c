"""Deletion of experiments on each backend, in batches, interrupted anywhere."""

from __future__ import annotations

import os
from typing import Any

import pytest
from store_samples import LATER, create_sample, refused, report, to_id

from helpers.private import read_tables, write_tables
from maskedbandits.service.storage import Conflict, Store, StoreUnavailable, open_store, schema
from maskedbandits.service.storage.audit import AdminRequest
from maskedbandits.service.storage.deletion import MARKED_MINUTES, OWNED_TABLES
from maskedbandits.service.storage.idempotency import KEPT_MINUTES, RepeatableRequest, RepeatedRequest
from maskedbandits.service.storage.models import Change, Visit
from maskedbandits.service.storage.retention import LOG_HASH

pytest_plugins = ["store_fixtures"]

NOW = 30_000_000
EVENTS = 50


def fill(store: Store) -> None:
    """Create two experiments with rows in all tables, and archive the first."""
    for number, name in ((1, "headlines"), (2, "layouts")):
        create_sample(store, name)
        store.append([report(number, to_id(each), LATER + 60) for each in range(EVENTS)])
        store.set_issued("there", [(number, arm, LATER + 60 * hour, 5) for arm in range(3) for hour in range(9)])
        store.count_refused([(number, reason, LATER, 1) for reason in ("late", "forged")])
        store.assign_tokens([Visit(number, os.urandom(16), b"token", LATER + 60, LATER) for _ in range(20)])
        for seq in (1, 2):
            store.save_snapshot(number, seq, "kernel", b"body", "digest")
    store.change(1, Change("status", 1, status="archived"))


def read_all(store: Store, experiment: int) -> dict[str, list[Any]]:
    """Return all rows of an experiment by table."""
    with read_tables(store) as tx:
        return {
            table: sorted(tx.query(f"SELECT * FROM {table} WHERE experiment = ?", (experiment,)), key=repr)  # noqa: S608
            for table in (*OWNED_TABLES, "arm")
        }


def test_every_table_of_experiments_is_emptied() -> None:
    with_experiment = {name for name, table in schema.TABLES.items() if "experiment" in table.columns}
    assert with_experiment == {*OWNED_TABLES, "arm", "audit"}  # the audit trail stays


def test_rows_go_in_batches_and_others_stay(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "get_batch_size", lambda table: 7)
    fill(any_store)
    others = read_all(any_store, 2)
    any_store.delete_experiment(1, NOW)
    assert any_store.find_experiment("headlines") is None
    steps = 0
    before = sum(map(len, read_all(any_store, 1).values()))
    while any_store.delete_rows(1, NOW):
        now = sum(map(len, read_all(any_store, 1).values()))
        assert 1 <= before - now <= 7
        before, steps = now, steps + 1
    assert steps >= EVENTS // 7
    assert not any(read_all(any_store, 1).values())
    assert read_all(any_store, 2) == others


def test_deletion_resumes_after_a_kill(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "get_batch_size", lambda table: 7)
    with open_store(any_url, create=True) as store:
        fill(store)
        store.delete_experiment(1, NOW)
        for _ in range(3):
            store.delete_rows(1, NOW)
        left = sum(map(len, read_all(store, 1).values()))
        assert left
    with open_store(any_url) as store:  # of another process
        assert store.list_deleted() == {1: NOW}
        while store.delete_rows(1, NOW):
            pass
        assert not any(read_all(store, 1).values())
        with write_tables(store) as tx:  # by a process of the release before
            tx.execute("INSERT INTO refused (experiment, reason, minute, count) VALUES (1, 'late', 9, 1)")
        assert store.list_deleted() == {1: NOW}
        while store.delete_rows(1, NOW + MARKED_MINUTES):
            pass
        assert store.list_deleted() == {}
        assert not any(read_all(store, 1).values())


def test_rows_of_deleted_experiments_do_not_come_back(any_store: Store) -> None:
    """Also long after the deletion, when nothing looks for them any more."""
    fill(any_store)
    any_store.delete_experiment(1, NOW)
    while any_store.delete_rows(1, NOW):
        pass
    any_store.save_snapshot(1, 9, "kernel", b"late", "digest")  # by a process that was loading it
    any_store.save_snapshot(1, 9, LOG_HASH, b"", "digest")
    any_store.set_issued("there", [(1, 0, LATER, 5)])
    any_store.count_refused([(1, "late", LATER, 1), (2, "late", LATER, 2), (0, "forged", LATER, 3)])
    assert not any(read_all(any_store, 1).values())
    assert (any_store.sum_refused(2), any_store.sum_refused(0)) == ({"forged": 1, "late": 3}, {"forged": 3})


def test_interrupted_deletion_has_not_happened(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(any_store)
    before = read_all(any_store, 1)

    def fail(*_: object) -> None:
        raise StoreUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr("maskedbandits.service.storage.deletion._set_meta", fail)
        with pytest.raises(StoreUnavailable):
            any_store.delete_experiment(1, NOW, request("delete"))
    assert read_all(any_store, 1) == before
    assert any_store.list_deleted() == {}
    assert any_store.list_audit() == []


def test_ids_are_never_used_again(any_store: Store) -> None:
    fill(any_store)
    any_store.change(2, Change("status", 1, status="archived"))
    for number in (2, 1):
        any_store.delete_experiment(number, NOW)
    assert any_store.read_last_id() == 2
    assert create_sample(any_store).id == 3


def test_only_archived_experiments_can_be_deleted(any_store: Store) -> None:
    create_sample(any_store)
    with refused("is running: archive it first", kind=Conflict):
        any_store.delete_experiment(1, NOW)
    with refused("no experiment has the number 7"):
        any_store.delete_experiment(7, NOW)


# Audit trail and repeated requests


def request(action: str, repeatable: RepeatableRequest | None = None, at: float = 60.0 * NOW) -> AdminRequest:
    return AdminRequest(action, "ann", at, {"text": "ünïcode"}, None, repeatable)


def repeat(digest: bytes = b"body", minute: int = NOW) -> RepeatableRequest:
    return RepeatableRequest("key", digest, minute, 201, lambda row, arms: f"{row.name} {len(arms)} at {minute}")


def test_entries_outlive_their_experiment(any_store: Store) -> None:
    fill(any_store)
    any_store.change(2, Change("config", 1, config='{"floor": 0.1}'), None, request("change"))
    any_store.delete_experiment(1, NOW, request("delete"))
    while any_store.delete_rows(1, NOW):
        pass
    found = any_store.list_audit()
    assert [(row.id, row.action, row.experiment, row.config_version) for row in found] == [
        (2, "delete", "headlines", 2),
        (1, "change", "layouts", 2),
    ]
    assert '"at": "2027-01-15T08:00:00Z"' in found[0].detail
    assert [row.id for row in any_store.list_audit(before=2)] == [1]
    assert [row.id for row in any_store.list_audit(limit=1)] == [2]
    assert [row.id for row in any_store.list_audit(experiment="layouts")] == [1]


def test_reply_is_stored_with_its_change(any_url: str) -> None:
    with open_store(any_url, create=True) as store:
        create_sample(store)
        store.change(1, Change("arm", 1, name="new"), None, request("add_arm", repeat()))
    with open_store(any_url) as store:
        with pytest.raises(RepeatedRequest) as repeated:
            store.change(1, Change("arm", 1, name="new"), None, request("add_arm", repeat(minute=NOW + 1)))
        assert tuple(repeated.value.reply) == (201, f"headlines 4 at {NOW}")
        with refused("another body", kind=Conflict) as conflict:
            store.change(1, Change("arm", 1, name="x"), None, request("add_arm", repeat(b"other")))
        assert getattr(conflict.value, "code", "") == "idempotency_key_reused"
        assert len(store.list_arms(1)) == 4


def test_failed_change_stores_no_reply(any_store: Store) -> None:
    create_sample(any_store)
    with refused("is or was used", kind=Conflict):
        any_store.change(1, Change("arm", 1, name="red"), None, request("add_arm", repeat()))
    any_store.refuse_repeated(repeat())
    assert any_store.list_audit() == []


def test_stored_replies_expire(any_store: Store) -> None:
    create_sample(any_store)
    any_store.change(1, Change("arm", 1, name="new"), None, request("add_arm", repeat()))
    any_store.forget_replies(NOW + KEPT_MINUTES - 1)
    with pytest.raises(RepeatedRequest):
        any_store.refuse_repeated(repeat(minute=NOW + KEPT_MINUTES - 1))
    any_store.refuse_repeated(repeat(b"other", NOW + KEPT_MINUTES))
    later = repeat(b"other", NOW + KEPT_MINUTES)
    any_store.change(1, Change("arm", 1, name="next"), None, request("add_arm", later))  # replaces the expired one
    any_store.forget_replies(NOW + KEPT_MINUTES)
    with pytest.raises(RepeatedRequest):
        any_store.refuse_repeated(later)
    any_store.forget_replies(NOW + 2 * KEPT_MINUTES)
    any_store.refuse_repeated(repeat())
