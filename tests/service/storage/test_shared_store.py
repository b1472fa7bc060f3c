"""A store that processes of an earlier release may use takes nothing that they would ignore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from older_stores import build_older, rewrite_nothing
from store_samples import HOUR, create_sample

from maskedbandits.errors import UserError
from maskedbandits.service.storage import Conflict, Store, open_store
from maskedbandits.service.storage.backup import backup, restore
from maskedbandits.service.storage.models import Change, NewArmRow

pytest_plugins = ["store_fixtures"]

BACKEND, DEVICE = '{"epsilon": 1, "decide_with": "backend"}', '{"epsilon": 1, "decide_with": "device"}'


@pytest.fixture
def shared_url(any_url: str) -> str:
    """A store of the release before, without experiments."""
    build_older(any_url, 3, empty=True)
    return any_url


def delete(store: Store) -> None:
    create_sample(store)
    store.change(1, Change("status", HOUR, status="archived"))
    store.delete_experiment(1, 60 * HOUR)


def create_for_backends(store: Store) -> None:
    store.create_experiment("layouts", BACKEND, [NewArmRow("a")], 0, HOUR)


def change_to_backends(store: Store) -> None:
    store.create_experiment("headlines", '{"epsilon": 1}', [NewArmRow("a")], 0, HOUR)
    store.change(1, Change("config", HOUR, config='{"decide_with": "backend"}'))


def limit_key(store: Store) -> None:
    store.add_key("shop-web", "device", b"digest", HOUR, ["headlines"])


@pytest.mark.parametrize("work", [delete, create_for_backends, change_to_backends, limit_key])
def test_shared_store_refuses_until_upgraded(work: Callable[[Store], None], shared_url: str) -> None:
    with open_store(shared_url) as store:
        with pytest.raises(Conflict) as refusal:
            work(store)
        assert refusal.value.code == "upgrade_required"
        assert "run maskedbandits upgrade" in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert not store.list_keys()
        assert not store.list_deleted()
        assert all("decide_with" not in row.config for row in store.list_experiments())
        assert store.upgrade(rewrite_nothing) == (3, 4)
        if not store.list_experiments():
            work(store)
        elif work is delete:
            store.delete_experiment(1, 60 * HOUR)
        else:
            store.change(1, Change("config", HOUR, config=BACKEND))


def test_shared_store_takes_what_earlier_processes_know(shared_url: str) -> None:
    with open_store(shared_url) as store:
        store.create_experiment("headlines", DEVICE, [NewArmRow("a")], 0, HOUR)
        store.change(1, Change("config", HOUR, config=DEVICE))
        store.change(1, Change("payload", HOUR, place=0, payload="[1]"))
        store.add_key("shop", "backend", b"digest", HOUR)
        assert (store.read_version(), len(store.list_keys())) == (3, 1)


def test_backup_is_not_restored_into_a_shared_store(shared_url: str, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/now.db", create=True) as source:
        create_sample(source)
        backup(source, tmp_path / "backup")
    with pytest.raises(UserError, match="run maskedbandits upgrade first"):
        restore(tmp_path / "backup", shared_url)
    with open_store(shared_url) as store:
        assert (store.read_version(), store.list_experiments()) == (3, [])
        assert store.upgrade(rewrite_nothing) == (3, 4)
    restore(tmp_path / "backup", shared_url)
    with open_store(shared_url) as store:
        assert [row.id for row in store.list_experiments()] == [1]
