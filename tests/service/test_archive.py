"""Archived experiments are neither loaded nor followed, and can still be read."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from registries import build_registry, until
from web import SMALL, Served

from helpers.private import write_tables
from maskedbandits.service import archive
from maskedbandits.service.archive import Archive, ArchivedExperiment
from maskedbandits.service.log_reader import LogReader
from maskedbandits.service.replay import replay
from maskedbandits.service.storage import Store, open_store

pytest_plugins = ["service_fixtures"]

OLDER = Path(__file__).with_name("storage") / "older"
ONE, REPORTS = "/v1/experiments/headline", "/v1/reports"


def archive_with_reports(served: Served) -> tuple[list[str], dict[str, Any]]:
    """Report twice, then archive; return the tokens of three decisions and the state before."""
    tokens = [each["token"] for each in served.post(f"{ONE}/decisions", {"n": 3}).json["decisions"]]
    for token in tokens[:2]:
        assert served.post(REPORTS, {"token": token, "bit": 1}).verdict == "accepted"
    served.run(until(lambda: [live.seq for live in served.registry.experiments()] == [3]))
    before = served.get(f"{ONE}/state").json
    assert served.patch(ONE, {"status": "archived"}).json["status"] == "archived"
    return tokens, before


def test_archived_experiment_is_not_followed(storage: str, served: Served) -> None:
    archive_with_reports(served)
    assert served.registry.experiments() == []
    served.close()
    with Served(build_registry(storage)) as later:
        assert later.registry.experiments() == []
        assert later.get("/readyz").status == 200


def test_final_state_of_archived_experiment_is_readable(storage: str, store: Store, served: Served) -> None:
    _, before = archive_with_reports(served)
    served.close()
    with Served(build_registry(storage)) as later:
        state = later.get(f"{ONE}/state").json
        assert (state["seq"], state["digest"]) == (4, before["digest"])  # archiving is one more event
        assert state["estimates"] == before["estimates"]
        assert sum(state["pending"]) == 0
        assert (sum(state["issued"]), sum(state["reported"]), sum(state["missing"])) == (3, 2, 1)
        shown = later.get(ONE).json
        assert (shown["status"], shown["seq"]) == ("archived", 4)
    (row,) = store.list_experiments()
    assert replay(store, row, []).holds


def test_state_is_loaded_from_a_snapshot(storage: str, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_with_reports(served)
    served.close()

    def refuse(*_: object) -> None:
        raise AssertionError("an event was read")

    with Served(build_registry(storage)) as later:
        monkeypatch.setattr("maskedbandits.service.state.ExperimentState.apply_events", refuse)
        assert later.get(f"{ONE}/state").status == 200


def test_only_a_few_states_stay_in_memory(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    load = LogReader.load_archived

    def count(self: LogReader, experiment_id: int) -> Any:
        loads.append(experiment_id)
        return load(self, experiment_id)

    monkeypatch.setattr(LogReader, "load_archived", count)
    monkeypatch.setattr(archive, "MAX_LOADED", 1)
    assert served.post("/v1/experiments", {**SMALL, "name": "other"}).status == 201
    for name in ("headline", "other"):
        assert served.patch(f"/v1/experiments/{name}", {"status": "archived"}).status == 200
    for name in ("headline", "headline", "other", "headline"):
        assert served.get(f"/v1/experiments/{name}/state").status == 200
    assert loads == [1, 2, 1]


def test_slow_state_is_pending_and_then_there(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_with_reports(served)
    load = LogReader.load_archived

    def dawdle(self: LogReader, experiment_id: int) -> Any:
        time.sleep(0.2)
        return load(self, experiment_id)

    monkeypatch.setattr(LogReader, "load_archived", dawdle)
    monkeypatch.setattr(archive, "LOAD_TIMEOUT_S", 0.01)
    reply = served.get(f"{ONE}/state")
    assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "state_pending", "5")
    monkeypatch.setattr(archive, "LOAD_TIMEOUT_S", 10.0)
    assert served.get(f"{ONE}/state").status == 200


def test_damaged_archived_experiment_answers_503(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_with_reports(served)

    def fail(*_: object) -> None:
        raise ValueError("damage")

    with monkeypatch.context() as patch:
        patch.setattr(LogReader, "load_archived", fail)
        reply = served.get(f"{ONE}/state")
        assert (reply.status, reply.json["code"]) == (503, "experiment_unreadable")
    assert served.get(f"{ONE}/state").status == 200


def test_damaged_configuration_answers_503(storage: str, store: Store, served: Served) -> None:
    archive_with_reports(served)
    served.close()
    with write_tables(store) as tx:
        tx.execute("UPDATE experiment SET config = '{'")
    with Served(build_registry(storage)) as later:
        for path in (ONE, f"{ONE}/state", f"{ONE}/live"):
            reply = later.get(path)
            assert (reply.status, reply.json["code"]) == (503, "experiment_unreadable")
        assert later.get("/readyz").status == 200


def test_reports_and_decisions_of_archived_experiment_end(storage: str, served: Served) -> None:
    tokens, _ = archive_with_reports(served)
    served.close()
    with Served(build_registry(storage)) as later:  # which has never followed it
        reply = later.post(REPORTS, {"token": tokens[2], "bit": 1})
        assert (reply.status, reply.verdict) == (410, "late")
        assert later.post(f"{ONE}/reports", {"token": tokens[2], "bit": 1}).verdict == "late"
        reply = later.post(f"{ONE}/decisions")
        assert (reply.status, reply.json["code"]) == (410, "archived")
        reply = later.patch(ONE, {"status": "running"})
        assert (reply.status, reply.json["code"]) == (409, "archived_is_final")


def test_description_is_read_again_after_a_while(served: Served, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_with_reports(served)
    (row,) = served.run(served.registry.call_store(lambda store: store.list_experiments()))
    arms = served.run(served.registry.call_store(lambda store: store.list_arms(row.id)))
    registry = served.registry
    reader = LogReader(lambda: open_store(storage), "other", registry.clock, registry.settings, registry.code_loader)
    kept = Archive(reader)  # which loads nothing here
    assert isinstance(kept.describe(row, arms), ArchivedExperiment)
    assert kept.get("headline") is not None
    assert kept.get("other") is None
    monkeypatch.setattr(archive, "DESCRIBED_S", -1.0)
    kept.describe(row, arms)
    assert kept.get("headline") is None


def test_stream_of_archived_experiment_has_its_state(served: Served) -> None:
    archive_with_reports(served)

    async def read() -> bytes:
        live = await served.registry.resolve_loaded("headline")
        stream = served.app.broadcaster.stream_experiment(live, lambda: frozenset({"read"}))
        pieces = [await anext(stream), await anext(stream)]
        await stream.aclose()
        return b"".join(pieces)

    text = served.run(read()).decode()
    assert "event: history" in text
    assert '"status":"archived"' in text
    assert "cannot be read" not in text


def test_store_of_version_3_starts_with_archived_experiments(tmp_path: Path, storage: str, served: Served) -> None:
    """Its snapshots were made by other code, and its tables lack what is new."""
    _, before = archive_with_reports(served)
    served.close()
    older = tmp_path / "older.db"
    tables = (OLDER / "version_3.sqlite.sql").read_text(encoding="utf-8").partition("INSERT INTO experiment")[0]
    with closing(sqlite3.connect(older)) as connection:
        connection.executescript(tables)
        connection.execute("ATTACH ? AS newer", (storage.removeprefix("sqlite:///").partition("?")[0],))
        for table in ("experiment", "arm", "event", "issued"):
            present = {row[1] for row in connection.execute(f"PRAGMA newer.table_info({table})")}
            shared = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})") if row[1] in present]
            listed = ", ".join(shared)
            connection.execute(f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM newer.{table}")  # noqa: S608
        connection.commit()
    with Served(build_registry(f"sqlite:///{older}?durable=no")) as later:
        assert later.registry.experiments() == []
        state = later.get(f"{ONE}/state").json
        assert (state["digest"], state["reported"]) == (before["digest"], before["reported"])
        assert later.ask("DELETE", ONE).json["code"] == "upgrade_required"
        later.run(later.registry.call_store(lambda store: store.upgrade(lambda tx, version: None)))
        assert later.ask("DELETE", ONE).status == 202
        assert later.post("/v1/experiments", SMALL).status == 201
        assert later.run(later.registry.call_store(lambda store: store.list_experiments()))[0].id == 2
