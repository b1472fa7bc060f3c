"""The compactor of a service: one process at a time, only what is due, and each loss is logged once."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

import pytest
from aged import NOW, append_reports, create_aged, find
from click.testing import CliRunner

from helpers.private import write_tables
from maskedbandits.cli import main
from maskedbandits.service import compaction
from maskedbandits.service.clock import Clock
from maskedbandits.service.compaction import CLAIM_S, Compactor, StoppedError, Turn, compact
from maskedbandits.service.config import StoredConfig
from maskedbandits.service.recovery import load_oldest
from maskedbandits.service.server.warmup import CodeLoader, Names, list_code
from maskedbandits.service.storage import Store, StoreUnavailable, open_store

pytest_plugins = ["store_fixtures"]

DAYS_KEPT = 5
CUTOFF = NOW - 24 * DAYS_KEPT


class Loader(CodeLoader):
    """Notes which code is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[Names] = []
        self.has_stopped = False

    def wait(self, names: Names) -> bool:
        self.wanted.append(names)
        return not self.has_stopped


@pytest.fixture
def store(any_store: Store) -> Store:
    create_aged(any_store, reports=60)
    return any_store


def build(store: Store, name: str = "one", loader: CodeLoader | None = None) -> Compactor:
    return Compactor(lambda: store, name, Clock(lambda: 3600.0 * NOW), DAYS_KEPT, loader or Loader())


def read_claims(store: Store) -> list[str]:
    with write_tables(store) as tx:
        return [str(value) for (value,) in tx.query("SELECT value FROM meta WHERE key = ?", (compaction.CLAIM,))]


def test_compactor_takes_turns_and_goes_on_after_damage(store: Store) -> None:
    for name in ("gap", "unreadable", "other"):
        create_aged(store, name, 60)
    with write_tables(store) as tx:
        tx.execute("DELETE FROM event WHERE experiment = 2 AND seq = 5")
        tx.execute("UPDATE experiment SET config = '{}' WHERE id = 3")
    turn = Turn(store, "first", lambda: 3600.0 * NOW)
    assert turn.take()
    assert not build(store, "second").compact_all(store)  # the first one works on it
    assert store.read_first(1) == 1
    assert build(store, "first").compact_all(store)
    assert [store.read_first(each) == 1 for each in (1, 2, 3, 4)] == [False, True, True, False]
    assert {find(store, name).first_seq > 1 for name in ("headlines", "other")} == {True}
    assert build(store, "second").compact_all(store)  # its turn at once


def test_compactor_runs_only_with_limit(store: Store) -> None:
    keeps = Compactor(lambda: store, "keeps", Clock(), 0, CodeLoader())
    keeps.start()
    assert not keeps.is_running
    keeps.stop()
    removes = Compactor(lambda: store, "removes", Clock(), 1, CodeLoader())
    removes.start()
    assert removes.is_running
    removes.stop()
    assert not removes.is_running


def test_only_experiments_with_old_events_are_due(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    create_aged(store, "whole", 60)
    create_aged(store, "empty", 60)
    compact(store, find(store, "empty"), NOW + 24)
    assert store.find_removable(CUTOFF) == (store.read_first_hour(1), [1, 2])
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "drop_snapshots_before", lambda self, experiment, seq: None)
        store.save_snapshot(1, 9, "fold-1", *_snapshot(store, 9))
        compact(store, find(store, "headlines"), CUTOFF)
    assert store.find_removable(CUTOFF) == (store.read_first_hour(2), [1, 2])  # the snapshot is left
    assert build(store).compact_all(store)
    hours = [hour for each in (1, 2, 3) if (hour := store.read_first_hour(each)) is not None]
    assert store.find_removable(CUTOFF) == (min(hours), [])
    assert min(hours) >= CUTOFF


def _snapshot(store: Store, seq: int) -> tuple[bytes, str]:
    state = load_oldest(store, find(store, "headlines"))
    state.apply_events(store.read_events(1, 0, seq))
    return state.snapshot()[1:]


def test_round_without_work_writes_nothing(store: Store) -> None:
    loader = Loader()
    build(store, loader=loader).compact_all(store)
    config = StoredConfig.decode(find(store, "headlines").config)
    assert loader.wanted == [list_code(config)]
    before = read_claims(store)
    build(store, "another", loader).compact_all(store)
    assert read_claims(store) == before
    assert len(loader.wanted) == 1


def test_stop_while_code_is_compiled_lets_others_go_on(store: Store) -> None:
    loader = Loader()
    loader.has_stopped = True
    with pytest.raises(StoppedError):
        build(store, loader=loader).compact_all(store)
    assert store.read_first(1) == 1
    assert build(store, "next").compact_all(store)
    assert store.read_first(1) != 1


def test_turn_is_renewed_while_the_work_lasts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    mine, other = (Turn(store, name, lambda: now) for name in ("mine", "other"))
    assert mine.take()
    now += CLAIM_S - 1
    mine.renew()  # too early
    monkeypatch.setattr(compaction, "RENEW_S", -1.0)
    assert not other.take()
    assert mine.take()
    now += CLAIM_S - 1
    mine.renew()
    now += CLAIM_S - 1
    assert not other.take()
    now += 2  # it hung for too long
    assert other.take()
    with pytest.raises(StoppedError):
        mine.renew()
    mine.end()  # which is the other's
    assert not mine.take()


def test_long_work_renews_its_turn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "RENEW_S", -1.0)
    renewed, claim = [], type(store).claim

    def note(self: Store, key: str, owner: str, now: int, until: int) -> bool:
        renewed.append(owner)
        return claim(self, key, owner, now, until)

    monkeypatch.setattr(type(store), "claim", note)
    build(store).compact_all(store)
    assert len(renewed) >= 4  # also while it works on one experiment


def test_missing_right_is_logged_once(
    any_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(any_url, create=True) as store:
        create_aged(store, reports=60)
        oldest = store.read_first_hour(1) or 0
    open_again = functools.partial(open_store, any_url)
    compactor = Compactor(open_again, "one", Clock(lambda: 3600.0 * NOW), DAYS_KEPT, Loader())

    def refuse(self: Store, experiment: int, seq: int) -> int:
        raise StoreUnavailable("not permitted: grant this user all rights on the tables")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "remove_events", refuse)
        assert [compactor.run_once(), compactor.run_once()] == [False, False]
    assert compactor.oldest_at == 3600.0 * oldest  # its age is exported
    assert compactor.run_once()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    named = [(line["event"], line["severity"]) for line in lines]
    assert named == [
        ("old events cannot be removed", "error"),
        ("old events are removed", "info"),
        ("old events can be removed again", "info"),
    ]
    assert "not permitted" in lines[0]["reason"]
    assert compactor.oldest_at >= 3600.0 * CUTOFF > 3600.0 * oldest


def test_compact_verb_waits_for_its_turn(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}?durable=no"
    call = functools.partial(CliRunner().invoke, main, ["compact", "--days", "90", "--storage", url])
    with open_store(url, create=True) as store:
        create_aged(store, reports=60)
        append_reports(store, find(store, "headlines"), 1, NOW, NOW + 1)
        turn = Turn(store, "a service", time.time)
        assert turn.take()
        refusal = call()
        assert (refusal.exit_code, refusal.stdout) == (1, "")
        assert "a service, or another command, removes old events now" in refusal.stderr
        turn.end()
        for _ in range(2):  # it ends its turn, too
            assert call().exit_code == 0
        assert store.read_first(1) is None
