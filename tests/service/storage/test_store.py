"""Both backends beside a naive store, reopened now and then."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from older_stores import build_older, interrupt_upgrade, rewrite_nothing
from postgres import Cluster
from store_samples import to_id

from maskedbandits.errors import UserError
from maskedbandits.service.event_columns import NUMBERS, EventColumns
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.layouts import Layout
from maskedbandits.service.storage.models import Change, NewArmRow, NewReport, Visit
from naive.store import NaiveStore
from trials import examples

pytest_plugins = ["store_fixtures"]

NAMES = st.sampled_from(["a", "b", "c", "ü 滑"])
PAYLOADS = st.sampled_from(["null", '{"a": [1, "ü"]}'])
CONFIGS = st.sampled_from(["{}", '{"epsilon": 1.5}', '{"floor": 0.1, "ü": "滑"}'])
EXPERIMENTS = st.integers(1, 3)
PLACES = st.integers(0, 4)
MINUTES = st.integers(1, 40)
DAYS = st.sampled_from([0, 1440, 1500, 2000])
REPORTS = st.builds(
    NewReport,
    experiment=st.integers(1, 3),
    arm=st.integers(0, 2),
    bit=st.integers(0, 1),
    epsilon=st.sampled_from([0, 1_000_000, 2**32 - 1]),
    probability=st.sampled_from([1, 65_536]),
    flags=st.integers(0, 7),
    decision=st.integers(0, 12).map(to_id),
    expires=MINUTES,
    hour=st.integers(0, 3),
    config=st.none() | st.sampled_from([0, 65_535]),
)
ANSWERS = st.builds(
    NewReport._replace,
    REPORTS,
    arm=st.none(),
    probability=st.none(),
    bit=st.integers(0, 511),
    question=st.binary(min_size=3),
)
ISSUED = st.tuples(EXPERIMENTS, st.integers(0, 1), st.builds(int.__add__, MINUTES, DAYS), st.integers(0, 9))
VISITS = st.builds(
    Visit,
    experiment=st.integers(1, 2),
    visitor=st.integers(0, 3).map(lambda number: bytes([number]) * 16),
    token=st.sampled_from([b"\0", b"\0\0", b"a", b"b", b"abc"]),
    expires=MINUTES,
    now=MINUTES,
    instead=st.sampled_from([b"", b"", b"\0", b"\0\0"]),
)


def to_lists(events: EventColumns) -> list[Any]:
    return [list(column) if name in NUMBERS else column for name, column in events._asdict().items()]


class Side(RuleBasedStateMachine):
    """A store and the obvious one, side by side."""

    place: ClassVar[Callable[[], str]]

    def __init__(self) -> None:
        super().__init__()
        self.url = type(self).place()
        self.naive = NaiveStore()

    @initialize(is_older=st.booleans())
    def open(self, is_older: bool) -> None:
        if is_older:
            build_older(self.url, 3, empty=True)
        self.store: Store = open_store(self.url, create=True)
        self.layout = Layout.SHARED if is_older else Layout.CURRENT

    @precondition(lambda self: self.layout is Layout.SHARED)
    @rule()
    def begin_upgrade(self) -> None:
        """Another process begins an upgrade, and is killed before it moves any ids."""
        with open_store(self.url) as other:
            interrupt_upgrade(other, "_move_ids")
        self.layout = Layout.MOVING

    @precondition(lambda self: self.layout is not Layout.CURRENT)
    @rule()
    def upgrade(self) -> None:
        with open_store(self.url) as other:
            assert other.upgrade(rewrite_nothing) == (3, 4)
        self.layout = Layout.CURRENT

    def done(self, work: Callable[[], Any]) -> bool:
        """Tell whether something was done, and not refused."""
        try:
            work()
        except UserError:
            return False
        return True

    def changed(self, experiment: int, change: Change) -> bool:
        return self.done(lambda: self.store.change(experiment, change))

    @rule(name=NAMES, config=CONFIGS, payload=PAYLOADS, default=st.integers(0, 1), hour=st.integers(0, 9))
    def create(self, name: str, config: str, payload: str, default: int, hour: int) -> None:
        arms = [("one", payload), ("two", "null")]
        stored = [NewArmRow(*arm) for arm in arms]
        made = self.done(lambda: self.store.create_experiment(name, config, stored, default, hour))
        assert made == (self.naive.create(name, config, arms, default, hour) is not None)

    @rule(experiment=EXPERIMENTS, name=NAMES, payload=PAYLOADS)
    def add_arm(self, experiment: int, name: str, payload: str) -> None:
        made = self.changed(experiment, Change("arm", 5, name=name, payload=payload))
        assert made == self.naive.add_arm(experiment, name, payload, 5)

    @rule(experiment=EXPERIMENTS, place=PLACES)
    def retire(self, experiment: int, place: int) -> None:
        made = self.changed(experiment, Change("retire", 6, place=place))
        assert made == self.naive.retire(experiment, place, 6)

    @rule(experiment=EXPERIMENTS, config=CONFIGS, default=st.none() | PLACES)
    def configure(self, experiment: int, config: str, default: int | None) -> None:
        made = self.changed(experiment, Change("config", 7, config=config, default_arm=default))
        assert made == self.naive.configure(experiment, config, default, 7)

    @rule(experiment=EXPERIMENTS, status=st.sampled_from(["running", "running", "paused", "archived"]))
    def set_status(self, experiment: int, status: str) -> None:
        made = self.changed(experiment, Change("status", 8, status=status))
        assert made == self.naive.set_status(experiment, status, 8)

    @rule(reports=st.lists(REPORTS | ANSWERS, max_size=8))
    def append(self, reports: list[NewReport]) -> None:
        assert self.store.append(reports) == [self.naive.append(report._asdict()) for report in reports]

    @rule(minute=MINUTES, days=DAYS)
    def forget(self, minute: int, days: int) -> None:
        self.store.forget(minute + days)
        self.naive.forget(minute + days)

    @rule(visits=st.lists(VISITS, max_size=4))
    def visit(self, visits: list[Visit]) -> None:
        assert self.store.assign_tokens(visits) == [self.naive.visit(*visit) for visit in visits]

    @rule(
        process=st.sampled_from("pq"),
        rows=st.lists(
            st.tuples(EXPERIMENTS, st.integers(0, 1), st.builds(int.__add__, MINUTES, DAYS), st.integers(0, 9))
        ),
    )
    def issue(self, process: str, rows: list[tuple[int, int, int, int]]) -> None:
        self.store.set_issued(process, rows)
        for row in rows:
            self.naive.set_issued(process, *row)

    @rule(rows=st.lists(st.tuples(st.integers(0, 2), NAMES, MINUTES, st.integers(0, 9)), max_size=4))
    def refuse(self, rows: list[tuple[int, str, int, int]]) -> None:
        self.store.count_refused(rows)
        for experiment, reason, _, count in rows:
            if experiment == 0 or experiment in self.naive.experiments:
                self.naive.refused[experiment, reason] += count

    @rule(seq=st.integers(1, 9), kernel=st.sampled_from("kl"), body=st.binary(max_size=3))
    def snapshot(self, seq: int, kernel: str, body: bytes) -> None:
        self.store.save_snapshot(1, seq, kernel, body, body.hex())
        self.naive.save_snapshot(1, seq, kernel, body)

    @rule(secret=st.binary(min_size=1, max_size=3))
    def sign(self, secret: bytes) -> None:
        assert self.store.add_signing_key(secret) == self.naive.add_signing_key(secret)

    @precondition(lambda self: self.naive.signing)
    @rule(place=st.integers(0, 9))
    def drop(self, place: int) -> None:
        key, _ = self.naive.signing.pop(place % len(self.naive.signing))
        self.store.drop_signing_key(key)

    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = open_store(self.url)

    @rule()
    def look(self) -> None:
        self.experiments_are_the_same()
        self.logs_are_the_same()
        self.the_rest_is_the_same()

    def experiments_are_the_same(self) -> None:
        rows = self.store.list_experiments()
        expected = list(self.naive.experiments.values())
        assert (
            self.store.read_heads()
            == {row.id: row.seq for row in rows}
            == {each.id: len(each.log) for each in expected}
        )
        for row, each in zip(rows, expected, strict=True):
            assert row[1:5] == (each.name, each.status, each.config, each.version)
            assert row[6:] == (each.default, each.created, each.forgotten, 1)
            assert [list(arm[1:]) for arm in self.store.list_arms(row.id)] == each.arms

    def logs_are_the_same(self) -> None:
        for each in self.naive.experiments.values():
            events = self.store.read_events(each.id, 0, 1000)
            for seq, (event, expected) in enumerate(zip(events, each.log, strict=True), 1):
                assert event.seq == seq
                for name in set(event._fields) - {"seq", "detail"}:
                    assert getattr(event, name) == expected.get(name)
                assert (event.detail and json.loads(event.detail)) == expected["detail"]
            assert self.store.read_events(each.id, 2, 2) == events[2:4]
            for after, limit in ((0, 1000), (1, len(events)), (2, 2)):
                expected_columns = EventColumns.from_rows(events[after : after + limit])
                assert to_lists(self.store.read_columns(each.id, after, limit)) == to_lists(expected_columns)
            found = {(arm, minute): count for arm, minute, count in self.store.count_reports(each.id, 20, 5)}
            assert found == self.naive.reported(each.id, 20, 5)
            assert Counter(self.store.read_questions(each.id, 20, 5)) == self.naive.read_questions(each.id, 20, 5)

    def the_rest_is_the_same(self) -> None:
        for each in self.naive.experiments:
            assert self.store.sum_issued(each) == self.naive.issued_total(each)
            issued = {
                (each, arm, process, minute): count for arm, process, minute, count in self.store.list_issued(each, 20)
            }
            assert issued == {key: count for key, count in self.naive.issued.items() if key[0] == each and key[3] >= 20}
        for each in range(3):
            counted = {key[1]: count for key, count in self.naive.refused.items() if key[0] == each}
            assert self.store.sum_refused(each) == counted
        for kernel in "kl":
            kept = self.naive.snapshots.get((1, kernel), {})
            assert self.store.list_snapshots(1, kernel) == [
                (seq, kept[seq].hex()) for seq in sorted(kept, reverse=True)
            ]
            newest = self.store.read_snapshot(1, kernel)
            assert (newest and newest.body) == (kept[max(kept)] if kept else None)
        assert self.store.list_signing_keys() == self.naive.signing

    def teardown(self) -> None:
        try:
            self.look()
        finally:
            self.store.close()


def test_sqlite_matches_naive_store() -> None:
    with tempfile.TemporaryDirectory() as folder:
        count = iter(range(10**6))
        machine = type("Sqlite", (Side,), {"place": lambda: f"sqlite:///{folder}/{next(count)}.db?durable=no"})
        run_state_machine_as_test(machine, settings=examples(40))


def test_postgresql_matches_naive_store(postgres_server: Cluster) -> None:
    def place() -> str:
        return f"{postgres_server.place()}%20-csynchronous_commit%3Doff&durable=no"

    machine = type("PostgreSQL", (Side,), {"place": place})
    run_state_machine_as_test(machine, settings=examples(12))
