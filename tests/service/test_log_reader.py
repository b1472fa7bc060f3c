"""An experiment that cannot be followed is quarantined, and the others go on."""

from __future__ import annotations

import json
from typing import Any, Never

import pytest
from registries import build_registry, until
from web import SMALL, Served

from maskedbandits.service import config, log_reader
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.pending import PendingReports
from maskedbandits.service.storage.sqlite import SqliteStore

pytest_plugins = ["service_fixtures"]

ONE, OTHER = "/v1/experiments/headline", "/v1/experiments/other"


def no_memory(*_: object, **__: object) -> Never:
    raise MemoryError


def test_experiment_too_large_for_memory_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(config, "build_policy", no_memory)
        reply = served.post("/v1/experiments", {**SMALL, "name": "other"})
    assert (reply.status, "does not fit into memory" in reply.error) == (400, True)
    assert served.post("/v1/experiments", {**SMALL, "name": "other"}).status == 201


def test_quarantined_experiment_is_tried_again(
    storage: str, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served.post("/v1/experiments", {**SMALL, "name": "other"})
    token = served.post(f"{OTHER}/decisions").json["token"]
    read = SqliteStore.list_states

    def read_one(self: SqliteStore, experiment: int) -> Any:
        return read(self, experiment) if experiment == 1 else no_memory()

    monkeypatch.setattr(SqliteStore, "list_states", read_one)
    monkeypatch.setattr(log_reader, "MINUTE", 0.2)
    with Served(build_registry(storage)) as later:
        assert later.get("/readyz").status == 200
        mine = later.post(f"{ONE}/decisions").json["token"]
        for reply in (later.post(f"{OTHER}/decisions"), later.post("/v1/reports", {"token": token, "bit": 1})):
            assert (reply.status, "cannot be read" in reply.error) == (503, True)
            assert reply.headers["retry-after"]
        both = {"reports": [{"token": token, "bit": 1}, {"token": mine, "bit": 1}]}
        values = [each["status"] for each in later.post("/v1/reports", both).json["results"]]
        assert values == ["later", "accepted"]
        assert b"maskedbandits_experiments_quarantined 1\n" in later.get("/metrics").body
        monkeypatch.undo()
        later.run(until(lambda: later.registry.get("other") is not None))
        assert later.post("/v1/reports", {"token": token, "bit": 1}).json == {"status": "accepted"}
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = [line for line in lines if line["event"] == "experiment is set aside"]  # it is said once
    assert (line["experiment"], line["kind"]) == ("other", "MemoryError")


def test_half_applied_events_are_replayed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [each["token"] for each in served.post(f"{ONE}/decisions", {"n": 5}).json["decisions"]]
    take, failures = LiveExperiment.apply_events, [1]

    def half(self: LiveExperiment, events: Any) -> None:
        take(self, events)
        if failures:
            failures.pop()
            no_memory()

    monkeypatch.setattr(LiveExperiment, "apply_events", half)
    monkeypatch.setattr(log_reader, "MINUTE", 0.05)
    before = served.registry.get("headline")
    served.post("/v1/reports", {"token": tokens[0], "bit": 1})
    served.run(until(lambda: served.registry.get("headline") not in (before, None)))
    state = served.get(f"{ONE}/state").json
    assert (state["observations"], state["seq"], sum(state["pending"])) == (1, 2, 4)


@pytest.mark.parametrize(
    "broken",
    [
        (LiveExperiment, "recent_expiry"),
        (LiveExperiment, "sync_pending"),
        (PendingReports, "forget"),
        (PendingReports, "take_unflushed"),
    ],
)
def test_periodic_work_fails_for_one_experiment_alone(
    storage: str, served: Served, monkeypatch: pytest.MonkeyPatch, broken: tuple[type, str]
) -> None:
    """At the start the service died of it; later nothing was followed any more."""
    served.post("/v1/experiments", {**SMALL, "name": "other"})
    served.close()
    kind, name = broken
    sound = getattr(kind, name)

    def fail_for_other(self: Any, *arguments: Any) -> Any:
        lives = [each for each in registry.log_reader.by_id.values() if each.name == "other"]
        if any(self in (each, each.pending) for each in lives):
            raise TypeError("of one")
        return sound(self, *arguments)

    registry = build_registry(storage)
    monkeypatch.setattr(kind, name, fail_for_other)
    with Served(registry) as later:
        later.run(until(lambda: registry.is_quarantined("other")))
        assert later.post(f"{OTHER}/decisions").status == 503
        token = later.post(f"{ONE}/decisions").json["token"]
        assert later.post("/v1/reports", {"token": token, "bit": 1}).json == {"status": "accepted"}
        assert registry.trouble is None
