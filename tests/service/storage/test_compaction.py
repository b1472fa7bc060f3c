"""Old events are removed once a verified snapshot covers them, and nothing else is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aged import DAYS, NOW, append_reports, create_aged, find
from fold_log import build_config, build_log
from registries import open_registry, until
from store_samples import refused

from helpers.private import write_tables
from maskedbandits.errors import UserError
from maskedbandits.service import compaction, recovery, snapshots
from maskedbandits.service.clock import Clock
from maskedbandits.service.compaction import Compactor, compact, get_cutoff
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.log_hash import LogHash
from maskedbandits.service.recovery import BASE_KERNEL, SNAPSHOT_KERNEL, DamagedError, load_newest, load_oldest
from maskedbandits.service.replay import AGREES, BAD, CONTRADICTS, EARLY, OTHER_MACHINE, ROUNDED, Claim, replay
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.backup import backup, restore
from maskedbandits.service.storage.models import ExperimentRow, NewArmRow, NewReport
from maskedbandits.service.storage.retention import PERMANENT

pytest_plugins = ["store_fixtures"]

CUTOFF = NOW - 24 * 5  # five days


@pytest.fixture
def store(any_store: Store) -> Store:
    create_aged(any_store)
    return any_store


def fold(store: Store, row: ExperimentRow, state: ExperimentState | None = None) -> ExperimentState:
    """The state that all events after one lead to, event by event."""
    found = ExperimentState() if state is None else state
    for event in store.read_events(row.id, found.seq, 10**6):
        found.apply_events([event])
    return found


def write_snapshot(store: Store, row: ExperimentRow, seq: int) -> ExperimentState:
    state = ExperimentState()
    state.apply_events(store.read_events(row.id, 0, seq))
    body = state.snapshot()
    store.save_snapshot(row.id, body[0], SNAPSHOT_KERNEL, *body[1:])
    return state


def delete_by_hand(store: Store, first: int, last: int) -> None:
    with write_tables(store) as tx:
        tx.execute("DELETE FROM event WHERE experiment = 1 AND seq BETWEEN ? AND ?", (first, last))


def test_state_and_hash_are_as_before(store: Store) -> None:
    row = find(store, "headlines")
    before, events = fold(store, row), store.read_events(row.id, 0, 10**6)
    old = [event for event in events if event.hour < CUTOFF]
    done = compact(store, row, CUTOFF)
    assert (done.removed, done.first_seq) == (len(old), len(old) + 1)
    row = find(store, "headlines")
    assert (row.first_seq, store.read_first(row.id)) == (len(old) + 1, len(old) + 1)
    assert [event.hour >= CUTOFF for event in store.read_events(row.id, 0, 10**6)] == [True] * (len(events) - len(old))
    after = fold(store, row, load_newest(store, row))
    assert after.compute_digest() == before.compute_digest()
    assert after.log_hash.value == before.log_hash.value
    assert after.reported.tolist() == before.reported.tolist()
    assert after.terms == before.terms


def test_replay_proves_state_from_the_cut(store: Store) -> None:
    row = find(store, "headlines")
    write_snapshot(store, row, 500)
    digest = fold(store, row).compute_digest()[1]
    compact(store, row, CUTOFF)
    row = find(store, "headlines")
    found = replay(store, row, [Claim("live", row.seq, digest)])
    assert (found.holds, found.start, found.seq, found.digest) == (True, row.first_seq - 1, row.seq, digest)
    kinds = [(claim.source, claim.kernel, claim.seq) for claim in found.list_claims(AGREES)]
    cut = row.first_seq - 1
    assert sorted(kinds) == sorted(
        [
            ("live", "", row.seq),
            ("snapshot", SNAPSHOT_KERNEL, 500),
            ("snapshot", BASE_KERNEL, cut),
            ("log-hash", "", cut),
        ]
    )
    assert not replay(store, row, [Claim("live", row.seq, "0" * 64)]).holds


def test_log_is_cut_again_and_again(store: Store) -> None:
    row, digest = find(store, "headlines"), fold(store, find(store, "headlines")).compute_digest()
    for cutoff in (NOW - 24 * DAYS, NOW - 24 * 8, NOW - 24 * 8, NOW - 24, NOW + 24):
        compact(store, find(store, "headlines"), cutoff)
        row = find(store, "headlines")
        assert fold(store, row, load_newest(store, row)).compute_digest() == digest
        assert replay(store, row, []).holds
    assert (row.first_seq, store.read_first(1)) == (row.seq + 1, None)  # nothing is left but the snapshot
    assert [(head.seq, head.kernel) for head in store.list_states(1)] == [(row.seq, BASE_KERNEL)]
    append_reports(store, row, 7, NOW, NOW + 1)
    row = find(store, "headlines")
    assert [event.seq for event in store.read_events(1, 0, 99)] == list(range(row.first_seq, row.seq + 1))
    assert replay(store, row, []).holds


def test_groups_are_compacted(any_store: Store) -> None:
    create_aged(any_store, "grouped", 120, ["new", "known"])
    row = find(any_store, "grouped")
    before = fold(any_store, row)
    assert compact(any_store, row, CUTOFF).removed > 40
    row = find(any_store, "grouped")
    after = fold(any_store, row, load_newest(any_store, row))
    assert (after.compute_digest(), after.log_hash.value) == (before.compute_digest(), before.log_hash.value)


def test_ids_that_may_be_repeated_keep_their_events(store: Store) -> None:
    row = find(store, "headlines")
    late = row.forgotten + 500
    store.append([NewReport(1, 0, 1, 1_000_000, 65_536, 0, bytes(11), late, CUTOFF - 1, 1)])
    append_reports(store, find(store, "headlines"), 20, CUTOFF - 1, CUTOFF)
    kept = row.seq + 1
    compact(store, find(store, "headlines"), NOW + 24)
    assert store.read_first(1) == kept
    store.forget(late)
    compact(store, find(store, "headlines"), NOW + 24)
    assert store.read_first(1) is None


def test_nothing_is_removed_while_a_snapshot_contradicts(store: Store) -> None:
    row = find(store, "headlines")
    state = write_snapshot(store, row, 100)
    store.save_snapshot(1, 100, SNAPSHOT_KERNEL, state.snapshot()[1], "0" * 64)
    with refused("snapshot at event 100 contradicts", "maskedbandits replay", kind=DamagedError):
        compact(store, row, CUTOFF)
    assert store.read_first(1) == 1


def test_nothing_is_removed_from_damaged_log(store: Store) -> None:
    row = find(store, "headlines")
    delete_by_hand(store, 50, 50)
    with refused("gap", kind=DamagedError):
        compact(store, row, CUTOFF)
    assert store.read_first(1) == 1


def test_events_without_base_cannot_be_removed(store: Store) -> None:
    write_snapshot(store, find(store, "headlines"), 100)
    with refused("no snapshot begins after them"):
        store.remove_events(1, 100)
    assert store.read_first(1) == 1


def test_rows_deleted_by_hand_without_snapshot_are_named(store: Store) -> None:
    row = find(store, "headlines")
    delete_by_hand(store, 1, 200)
    for load in (load_newest, load_oldest):
        with refused("headlines", "events 1 to 200", "no valid snapshot", "restore a backup", kind=DamagedError):
            load(store, row)


def test_rows_deleted_by_hand_under_a_snapshot_are_not_needed(store: Store, tmp_path: Path) -> None:
    row, digest = find(store, "headlines"), fold(store, find(store, "headlines")).compute_digest()
    write_snapshot(store, row, 300)
    delete_by_hand(store, 1, 200)
    assert fold(store, row, load_newest(store, row)).compute_digest() == digest
    found = replay(store, row, [])
    assert (found.holds, found.start, found.digest) == (True, 300, digest[1])
    backup(store, tmp_path / "copy")
    assert compact(store, row, CUTOFF).removed > 100
    assert replay(store, find(store, "headlines"), []).holds
    delete_by_hand(store, 1, row.seq - 3)
    with refused("restore a backup", kind=DamagedError):
        load_newest(store, row)


def test_backup_holds_log_that_begins_later(store: Store, tmp_path: Path) -> None:
    compact(store, find(store, "headlines"), CUTOFF)
    row = find(store, "headlines")
    assert backup(store, tmp_path / "copy").events == row.seq - row.first_seq + 1
    url = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(tmp_path / "copy", url)
    with open_store(url) as restored:
        assert replay(restored, find(restored, "headlines"), []).digest == replay(store, row, []).digest


def test_backup_without_snapshot_is_refused(store: Store, tmp_path: Path) -> None:
    compact(store, find(store, "headlines"), CUTOFF)
    with write_tables(store) as tx:
        tx.execute("DELETE FROM snapshot WHERE experiment = 1 AND kernel = ?", (BASE_KERNEL,))
    with refused("headlines", "no snapshot covers"):
        backup(store, tmp_path / "copy")


def test_snapshot_of_earlier_release_gets_its_hash(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a release that had none: it is computed from the log while it is complete."""
    row = find(store, "headlines")
    state = write_snapshot(store, row, 300)
    right = state.log_hash.value
    state.log_hash = LogHash(300)
    store.save_snapshot(1, 300, SNAPSHOT_KERNEL, *state.snapshot()[1:])
    assert load_newest(store, row).log_hash.value == right
    delete_by_hand(store, 1, 10)
    assert load_newest(store, row).log_hash.start == 300
    assert replay(store, row, []).holds


def test_other_fold_version_is_folded_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row, faults = find(store, "headlines"), list[str]()
    write_snapshot(store, row, 300)
    monkeypatch.setattr("maskedbandits.service.snapshots.FOLD_VERSION", 2)
    state = load_newest(store, row, lambda head, fault: faults.append(f"{head.seq}: {fault}"))
    assert (state.seq, len(faults)) == (0, 1)
    assert "300: " in faults[0]
    assert "fold version 1" in faults[0]
    delete_by_hand(store, 1, 10)
    with refused("fold version 1", "restore a backup"):
        load_newest(store, row)


def test_changed_code_of_own_policy_is_folded_again_or_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    row, digest = find(store, "headlines"), fold(store, find(store, "headlines")).compute_digest()
    write_snapshot(store, row, 300)
    with monkeypatch.context() as patch:
        patch.setattr("maskedbandits.service.snapshots.get_origin", lambda policy: "other code")
        state = load_newest(store, row)
        assert (state.seq, fold(store, row, state).compute_digest()) == (0, digest)
    compact(store, row, CUTOFF)
    monkeypatch.setattr("maskedbandits.service.snapshots.get_origin", lambda policy: "other code")
    with refused(
        "headlines", "code of the policy 'klucb-cf' has changed", "install the earlier code", kind=DamagedError
    ):
        load_newest(store, find(store, "headlines"))


def test_compactor_takes_turns_and_goes_on_after_damage(store: Store) -> None:
    create_aged(store, "damaged", 60)
    create_aged(store, "other", 60)
    with write_tables(store) as tx:
        tx.execute("DELETE FROM event WHERE experiment = 2 AND seq = 5")
    clock = Clock(lambda: 3600.0 * NOW)
    first, second = (Compactor(lambda: store, name, clock, 5) for name in ("first", "second"))
    assert first.claim(store)
    second.compact_all(store)  # the first one works on it
    assert store.read_first(1) == 1
    first.compact_all(store)
    assert [store.read_first(each) == 1 for each in (1, 2, 3)] == [False, True, False]
    assert {find(store, name).first_seq > 1 for name in ("headlines", "other")} == {True}


def test_compactor_runs_only_with_limit(store: Store) -> None:
    keeps = Compactor(lambda: store, "keeps", Clock(), 0)
    keeps.start()
    assert not keeps.is_running
    keeps.stop()
    removes = Compactor(lambda: store, "removes", Clock(), 1)
    removes.start()
    assert removes.is_running
    removes.stop()
    assert not removes.is_running


def test_cutoff_is_counted_in_days() -> None:
    assert get_cutoff(3600.0 * NOW + 1800, 1) == NOW - 24
    assert get_cutoff(3600.0 * NOW, 0.5) == NOW - 12


KILLED = """
import os, signal, sys
from maskedbandits.service import compaction
from maskedbandits.service.storage import open_store, retention
from aged import find
url, stop = sys.argv[1], int(sys.argv[2])
retention.REMOVED_AT_ONCE, ticks = 30, 0
def tick():
    global ticks
    ticks += 1
    if ticks == stop:
        os.kill(os.getpid(), signal.SIGKILL)
remove = retention.Retention.remove_events
retention.Retention.remove_events = lambda self, experiment, seq: remove(self, experiment, seq, 30)
with open_store(url) as store:
    compaction.compact(store, find(store, "headlines"), int(sys.argv[3]), tick)
"""


@pytest.mark.parametrize("ticks", [1, 3])
def test_killed_compaction_is_resumed(any_url: str, ticks: int) -> None:
    with open_store(any_url, create=True) as store:
        create_aged(store)
        digest = fold(store, find(store, "headlines")).compute_digest()
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    code = [sys.executable, "-c", KILLED, any_url, str(ticks), str(CUTOFF)]
    done = subprocess.run(code, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == -signal.SIGKILL
    with open_store(any_url) as store:
        row = find(store, "headlines")
        assert row.first_seq == store.read_first(1)
        assert fold(store, row, load_newest(store, row)).compute_digest() == digest
        assert replay(store, row, []).holds
        compact(store, row, CUTOFF)
        row = find(store, "headlines")
        assert {event.hour >= CUTOFF for event in store.read_events(1, 0, 10**6)} == {True}
        assert fold(store, row, load_newest(store, row)).compute_digest() == digest
        assert replay(store, row, []).holds


def test_earlier_snapshots_go_with_their_events(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the process was killed in between: they may hold reports."""
    write_snapshot(store, find(store, "headlines"), 100)
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "drop_snapshots_before", lambda self, experiment, seq: None)
        compact(store, find(store, "headlines"), CUTOFF)
    cut = find(store, "headlines").first_seq - 1
    assert {head.seq for head in store.list_states(1)} == {100, cut}
    assert compact(store, find(store, "headlines"), CUTOFF).removed == 0
    assert {head.seq for head in store.list_states(1)} == {cut}


def test_others_write_while_events_are_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = type(store).remove_events
    monkeypatch.setattr(type(store), "remove_events", lambda self, experiment, seq: remove(self, experiment, seq, 50))
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        append_reports(store, find(store, "headlines"), 3, NOW, NOW + 1)

    before = find(store, "headlines").seq
    compact(store, find(store, "headlines"), CUTOFF, tick)
    row = find(store, "headlines")
    assert row.seq == before + 3 * ticks
    assert ticks > 4
    assert replay(store, row, []).holds


def test_unusual_events_are_read_as_columns(any_store: Store) -> None:
    """Values that do not fit into the packed form of a usual report, and some of each kind."""
    create_aged(any_store, reports=6)
    values: list[dict[str, Any]] = [{}, {"arm": 2000}, {"epsilon": 2**40}, {"flags": 300}, {"config": None}]
    values += [{"probability": 200_000}, {"hour": NOW + 9000}, {"question": b"\x05\x01"}, {"arm": None}, {"hour": 3}]
    values = [value for value in values for _ in range(40 if not value else 1)] * 3
    usual = NewReport(1, 0, 1, 1_000_000, 65_536, 0, bytes(11), 2**20, NOW, 3)
    rows = [usual._replace(decision=number.to_bytes(11, "big"), **value) for number, value in enumerate(values)]
    any_store.append(rows)
    events = any_store.read_events(1, 0, 10**6)
    for after, limit in ((0, len(events)), (9, 100), (9, 41), (60, 10**4), (0, 1)):
        found = any_store.read_columns(1, after, limit)
        expected = EventColumns.from_rows(events[after : after + limit])
        for name, column in expected._asdict().items():
            assert list(getattr(found, name)) == list(column), name
    assert any_store.read_columns(1, len(events), 5).size == 0
    assert recovery.hash_log(any_store, find(any_store, "headlines"), len(events)).seq == len(events)


def test_layout_of_the_release_before_is_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "may_remove_events", False)
    with pytest.raises(UserError, match="maskedbandits upgrade first"):
        compact(store, find(store, "headlines"), CUTOFF)
    Compactor(lambda: store, "one", Clock(lambda: 3600.0 * NOW), 5).compact_all(store)
    assert store.read_first(1) == 1
    assert compaction.find_base(store, find(store, "headlines"), 1) is None


def save_of_another_machine(store: Store, row: ExperimentRow, kernel: str) -> ExperimentState:
    """Store a snapshot whose sums have other last bits, and return the state at the end that follows from it."""
    contents, _ = write_snapshot(store, row, 300).describe()
    fields = {**contents.fields, "sums": np.nextafter(contents.fields["sums"], np.inf)}
    altered = contents._replace(fields=fields, kernel=kernel)
    digest = snapshots.restore_policy(altered).fold_digest()
    body = snapshots.encode(altered)
    store.save_snapshot(row.id, 300, SNAPSHOT_KERNEL, body, digest)
    return fold(store, row, ExperimentState.from_snapshot(body, 300, digest))


def test_rounding_of_another_machine_is_no_contradiction(store: Store) -> None:
    row = find(store, "headlines")
    state = save_of_another_machine(store, row, "another machine")
    right, other = fold(store, row).compute_digest()[1], state.compute_digest()[1]
    assert right != other
    claims = [Claim("live", row.seq, right), Claim("live", row.seq, other), Claim("live", row.seq, "0", "another")]
    found = replay(store, row, claims)
    assert found.holds
    assert [each.claim.digest for each in found.verdicts if each.verdict == AGREES] == [right]
    rounded = found.list_claims(ROUNDED)
    assert [(claim.source, claim.seq) for claim in rounded] == [("live", row.seq), ("snapshot", 300)]
    assert [claim.kernel for claim in found.list_claims(OTHER_MACHINE)] == ["another"]
    compact(store, row, CUTOFF)  # and does not block retention
    later = replay(store, find(store, "headlines"), claims)
    assert later.holds
    assert (later.digest, later.list_claims(AGREES)[0]) == (other, claims[1])  # processes went on from that snapshot


def test_other_bits_on_the_same_machine_are_a_contradiction(store: Store) -> None:
    row = find(store, "headlines")
    save_of_another_machine(store, row, snapshots.get_kernel_key())
    found = replay(store, row, [])
    assert not found.holds
    assert [claim.seq for claim in found.list_claims(*BAD)] == [300]
    with refused("snapshot at event 300 contradicts", kind=DamagedError):
        compact(store, row, CUTOFF)


def test_service_removes_old_events_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compaction, "FIRST_WAIT_S", 0.05)
    url = f"sqlite:///{tmp_path / 'store.db'}?durable=no"
    with open_store(url, create=True) as store:
        create_aged(store)
        digest = fold(store, find(store, "headlines")).compute_digest()[1]

        async def use() -> None:
            async with open_registry(url, retention_days=30) as registry:
                await until(lambda: store.read_first(1) is None)
                assert registry.experiments()[0].view()["digest"] == digest

        asyncio.run(use())
        row = find(store, "headlines")
        assert (row.first_seq, replay(store, row, []).digest) == (row.seq + 1, digest)
    assert "old events are removed" in capsys.readouterr().err


def test_snapshot_of_an_early_format_is_no_contradiction(store: Store) -> None:
    """Releases for version 2 of the tables wrote such snapshots; this release writes those of a fold version."""
    row = find(store, "headlines")
    store.save_snapshot(1, 7, "0123456789abcdef", b"\x02 and what follows", "digest")
    found = replay(store, row, [])
    assert (found.holds, [claim.kernel for claim in found.list_claims(EARLY)]) == (True, ["0123456789abcdef"])
    assert load_newest(store, row).seq == 0
    store.save_snapshot(1, 7, "fold-1", b"\x02 and what follows", "digest")  # the first byte is damaged
    assert [claim.kernel for claim in replay(store, row, []).list_claims(CONTRADICTS)] == ["fold-1"]


def test_snapshot_of_an_early_format_does_not_stop_compaction(store: Store) -> None:
    store.save_snapshot(1, 7, "0123456789abcdef", b"\x02 and what follows", "digest")
    assert compact(store, find(store, "headlines"), CUTOFF).removed > 0
    assert not [head for head in store.list_states(1) if head.kernel == "0123456789abcdef"]


def test_store_of_release_before_starts_from_its_snapshot(any_store: Store) -> None:
    old = json.loads((Path(__file__).parents[1] / "old_snapshots.json").read_text())["auto"]
    log = build_log("auto")
    arms = [NewArmRow(f"arm {place}") for place in range(4)]
    row = any_store.create_experiment("old", json.dumps(build_config("auto")), arms, 0, 0)
    with write_tables(any_store) as tx:
        tx.execute("DELETE FROM event WHERE experiment = 1")
        names = ["experiment", *PERMANENT]
        insert = f"INSERT INTO event ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - our own names
        tx.execute_many(insert, [(1, *(getattr(event, name) for name in PERMANENT)) for event in log])
        tx.execute("UPDATE experiment SET seq = ? WHERE id = 1", (len(log),))
    any_store.save_snapshot(1, old["seq"], "0123456789abcdef", base64.b64decode(old["body"]), old["sha256"])
    row = find(any_store, "old")
    state, whole = load_newest(any_store, row), fold(any_store, row)
    assert (state.seq, state.compute_digest()) == (len(log), whole.compute_digest())
    assert state.log_hash.value == whole.log_hash.value
    assert [claim.kernel for claim in replay(any_store, row, []).list_claims(AGREES)] == ["0123456789abcdef"]
    assert compact(any_store, row, 10).removed > 400
    row = find(any_store, "old")
    assert fold(any_store, row, load_newest(any_store, row)).compute_digest() == whole.compute_digest()
