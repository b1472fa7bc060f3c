"""A service started before its database: it listens, logs that once, and goes on when the database is up."""

from __future__ import annotations

import signal
import socket
import urllib.error
from collections.abc import Iterator

import pytest
from postgres import Cluster, cluster
from running import OPENER, Running, running

from children import LONGEST
from commands import call, refused

HEADLINES = {"name": "headlines", "epsilon": 1, "policy": "klucb-cf", "arms": [{"name": "a"}, {"name": "b"}]}


@pytest.fixture
def stopped() -> Iterator[Cluster]:
    with cluster() as server:
        server.stop()
        yield server


def is_deferred(service: Running) -> bool:
    """Tell whether the service is not ready and sends Retry-After."""
    try:
        OPENER.open(f"{service.address}/readyz", timeout=60).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code == 503 and int(refusal.headers["retry-after"]) >= 1
    return False


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_service_waits_for_late_database(stopped: Cluster, workers: int) -> None:
    with running(stopped.url(), "--workers", workers) as service:
        assert is_deferred(service)
        assert service.ask("GET", "/healthz")[0] == 200
        assert service.ask("POST", "/v1/experiments", HEADLINES)[0] == 503
        stopped.start()
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", HEADLINES)[0] == 201
        assert service.ask("POST", "/v1/experiments/headlines/decisions", {})[0] == 200
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    events = [line["event"] for line in logged]
    assert [each for each in events if each.startswith("store is")] == ["store is gone", "store is back"]
    assert 1 <= events.count("ready") <= workers  # the other may still be starting when it is stopped


def test_waiting_service_can_be_stopped(stopped: Cluster) -> None:
    with running(stopped.url()) as service:
        assert is_deferred(service)
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    assert [line["event"] for line in logged] == ["store is gone", "stopped"]


def test_mistake_is_reported_once_database_answers(stopped: Cluster) -> None:
    """A public service without keys lets nobody in, and ends as soon as it can read the store."""
    with running(stopped.url(), "--host", "0.0.0.0") as service:  # noqa: S104
        service.address = service.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert is_deferred(service)
        assert service.ask("GET", "/v1/experiments")[0] == 503
        stopped.start()
        _, errors = service.process.communicate(timeout=LONGEST)
    assert service.process.returncode == 2
    assert "there is no key: run maskedbandits key create" in errors


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/x?connect_timeout={int(LONGEST)}&sslmode=disable"


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_silent_database_does_not_block_start(silent: str, workers: int) -> None:
    """The service listens, replies, lets nobody in, and can be stopped."""
    with running(silent, "--workers", workers, "--host", "0.0.0.0") as service:  # noqa: S104
        service.address = service.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert service.ask("GET", "/healthz")[0] == 200
        assert is_deferred(service)
        assert service.ask("POST", "/v1/experiments", HEADLINES)[0] == 503
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    first, *rest = [line["event"] for line in logged]
    assert first == "store is gone"
    assert rest in (
        ["stopped"] * ended for ended in range(1, workers + 1)
    )  # one that is still being started says nothing


@pytest.mark.parametrize(
    ("storage", "complaint"),
    [
        ("postgresql://u@[db/x", "PostgreSQL cannot read this URL"),
        ("postgresql://u@db/x?conect_timeout=1", "PostgreSQL cannot read this URL"),
        ("postgres:", "storage: give a URL such as"),
    ],
)
def test_wrong_url_fails_at_once(storage: str, complaint: str) -> None:
    refused(call("serve", "--storage", storage, "--port", "0"), complaint)


def test_foreign_tables_fail_at_once() -> None:
    with cluster() as server:
        server.execute("CREATE TABLE meta (key text, colour text)")
        refused(call("serve", "--storage", server.url(), "--port", "0"), "tables of another program")
