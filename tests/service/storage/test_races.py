"""Many writers at once, in threads and in processes, and a reader that follows the log."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest
import store_children as children
from store_samples import LATER, create_sample, report

from maskedbandits.errors import UserError
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import ArmRow, Change, EventRow, ExperimentRow, Visit

pytest_plugins = ["store_fixtures"]

WRITERS, EXPERIMENTS = 4, 2
POOLS: dict[str, Callable[[int], Executor]] = {"threads": ThreadPoolExecutor, "processes": children.processes}


def follow(store: Store, done: Callable[[], bool]) -> Iterator[EventRow]:
    """Follow a log as the service does, until all is written and read."""
    after = 1
    while True:
        over = done()
        events = store.read_events(1, after, 7)
        yield from events
        after = events[-1].seq if events else after
        if over and not events:
            return


@pytest.mark.parametrize("pool", POOLS)
def test_concurrent_appends_leave_no_gaps(any_url: str, any_store: Store, pool: str) -> None:
    for each in range(EXPERIMENTS):
        create_sample(any_store, f"experiment {each}")
    with POOLS[pool](WRITERS) as writers:
        written = [writers.submit(children.write, any_url, who, EXPERIMENTS) for who in range(WRITERS)]
        read = list(follow(any_store, lambda: all(each.done() for each in written)))
        given = [each.result(children.LONGEST) for each in written]
    batches = [children.decisions(who, batch) for who in range(WRITERS) for batch in range(children.BATCHES)]
    unique = {decision for batch in batches for decision in batch}
    for experiment in range(1, EXPERIMENTS + 1):
        log = any_store.read_events(experiment, 1, 100_000)
        assert [event.seq for event in log] == list(range(2, len(unique) + 2))
        assert {event.epsilon for event in log} == unique
        given_numbers = [(row[1], seq) for each in given for row, seq in each.items() if row[0] == experiment]
        assert sorted(given_numbers) == sorted((event.epsilon, event.seq) for event in log)  # to one writer each
        assert any_store.read_heads()[experiment] == len(unique) + 1
    assert read == any_store.read_events(1, 1, 100_000)


@pytest.mark.parametrize("pool", POOLS)
def test_racing_visits_get_one_token(any_url: str, any_store: Store, pool: str) -> None:
    create_sample(any_store)
    with POOLS[pool](WRITERS) as writers:
        jobs = [writers.submit(children.visit, any_url, who, 20) for who in range(WRITERS)]
        tokens = [each.result(children.LONGEST) for each in jobs]
    assert tokens == [tokens[0]] * WRITERS


def test_opposite_orders_of_visits_do_not_deadlock(any_url: str, any_store: Store) -> None:
    def visits(who: int) -> list[list[bytes]]:
        with open_store(any_url) as store:
            kept = []
            for turn in range(20):
                crowd = [Visit(1, bytes([turn, each]) * 8, b"%d" % who, LATER, 1) for each in range(10)]
                kept.append(store.assign_tokens(crowd if who else crowd[::-1])[:: 1 if who else -1])
        return kept

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(visits, range(2))
    assert one == two


def test_threads_share_a_store(any_store: Store) -> None:
    create_sample(any_store)

    def work(who: int) -> None:
        for _ in range(10):
            assert min(any_store.append([report() for _ in range(3)])) > 0
            any_store.read_heads()
            any_store.change(1, Change("status", who, status="paused"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    log = any_store.read_events(1, 0, 1000)
    assert [event.seq for event in log] == list(range(1, 322))
    assert Counter(event.kind for event in log) == {"create": 1, "report": 240, "status": 80}
    assert any_store.list_experiments()[0].config_version == 81


def test_racing_changes_are_checked_in_turn(any_url: str, any_store: Store) -> None:
    create_sample(any_store)

    def at_most_five(_: ExperimentRow, arms: Sequence[ArmRow]) -> None:
        if len(arms) > 5:
            raise UserError("too many")

    def add(who: int) -> bool:
        with open_store(any_url) as store:
            any_store.change(1, Change("config", 1, config=f'{{"member {who}": {who}}}'))
            try:
                store.change(1, Change("arm", 1, name=f"arm {who}"), at_most_five)
            except UserError:
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(add, range(6))) == 2
    assert len(any_store.list_arms(1)) == 5
    merged = json.loads(any_store.list_experiments()[0].config)
    assert merged == {"epsilon": 1.0} | {f"member {who}": who for who in range(6)}


def test_changes_and_forgetting_run_beside_reports(any_url: str, any_store: Store) -> None:
    create_sample(any_store)
    stop = threading.Event()

    def forget() -> int:
        minute = 0
        with open_store(any_url) as store:
            while not stop.is_set():
                minute += 1
                store.forget(minute)
                store.set_issued("p", [(1, 0, minute + 2000, minute)])
        return minute

    with ThreadPoolExecutor(1) as pool:
        forgetting = pool.submit(forget)
        answers = []
        try:
            for minute in range(60):
                answers += any_store.append([report(expires=minute * 5 + each) for each in range(10)])
                any_store.change(1, Change("arm", 1, name=f"arm {minute}"))
        finally:
            stop.set()
        minutes = forgetting.result(children.LONGEST)
    taken = [answer for answer in answers if answer > 0]
    assert set(answers) - set(taken) <= {-1}
    log = any_store.read_events(1, 0, 10_000)
    assert [event.seq for event in log] == list(range(1, 62 + len(taken)))
    assert all(event.expires is None or event.expires > minutes for event in log)
    assert sum(any_store.sum_issued(1).values()) == sum(range(1, minutes + 1))


def test_racing_creators_share_one_store(any_url: str) -> None:
    with children.processes(WRITERS) as pool:
        jobs = [pool.submit(children.create, any_url) for _ in range(WRITERS)]
        made = [each.result(children.LONGEST) for each in jobs]
    assert made == [0] * WRITERS
    with open_store(any_url) as store:
        assert len(store.list_signing_keys()) == 1


def test_fork_cannot_use_parents_store(any_url: str, any_store: Store, tmp_path: Path) -> None:
    create_sample(any_store)
    with children.processes(1) as pool:
        said = pool.submit(children.fork_and_use, any_url).result(children.LONGEST)
    assert "opened by another process" in said[0]
    assert said[1] == "{1: 1}"
