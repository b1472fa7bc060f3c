"""The contract of stores, on each backend."""

from __future__ import annotations

import json

import pytest
from store_samples import ARMS, CONFIG, HOUR, LATER, create_sample, refused, report, to_id

from maskedbandits.service.storage import Conflict, Store, StoreUnavailable, open_store
from maskedbandits.service.storage.models import (
    DUPLICATE,
    LATE,
    UNKNOWN,
    ArmRow,
    Change,
    EventRow,
    ExperimentRow,
    KeyRow,
    SnapshotRow,
    Visit,
)

pytest_plugins = ["store_fixtures"]

# Texts that are special in SQL, placeholders or formats, and letters of several scripts.
ODD = ["'; DROP TABLE event; --", '"', "%s %(x)s %%", "? {} $1 \\", "ünïcode 滑 🦀 \u202e", "\n\t\x01", " "]


class TestContract:
    """Tests that hold for every backend."""

    @pytest.fixture
    def store(self, any_store: Store) -> Store:
        return any_store

    @pytest.fixture
    def experiment(self, store: Store) -> ExperimentRow:
        return create_sample(store)

    # Experiments

    def test_log_starts_with_create_event(self, store: Store) -> None:
        row = create_sample(store)
        assert row == ExperimentRow(1, "headlines", "running", CONFIG, 1, 1, 0, HOUR, 0)
        assert store.list_experiments() == [row]
        assert store.list_arms(row.id) == [ArmRow(place, *arm, "open") for place, arm in enumerate(ARMS)]
        (event,) = store.read_events(row.id, 0, 10)
        assert event[:9] == (1, "create", None, None, None, None, None, None, HOUR)
        assert json.loads(event.detail or "") == {
            "config": json.loads(CONFIG),
            "default_arm": 0,
            "arms": [{"name": arm.name, "payload": json.loads(arm.payload)} for arm in ARMS],
        }

    def test_experiment_name_is_unique(self, store: Store) -> None:
        create_sample(store)
        with refused("'headlines' already", "give another name", kind=Conflict):
            create_sample(store)
        assert create_sample(store, "layouts").id == 2
        assert [row.name for row in store.list_experiments()] == ["headlines", "layouts"]

    def test_invalid_experiments_are_rejected(self, store: Store) -> None:
        with refused("give at least one"):
            store.create_experiment("a", CONFIG, [], 0, HOUR)
        with refused("all with different names"):
            store.create_experiment("a", CONFIG, [ARMS[0], ARMS[0]], 0, HOUR)
        with refused("3 is not one of its 3 arms"):
            store.create_experiment("a", CONFIG, ARMS, 3, HOUR)
        for config in ("{", "NaN", '"\0"', "[" * 100_000):
            with refused("config", "give"):
                store.create_experiment("a", config, ARMS, 0, HOUR)
        assert store.list_experiments() == []
        assert store.read_heads() == {}

    # The log

    def test_reports_get_consecutive_numbers(self, store: Store, experiment: ExperimentRow) -> None:
        reports = [report(tag=tag) for tag in range(1, 6)]
        assert store.append(reports[:2]) == [2, 3]
        assert store.append(reports[2:]) == [4, 5, 6]
        assert store.append([]) == []
        assert store.read_heads() == {1: 6}
        expected = [EventRow(tag + 1, "report", 1, 1, tag, 65_536, 0, LATER, HOUR, None) for tag in range(1, 6)]
        assert store.read_events(1, 1, 100) == expected
        assert store.read_events(1, 2, 2) == expected[1:3]
        assert store.read_events(1, 6, 2) == []

    def test_empty_question_is_not_null(self, store: Store, experiment: ExperimentRow) -> None:
        store.append([report()._replace(question=question) for question in (b"", None)])
        assert [event.question for event in store.read_events(1, 1, 10)] == [b"", None]
        store.append([report()._replace(question=b"")])
        assert store.read_events(1, 3, 10)[0].question == b""

    def test_decision_has_one_report(self, store: Store, experiment: ExperimentRow) -> None:
        one, two, three = (report(tag=tag) for tag in (1, 2, 3))
        assert store.append([one, two, one._replace(bit=0), two]) == [2, 3, DUPLICATE, DUPLICATE]
        assert store.append([two, three, one, three]) == [DUPLICATE, 4, DUPLICATE, DUPLICATE]
        assert store.append([one]) == [DUPLICATE]
        assert [event.epsilon for event in store.read_events(1, 1, 10)] == [1, 2, 3]
        assert store.read_heads() == {1: 4}

    def test_experiments_have_separate_logs(self, store: Store) -> None:
        create_sample(store)
        create_sample(store, "other")
        same = to_id(7)
        answers = store.append([report(2, same), report(1, same), report(3), report(2, same), report(2)])
        assert answers == [2, 2, UNKNOWN, DUPLICATE, 3]
        assert store.read_heads() == {1: 2, 2: 3}

    def test_archived_and_unknown_experiments_take_no_reports(self, store: Store, experiment: ExperimentRow) -> None:
        store.change(1, Change("status", HOUR, status="paused"))
        assert store.append([report()]) == [3]
        store.change(1, Change("status", HOUR, status="archived"))
        assert store.append([report(), report(2), report(0), report(-1), report(2**40)]) == [UNKNOWN] * 5

    def test_expired_id_stays_forgotten(self, store: Store, experiment: ExperimentRow) -> None:
        early, late = report(decision=to_id(1), expires=100), report(decision=to_id(2), expires=101)
        assert store.append([early, late]) == [2, 3]
        assert store.append([early, late]) == [DUPLICATE, DUPLICATE]
        store.forget(100)
        assert store.append([early, late]) == [LATE, DUPLICATE]
        assert [event.expires for event in store.read_events(1, 1, 9)] == [None, 101]
        store.forget(50)  # the clock was set back
        assert store.append([early, report(expires=100), report(expires=101)]) == [LATE, LATE, 4]
        assert store.list_experiments()[0].forgotten == 100
        assert store.append([early, early._replace(expires=102)]) == [LATE, 5]

    def test_many_ids_are_forgotten(self, store: Store, experiment: ExperimentRow) -> None:
        for _ in range(5):
            store.append([report(expires=100) for _ in range(900)])
        store.append([report(expires=200)])
        store.forget(150)
        expiring = [event.expires for event in store.read_events(1, 1, 10_000)]
        assert expiring == [None] * 4500 + [200]

    def test_unexpired_reports_are_counted(self, store: Store, experiment: ExperimentRow) -> None:
        reports = [report(expires=expires) for expires in (10, 20, 20, 30)]
        store.append([*reports, report(expires=20)._replace(arm=2)])
        assert sorted(store.count_reports(1, 20, 6)) == [(1, 20, 2), (1, 30, 1), (2, 20, 1)]
        assert sorted(store.count_reports(1, 11, 4)) == [(1, 20, 2)]
        assert store.count_reports(2, 0, 99) == []

    def test_id_of_wrong_length_is_rejected(self, store: Store, experiment: ExperimentRow) -> None:
        with refused("decision", "give 11 bytes"):
            store.append([report(decision=bytes(10)), report(decision=bytes(12))])
        assert store.read_heads() == {1: 1}

    def test_largest_numbers_of_tokens_are_stored(self, store: Store, experiment: ExperimentRow) -> None:
        large = report()._replace(arm=65_535, epsilon=2**32 - 1, flags=255, expires=2**31 - 1, hour=2**31 - 1)
        assert store.append([large]) == [2]
        event = store.read_events(1, 1, 1)[0]
        assert event == EventRow(2, "report", 65_535, 1, 2**32 - 1, 65_536, 255, 2**31 - 1, 2**31 - 1, None)

    # Snapshots, counters, visitors, keys and metadata

    def test_last_three_snapshots_are_kept(self, store: Store, experiment: ExperimentRow) -> None:
        assert store.read_snapshot(1, "a") is None
        for seq in (10, 40, 20, 30):
            store.save_snapshot(1, seq, "a", bytes(range(256)) * seq, f"digest {seq}")
        store.save_snapshot(1, 5, "b", b"b", "other")
        assert store.list_snapshots(1, "a") == [(40, "digest 40"), (30, "digest 30"), (20, "digest 20")]
        assert store.read_snapshot(1, "a") == SnapshotRow(40, "a", bytes(range(256)) * 40, "digest 40")
        assert store.read_snapshot(1, "a", 39) == SnapshotRow(30, "a", bytes(range(256)) * 30, "digest 30")
        assert store.read_snapshot(1, "a", 19) is None
        assert store.list_snapshots(1, "b") == [(5, "other")]
        assert store.list_snapshots(2, "a") == []
        store.save_snapshot(1, 40, "a", b"again", "again")
        assert store.list_snapshots(1, "a")[0] == (40, "again")

    def test_issued_decisions_are_counted_by_process(self, store: Store, experiment: ExperimentRow) -> None:
        store.set_issued("p", [(1, 0, 100, 3), (1, 1, 100, 1), (1, 0, 200, 9), (1, 0, 200, 2), (7, 0, 200, 5)])
        store.set_issued("q", [(1, 0, 100, 10)])
        store.set_issued("p", [(1, 0, 100, 4)])
        store.set_issued("p", [])
        rows = [(0, "p", 100, 4), (0, "p", 200, 2), (0, "q", 100, 10), (1, "p", 100, 1)]
        assert sorted(store.list_issued(1, 0)) == rows
        assert store.list_issued(1, 101) == [(0, "p", 200, 2)]
        assert store.list_issued(1, 200) == [(0, "p", 200, 2)]
        assert store.list_issued(1, 201) == store.list_issued(7, 0) == []
        assert sorted(store.list_issued(1, 0, besides="p")) == [row for row in rows if row[1] != "p"]
        assert store.sum_issued(1) == {0: 16, 1: 1}

    def test_many_experiments_are_counted_at_once(self, store: Store) -> None:
        for each in range(5):
            create_sample(store, f"experiment {each}")
        store.set_issued("p", [(each, arm, 100, each) for each in range(2000) for arm in (0, 1)])
        assert [store.sum_issued(each) for each in (0, 1, 5, 6)] == [{}, {0: 1, 1: 1}, {0: 5, 1: 5}, {}]

    def test_old_counts_are_compacted_once(self, store: Store, experiment: ExperimentRow) -> None:
        store.set_issued("p", [(1, 0, 60, 3), (1, 0, 61, 5), (1, 2, 60, 1)])
        store.set_issued("q", [(1, 0, 60, 4)])
        store.count_refused([(1, "late", 60, 2), (1, "late", 61, 3), (0, "forged", 1, 1)])
        store.forget(60 + 1440)
        assert store.list_issued(1, 0) == [(0, "p", 61, 5)]
        assert store.sum_issued(1) == {0: 12, 2: 1}
        store.set_issued("p", [(1, 0, 60, 30), (1, 0, 61, 6)])  # the first is summed up already
        assert store.sum_issued(1) == {0: 13, 2: 1}
        store.forget(60 + 1440)
        store.forget(120 + 1440)
        assert store.list_issued(1, 0) == []
        assert store.sum_issued(1) == {0: 13, 2: 1}
        assert store.sum_refused(1) == {"late": 5}
        assert store.sum_refused(0) == {"forged": 1}

    def test_refused_reports_are_counted(self, store: Store, experiment: ExperimentRow) -> None:
        store.count_refused([(1, "late", 5, 2), (0, "forged", 5, 1), (1, "late", 5, 1), (1, "late", 6, 1)])
        store.count_refused([(1, "late", 5, 1), (1, "foreign", 5, 4)])
        store.count_refused([])
        assert store.sum_refused(1) == {"foreign": 4, "late": 5}
        assert store.sum_refused(0) == {"forged": 1}
        assert store.sum_refused(2) == {}

    def test_visitor_keeps_token_until_it_expires(self, store: Store, experiment: ExperimentRow) -> None:
        def visit(token: bytes, expires: int, now: int, visitor: bytes = b"v" * 16, of: int = 1) -> Visit:
            return Visit(of, visitor, token, expires, now)

        assert store.assign_tokens([visit(b"one", 20, 10)]) == [b"one"]
        assert store.assign_tokens([visit(b"two", 29, 19), visit(b"w", 29, 19, b"w" * 16)]) == [b"one", b"w"]
        assert store.assign_tokens([visit(b"other", 29, 19, of=2)]) == [b"other"]
        assert store.assign_tokens([visit(b"three", 30, 20), visit(b"four", 31, 21), visit(b"five", 40, 30)]) == [
            b"three",
            b"three",
            b"five",
        ]
        assert store.assign_tokens([]) == []
        store.forget(29)
        assert store.assign_tokens([visit(b"six", 50, 0), visit(b"x", 50, 0, b"w" * 16)]) == [b"five", b"x"]

    def test_invalid_token_is_replaced_once(self, store: Store, experiment: ExperimentRow) -> None:
        def visit(token: bytes, instead: bytes = b"", visitor: bytes = b"v" * 16) -> Visit:
            return Visit(1, visitor, token, 20, 10, instead)

        assert store.assign_tokens([visit(b"one"), visit(b"one", visitor=b"w" * 16)]) == [b"one", b"one"]
        assert store.assign_tokens([visit(b"two", b"one"), visit(b"three", b"one")]) == [b"two", b"two"]
        assert store.assign_tokens([visit(b"four", b"one"), visit(b"five")]) == [b"two", b"two"]
        assert store.assign_tokens([visit(b"six", visitor=b"w" * 16)]) == [b"one"]

    def test_api_keys_are_added_and_revoked(self, store: Store) -> None:
        digests = [bytes([number]) * 32 for number in range(3)]
        store.add_key("b", "device", digests[0], 7)
        store.add_key("a", "admin", digests[1], 7)
        store.add_key("c", "read", digests[2], 6)
        with refused("'a' already"):
            store.add_key("a", "admin", digests[1], 7)
        store.revoke_key("a", 8)
        store.revoke_key("a", 9)
        assert store.list_keys() == [
            KeyRow("c", "read", digests[2], 6, None),
            KeyRow("a", "admin", digests[1], 7, 8),
            KeyRow("b", "device", digests[0], 7, None),
        ]
        with refused("no key has the id 'd'"):
            store.revoke_key("d", 9)

    def test_signing_keys_rotate_without_sharing_ids(self, store: Store) -> None:
        assert store.list_signing_keys() == []
        assert store.add_signing_key(b"first", first=True) == 0
        assert store.add_signing_key(b"not this", first=True) == 0
        assert [store.add_signing_key(bytes([each])) for each in range(1, 256)] == list(range(1, 256))
        assert store.list_signing_keys()[:2] == [(255, b"\xff"), (254, b"\xfe")]
        with refused("256 signing keys", "drop old ones"):
            store.add_signing_key(b"more")
        store.drop_signing_key(3)
        store.drop_signing_key(200)
        with refused("no signing key has the id 3"):
            store.drop_signing_key(3)
        assert store.add_signing_key(b"again") == 3
        assert store.list_signing_keys()[0] == (3, b"again")
        assert store.add_signing_key(b"and again") == 200
        with refused("256 signing keys", "maskedbandits key rotate --keep 20"):
            store.rotate_signing_keys(b"more", 256)
        made, dropped = store.rotate_signing_keys(b"more", 2)
        assert len(dropped) == 254
        assert made in dropped  # there is no other
        assert [secret for _, secret in store.list_signing_keys()] == [b"more", b"and again", b"again"]
        assert store.rotate_signing_keys(b"one more", 0) == (made + 1, [made, 200, 3])
        assert store.list_signing_keys() == [(made + 1, b"one more")]

    def test_metadata_is_stored_by_key(self, store: Store) -> None:
        assert store.read_meta("a") is None
        store.set_meta("a", "1")
        store.set_meta("a", "2")
        assert store.read_meta("a") == "2"
        with refused("reserved for the version"):
            store.set_meta("schema", "7")

    @pytest.mark.parametrize("odd", ODD)
    def test_texts_are_stored_unchanged(self, store: Store, odd: str) -> None:
        document = json.dumps({"text": odd}, ensure_ascii=False)
        row = store.create_experiment(odd, document, [ARMS[0]._replace(name=odd, payload=document)], 0, HOUR)
        store.change(row.id, Change("arm", HOUR, name=f"{odd}{odd}", payload=document))
        store.set_issued(odd, [(row.id, 0, 5, 1)])
        store.count_refused([(row.id, odd, 5, 1)])
        store.add_key(odd, odd, odd.encode(), 1)
        store.save_snapshot(row.id, 1, odd, odd.encode(), "d")
        store.set_meta(odd, odd)
        assert (store.list_experiments()[0].name, store.list_experiments()[0].config) == (odd, document)
        assert [(arm.name, arm.payload) for arm in store.list_arms(row.id)] == [(odd, document), (odd + odd, document)]
        detail = json.loads(store.read_events(row.id, 0, 1)[0].detail or "")
        assert detail["arms"] == [{"name": odd, "payload": {"text": odd}}]
        assert store.list_issued(row.id, 0) == [(0, odd, 5, 1)]
        assert store.sum_refused(row.id) == {odd: 1}
        assert store.list_keys() == [KeyRow(odd, odd, odd.encode(), 1, None)]
        assert store.read_snapshot(row.id, odd) == SnapshotRow(1, odd, odd.encode(), "d")
        assert store.read_meta(odd) == odd

    def test_long_texts_are_stored(self, store: Store) -> None:
        long = json.dumps("滑🦀x" * 25_000, ensure_ascii=False)
        name = "ü" * 250
        row = store.create_experiment(name, long, [ARMS[0]._replace(name=name, payload=long)], 0, HOUR)
        assert store.list_experiments() == [row]
        assert (row.name, row.config) == (name, long)
        assert store.list_arms(row.id)[0].payload == long
        token = bytes(range(256)) * 400
        assert store.assign_tokens([Visit(row.id, b"v" * 16, token, 9, 1)]) == [token]

    # Opening and closing

    def test_reopened_store_has_its_data(self, any_url: str) -> None:
        with refused("create the store first"):
            open_store(any_url)
        with open_store(any_url, create=True) as store:
            create_sample(store)
            store.append([report()])
        for create in (False, True):
            with open_store(any_url, create=create) as store:
                store.ping()
                assert store.read_heads() == {1: 2}

    def test_closed_store_is_unavailable(self, any_url: str) -> None:
        store = open_store(any_url, create=True)
        store.close()
        store.close()
        with refused("closed: open it again", kind=StoreUnavailable):
            store.read_heads()

    def test_upgrade_to_same_version_changes_nothing(self, store: Store) -> None:
        assert store.upgrade(lambda do, version: None) == (4, 4)
        assert store.read_version() == 4
