"""The contract of stores, on both of them: changes of experiments."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from store_samples import HOUR, create_sample, refused

from maskedbandits.errors import UserError
from maskedbandits.service.storage import Conflict, Store
from maskedbandits.service.storage.models import ArmRow, Change, ExperimentRow

pytest_plugins = ["store_fixtures"]


class TestChanges:
    """Tests that hold for every backend."""

    @pytest.fixture
    def store(self, any_store: Store) -> Store:
        return any_store

    @pytest.fixture
    def experiment(self, store: Store) -> ExperimentRow:
        return create_sample(store)

    def test_each_change_is_an_event_and_a_version(self, store: Store, experiment: ExperimentRow) -> None:
        changes = [
            Change("arm", HOUR + 1, name="black", payload="7"),
            Change("retire", HOUR + 2, place=1),
            Change("config", HOUR + 3, config='{"epsilon": 2}', default_arm=3),
            Change("status", HOUR + 4, status="paused"),
        ]
        rows = [store.change(experiment.id, change) for change in changes]
        assert [(row.seq, row.config_version) for row in rows] == [(2, 2), (3, 3), (4, 4), (5, 5)]
        assert rows[-1] == store.list_experiments()[0]
        assert rows[-1][2:7] == ("paused", '{"epsilon": 2}', 5, 5, 3)
        assert [arm.status for arm in store.list_arms(experiment.id)] == ["open", "retired", "open", "open"]
        assert store.list_arms(experiment.id)[3] == ArmRow(3, "black", "7", "open")
        events = store.read_events(experiment.id, 1, 10)
        assert [(event.seq, event.kind, event.arm, event.hour) for event in events] == [
            (2, "arm", 3, HOUR + 1),
            (3, "retire", 1, HOUR + 2),
            (4, "config", None, HOUR + 3),
            (5, "status", None, HOUR + 4),
        ]
        assert [json.loads(event.detail or "") for event in events] == [
            {"name": "black", "payload": 7},
            {"name": "blue"},
            {"config": {"epsilon": 2}, "default_arm": 3},
            {"status": "paused"},
        ]

    def test_invalid_change_changes_nothing(self, store: Store, experiment: ExperimentRow) -> None:
        store.change(experiment.id, Change("retire", HOUR, place=1))
        before = store.list_experiments(), store.list_arms(experiment.id), store.read_events(experiment.id, 0, 10)
        for change, words in [
            (Change("arm", HOUR, name="blue"), "used by another arm"),
            (Change("arm", HOUR, name="new", payload="{"), "JSON"),
            (Change("arm", HOUR, name=""), "a text of 1 to 500 bytes"),
            (Change("arm", HOUR, name="x" * 501), "a text of 1 to 500 bytes"),
            (Change("arm", HOUR, name="a\0b"), "without NUL"),
            (Change("arm", HOUR, name="\ud800"), "without lone surrogates"),
            (Change("retire", HOUR, place=0), "is the default arm"),
            (Change("retire", HOUR, place=1), "no open arm 1"),
            (Change("retire", HOUR, place=3), "no open arm 3"),
            (Change("config", HOUR, config="{", default_arm=0), "JSON"),
            (Change("config", HOUR, config="{}", default_arm=1), "no open arm 1"),
            (Change("status", HOUR, status="runing"), "did you mean 'running'?"),
            (Change("statuses", HOUR), "did you mean 'status'?"),
        ]:
            with refused(words):
                store.change(experiment.id, change)
        with refused("no experiment has the number 9"):
            store.change(9, Change("status", HOUR, status="paused"))
        assert before == (
            store.list_experiments(),
            store.list_arms(experiment.id),
            store.read_events(experiment.id, 0, 10),
        )

    def test_config_change_is_merged(self, store: Store, experiment: ExperimentRow) -> None:
        for config, default in [('{"floor": 0.1}', None), ('{"epsilon": 2}', 1), ("{}", None)]:
            row = store.change(experiment.id, Change("config", HOUR, config=config, default_arm=default))
        assert (json.loads(row.config), row.default_arm) == ({"epsilon": 2, "floor": 0.1}, 1)
        details = [json.loads(event.detail or "") for event in store.read_events(experiment.id, 1, 10)]
        assert details[1] == details[2] == {"config": {"epsilon": 2, "floor": 0.1}, "default_arm": 1}
        with refused("a JSON object"):
            store.change(experiment.id, Change("config", HOUR, config="[]"))

    def test_several_changes_are_atomic(self, store: Store, experiment: ExperimentRow) -> None:
        terms = Change("config", HOUR, config='{"floor": 0.5}')
        with refused("status 'stopped'"):
            store.change(1, [terms, Change("status", HOUR, status="stopped")])
        assert store.list_experiments() == [experiment]
        row = store.change(1, [terms, Change("status", HOUR, status="paused")])
        assert (row.status, json.loads(row.config)["floor"], row.config_version) == ("paused", 0.5, 3)
        assert [event.kind for event in store.read_events(1, 1, 9)] == ["config", "status"]

    def test_failed_check_rolls_back(self, store: Store, experiment: ExperimentRow) -> None:
        def check(row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
            assert [arm.name for arm in arms] == ["red", "blue", "green", "new"]
            assert row.seq == 2
            raise UserError("too many")

        before = store.list_experiments(), store.list_arms(experiment.id), store.read_events(experiment.id, 0, 10)
        with refused("too many"):
            store.change(experiment.id, Change("arm", HOUR, name="new"), check)
        assert before == (
            store.list_experiments(),
            store.list_arms(experiment.id),
            store.read_events(experiment.id, 0, 10),
        )

    def test_archived_experiment_cannot_change(self, store: Store, experiment: ExperimentRow) -> None:
        row = store.change(experiment.id, Change("status", HOUR, status="archived"))
        for change in [
            Change("arm", HOUR, name="new"),
            Change("retire", HOUR, place=1),
            Change("config", HOUR, config="{}"),
            *(Change("status", HOUR, status=status) for status in ("running", "paused", "archived")),
        ]:
            with refused("'headlines' is archived, which is final", kind=Conflict):
                store.change(experiment.id, change)
        assert store.list_experiments() == [row]
