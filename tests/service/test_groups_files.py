"""Logs of experiments with groups: exported, rejected by evaluate, backed up and restored."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from postgres import Cluster
from registries import build_registry
from test_group_experiment import ALL, KINDS, ONE, lived, observed
from web import Served

from commands import call
from maskedbandits.errors import UserError
from maskedbandits.service.evaluation import export, read_log
from maskedbandits.service.evaluation.log import read_stored_events
from maskedbandits.service.replay import replay
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import EventRow

pytest_plugins = ["service_fixtures", "postgres_fixtures"]


@pytest.fixture
def events(served: Served, store: Store) -> list[EventRow]:
    """The log of an experiment with groups: one answer for all groups alike, as they begin."""
    assert served.post(ALL, KINDS).status == 201
    lived(served, 8)
    assert served.post(f"{ONE}/arms", {"name": "third"}).status == 201
    served.close()
    return list(read_stored_events(store, store.list_experiments()[1]))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_log_is_exported_with_questions(events: list[EventRow], tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"log.{ending}"
    export.export(events, file)
    found = list(export.read_export(file))
    assert [event.seq for event in found] == list(range(1, 11))
    for before, after in zip(events, found, strict=True):
        assert after._replace(detail=None) == before._replace(detail=None, expires=None, question=None)


def test_question_is_exported_by_group(events: list[EventRow]) -> None:
    row = list(export.to_rows(events))[1]
    question = json.loads(row["question"])
    assert set(question) == {"level", "arms", "signs"}
    assert len(question["arms"]) == len(question["signs"]) == 3
    assert (row["arm"], row["name"], row["probability"]) == (None, None, None)
    assert row["bit"] in (0, 1)


def test_file_without_newer_columns_is_read(events: list[EventRow], tmp_path: Path) -> None:
    with (tmp_path / "old.csv").open("w", newline="") as stream:
        columns = [name for name, column in export.COLUMNS.items() if column.is_original]
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(export.to_rows(events))
    found = list(export.read_export(tmp_path / "old.csv"))
    assert len(found) == 10
    assert {event.config for event in found} == {None}


def test_grouped_log_cannot_be_evaluated(events: list[EventRow], storage: str) -> None:
    with pytest.raises(UserError, match="experiment with groups") as caught:
        read_log("kinds", events)
    assert "\n" not in str(caught.value)
    reply = call("evaluate", "kinds", "--storage", storage)
    assert (reply.exit_code, "experiment with groups" in reply.output) == (2, True)


def test_restored_grouped_log_replays(events: list[EventRow], storage: str, tmp_path: Path) -> None:
    again = f"sqlite:///{tmp_path}/again.db"
    assert call("backup", "--storage", storage, str(tmp_path / "backup")).exit_code == 0
    assert call("restore", str(tmp_path / "backup"), "--storage", again).exit_code == 0
    with open_store(again) as store:
        assert list(read_stored_events(store, store.list_experiments()[1])) == events
    proof = json.loads(call("replay", "--storage", again, "--json").stdout)
    assert "kinds" in json.dumps(proof)
    assert call("replay", "--storage", again).exit_code == 0


def test_postgresql_stores_questions(postgres_server: Cluster, restless: None) -> None:
    url = postgres_server.place()
    with open_store(url, create=True) as store, Served(build_registry(url)) as served:
        assert served.post(ALL, KINDS).status == 201
        lived(served, 12)
        state = observed(served, 12)
        served.close()
        (row,) = store.list_experiments()
        found = replay(store, row, [])
        assert (found.holds, found.digest, found.reports) == (True, state["digest"], 12)
        assert all(event.question for event in store.read_events(row.id, 1, 100))
