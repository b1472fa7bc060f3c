"""The store in PostgreSQL: servers that stop, connections that end, and settings that lose data."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
import store_children as children
from postgres import Cluster, cluster
from store_samples import LATER, create_sample, refused, report

from helpers.boundaries import shorten_store_waits
from helpers.private import connection_of, query_as_append
from maskedbandits.service.storage import Store, StoreUnavailable, Unreachable, open_store
from maskedbandits.service.storage.models import Change, NewReport, Visit

pytest_plugins = ["store_fixtures"]


@pytest.fixture
def place(postgres_server: Cluster) -> str:
    return postgres_server.place()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Cluster]:
    with cluster() as server:
        yield server


@pytest.fixture
def server(own_server: Cluster) -> Iterator[Cluster]:
    """A server that the test may stop and change."""
    yield own_server
    own_server.kill()
    own_server.start()
    own_server.execute("ALTER SYSTEM RESET ALL")
    own_server.execute("SELECT pg_reload_conf()")


def backend(store: Store) -> int:
    return int(connection_of(store).info.backend_pid)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + children.LONGEST
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting_for(server: Cluster, process: int) -> str:
    found = server.execute("SELECT wait_event FROM pg_stat_activity WHERE pid = %s", process)
    return str(found[0][0]) if found else ""


def start(work: Callable[[], object]) -> Future[object]:
    """Start work in a thread, and do not wait for it if the test fails."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@contextmanager
def hold_lock(url: str) -> Iterator[None]:
    """Hold the lock that every append to the first experiment needs."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1 FROM experiment WHERE id = 1 FOR UPDATE")
        yield
        connection.rollback()


# Servers that stop


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_store_reconnects_to_restarted_server(server: Cluster, how: str) -> None:
    with open_store(server.place(), create=True) as store:
        create_sample(store)
        assert store.append([report()]) == [2]
        getattr(server, how)()
        for work in (store.read_heads, store.ping, lambda: store.append([report()]), lambda: store.forget(1)):
            with refused("postgresql://", kind=StoreUnavailable):
                work()
        server.start()
        assert store.read_heads() == {1: 2}  # acknowledged reports are there
        assert store.append([report()]) == [3]
        if how == "stop":
            with refused(kind=StoreUnavailable):
                server.stop()
                store.append([report()])
            server.start()
            assert store.append([report()]) == [4]


def test_missing_server_is_unreachable_until_it_starts(server: Cluster) -> None:
    place = server.place()
    server.stop()
    with refused("postgresql://", kind=Unreachable):
        open_store(place, create=True)
    server.start()
    open_store(place, create=True).close()


def test_lost_tables_are_reported(place: str, postgres_server: Cluster) -> None:
    with open_store(place, create=True) as store:
        create_sample(store)
        schema = place.rpartition("%3D")[2]
        postgres_server.execute(f"ALTER SCHEMA {schema} RENAME TO away")
        with refused("its tables are missing", kind=StoreUnavailable):
            store.append([report()])
        postgres_server.execute("SELECT pg_terminate_backend(%s, 60000)", backend(store))
        for _ in range(2):
            with refused("postgresql://", kind=StoreUnavailable):
                store.read_heads()
        postgres_server.execute(f"ALTER SCHEMA away RENAME TO {schema}")
        assert store.read_heads() == {1: 1}


# Connections that end


def test_connection_lost_before_commit_writes_nothing(place: str, postgres_server: Cluster) -> None:
    with open_store(place, create=True) as store:
        create_sample(store)
        process, one = backend(store), report()
        with hold_lock(place):
            answer = start(lambda: store.append([one]))
            wait_until(lambda: waiting_for(postgres_server, process) in ("transactionid", "tuple"))
            postgres_server.execute("SELECT pg_terminate_backend(%s, 60000)", process)
            with pytest.raises(StoreUnavailable):
                answer.result(children.LONGEST)
        assert store.append([one]) == [2]
        assert backend(store) != process


def test_change_lost_before_commit_is_known_as_failed(place: str, postgres_server: Cluster) -> None:
    with open_store(place, create=True) as store:
        create_sample(store)
        process = backend(store)
        with hold_lock(place):
            answer = start(lambda: store.change(1, Change("status", 1, status="paused")))
            wait_until(lambda: waiting_for(postgres_server, process) in ("transactionid", "tuple"))
            postgres_server.execute("SELECT pg_terminate_backend(%s, 60000)", process)
            with pytest.raises(StoreUnavailable) as caught:
                answer.result(children.LONGEST)
        assert not caught.value.may_be_committed
        assert store.list_experiments()[0].status == "running"


def test_connection_lost_in_commit_may_be_committed(server: Cluster) -> None:
    with open_store(server.place(), create=True) as store:
        create_sample(store)
        one, two, process = report(), report(), backend(store)
        server.set("synchronous_standby_names", "nobody")  # a commit waits for a standby that never comes
        answer = start(lambda: store.append([one, two, one]))
        wait_until(lambda: waiting_for(server, process) == "SyncRep")
        server.execute("SELECT pg_terminate_backend(%s, 60000)", process)
        with pytest.raises(StoreUnavailable) as caught:
            answer.result(children.LONGEST)
        assert caught.value.may_be_committed
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
        three = report()
        assert store.append([one, three, two]) == [0, 4, 0]  # it had been committed
        assert [event.seq for event in store.read_events(1, 0, 9)] == [1, 2, 3, 4]


def test_change_lost_in_commit_may_be_committed(server: Cluster) -> None:
    with open_store(server.place(), create=True) as store:
        create_sample(store)
        process = backend(store)
        server.set("synchronous_standby_names", "nobody")
        answer = start(lambda: store.change(1, Change("status", 1, status="paused")))
        wait_until(lambda: waiting_for(server, process) == "SyncRep")
        server.execute("SELECT pg_terminate_backend(%s, 60000)", process)
        with pytest.raises(StoreUnavailable) as caught:
            answer.result(children.LONGEST)
        assert caught.value.may_be_committed
        assert store.list_experiments()[0].status == "paused"


def test_killed_server_keeps_acknowledged_reports(server: Cluster) -> None:
    acknowledged: list[int] = []
    tags = iter(range(1, 10**6))
    stop = threading.Event()

    def work() -> None:
        waiting: list[NewReport] = []
        while not stop.is_set():
            waiting = waiting or [report(tag=next(tags)) for _ in range(5)]
            try:
                store.append(waiting)
            except StoreUnavailable:
                time.sleep(0.01)
                continue
            acknowledged.extend(each.epsilon for each in waiting)
            waiting = []

    with open_store(server.place(), create=True) as store:
        create_sample(store)
        working = start(work)
        for turn in range(4):
            wait_until(lambda turn=turn: len(acknowledged) > 100 * turn or working.done())  # type: ignore[misc]
            server.kill()
            server.start()
        stop.set()
        working.result(children.LONGEST)
        log = store.read_events(1, 1, 10**6)
    tagged = [event.epsilon for event in log]
    assert [event.seq for event in log] == list(range(2, len(log) + 2))
    assert len(set(tagged)) == len(tagged)  # none is counted twice
    assert set(acknowledged) <= set(tagged)
    assert len(set(tagged) - set(acknowledged)) <= 5  # at most those of the last batch


# Locks


def test_lock_timeout_is_unavailable(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_store_waits(monkeypatch)
    with open_store(place, create=True) as store:
        create_sample(store)
        process = backend(store)
        with hold_lock(place):
            for work in (
                lambda: store.append([report()]),
                lambda: store.change(1, Change("status", 1, status="paused")),
                lambda: store.forget(1),
            ):
                with refused("another process has been writing", kind=StoreUnavailable):
                    work()
            assert store.read_heads() == {1: 1}  # reading goes on
        assert store.append([report()]) == [2]
        assert backend(store) == process  # the connection was not to blame


# Settings


def test_server_without_fsync_is_rejected() -> None:
    with cluster(fsync="off") as server:
        place = server.place()
        with refused("fsync = off", "add durable=no to the URL"):
            open_store(place, create=True)
        open_store(f"{place}&durable=no", create=True).close()


def read_setting(store: Store, setting: str) -> str:
    """Return a setting during an append."""
    question = f"SELECT current_setting('{setting}')".encode()
    return str(query_as_append(store, question))


def test_commits_are_durable_unless_url_says_no(place: str) -> None:
    for options, level in [("", "on"), ("off", "on"), ("off&durable=no", "off"), ("remote_apply", "remote_apply")]:
        url = f"{place}%20-csynchronous_commit%3D{options}" if options else place
        with open_store(url, create=True) as store:
            assert read_setting(store, "synchronous_commit") == level
            assert read_setting(store, "fsync") == "on"


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_stricter_default_isolation_is_harmless(place: str, isolation: str) -> None:
    url = f"{place}%20-cdefault_transaction_isolation%3D{isolation.replace(' ', '%5C%20')}"
    with open_store(url, create=True) as store:
        create_sample(store)
        with ThreadPoolExecutor(3) as pool:
            for each in [pool.submit(children.write, url, who, 1) for who in range(3)]:
                each.result(children.LONGEST)
        log = store.read_events(1, 0, 10_000)
        assert [event.seq for event in log] == list(range(1, len(log) + 1))


def test_transaction_settings_are_local(place: str) -> None:
    with open_store(place, create=True) as store:
        create_sample(store)
        store.append([report()])
        connection = connection_of(store)
        for setting, value in [("enable_seqscan", "on"), ("lock_timeout", "0"), ("plan_cache_mode", "auto")]:
            assert connection.execute(f"SHOW {setting}").fetchone() == (value,)


def test_grown_log_is_not_scanned(place: str) -> None:
    with open_store(place, create=True) as store:
        create_sample(store)
        connection = connection_of(store)
        connection.execute("VACUUM ANALYZE")  # now the server knows that there is next to nothing

        def work() -> int:
            """Return the number of full scans ever."""
            for turn in range(10):
                store.append([report() for _ in range(100)])
                store.assign_tokens([Visit(1, os.urandom(16), b"token", LATER, 1) for _ in range(10)])
                store.read_events(1, 100 * turn, 10)
            connection.execute("SELECT pg_stat_force_next_flush()")
            return int(connection.execute(_FULL_READS).fetchone()[0])

        assert work() == work()


_FULL_READS = (
    "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = current_schema() "
    "AND relname IN ('event', 'report_id', 'visitor')"
)


# Databases that are not stores


def test_other_encoding_is_rejected(postgres_server: Cluster) -> None:
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with refused("its encoding is LATIN1: create it with UTF8"):
        open_store(postgres_server.url("latin"), create=True)


@pytest.mark.parametrize(
    "table", ["meta (a int)", "meta (key text, value text)", "meta (key int, value int)", "event (seq int)"]
)
def test_tables_of_other_programs_are_left_alone(place: str, postgres_server: Cluster, table: str) -> None:
    schema = place.rpartition("%3D")[2]
    postgres_server.execute(f"CREATE TABLE {schema}.{table}")
    with refused("postgresql://", "another program" if table.startswith("meta") else "no tables of maskedbandits"):
        open_store(place, create=True)
    assert postgres_server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", schema) == [(1,)]


def test_user_without_rights_is_rejected(postgres_server: Cluster) -> None:
    postgres_server.execute("CREATE ROLE poor LOGIN")
    with refused("permission denied", "the right to create tables"):
        open_store(postgres_server.url().replace("postgres@", "poor@"), create=True)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2%zz@127.0.0.1/db",
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2@127.0.0.1:99999/db",
        "postgres://user:hunter2@127.0.0.1/db?nonsense=1",
        "postgresql://user@127.0.0.1:1/db?password=hunter2&durable=no",
        "postgresql://user:hunter2@/db?host=/nowhere",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with refused() as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_older_server_version_works() -> None:
    with cluster(16) as server, open_store(server.place(), create=True) as store:
        create_sample(store)
        one = report()
        assert store.append([one, report(), one]) == [2, 3, 0]
        store.forget(1)
        assert store.read_heads() == {1: 3}
