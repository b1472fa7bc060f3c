"""`maskedbandits serve` as a real process, with sockets and signals."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from postgres import Cluster
from running import Running, is_running, running, wait_for, workers_of
from web import SMALL
from wires import connected, stop_during_request

from children import LONGEST, PROGRAM, child, finished, wait_until
from commands import call, refused
from helpers.boundaries import hide_packages
from maskedbandits._util import extras
from maskedbandits.service.auth import create_key, revoke_key
from maskedbandits.service.server import main
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import open_store

pytest_plugins = ["postgres_fixtures"]

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/bandits.db"


@pytest.fixture
def shared(postgres_server: Cluster) -> str:
    """Return a storage that several workers may use."""
    return postgres_server.place()


def test_service_answers_at_once_and_stops_gently(storage: str) -> None:
    with running(storage) as service:
        assert service.ask("GET", "/healthz") == (200, {"status": "ok"})
        assert storage in service.said[0]
        assert f"curl {service.address}/readyz" in service.said[1]
        assert '"headlines"' in service.said[2]  # the name that all pages use
        assert f"{service.address}/v1/experiments/headlines/decisions" in service.said[3]
        assert f"{service.address}/dashboard" in service.said[4]
        service.wait_until_ready()
        assert service.ask("GET", "/v1/experiments") == (200, {"experiments": [], "next": None})
        code, logged = service.stop(signal.SIGINT)
    assert code == 0
    assert [line["event"] for line in logged][-2:] == ["ready", "stopped"]


HEAVY = {"numba", "numpy", "scipy"}


@pytest.mark.parametrize("module", ["worker", "supervisor"])
def test_first_response_needs_no_heavy_imports(module: str) -> None:
    """These imports are slow: a worker does them beside its event loop, and the supervisor never."""
    script = (
        f"import sys, maskedbandits.service.server.{module}; print({{'numba', 'numpy', 'scipy'}} & {{*sys.modules}})"
    )
    assert finished([sys.executable, "-c", script]).stdout == "set()\n"


def test_service_stops_while_starting(storage: str, tmp_path: Path) -> None:
    """With an empty cache compiling takes long, but a stop does not wait for it, and ends the child."""
    with running(storage, environment={"MASKEDBANDITS_CACHE": str(tmp_path / "cache")}) as service:
        wait_until(lambda: any((tmp_path / "cache").glob("compiled-*/warm.lock")), service.process)
        assert service.ask("GET", "/readyz")[0] == 503
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    assert [line["event"] for line in logged] == ["compiling for this machine", "stopped"]


def test_taken_port_is_one_line(storage: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = finished([*PROGRAM, "serve", "--storage", storage, "--port", port])
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--host", "0.0.0.0"], "there is no key"),  # noqa: S104
        (["--host", "192.0.2.1"], "is not an address of this machine"),
        (["--workers", "0"], "--workers = 0"),
        (["--workers", "2"], "workers = 2 needs PostgreSQL"),
        (["--config", "none.toml"], "none.toml: no such file"),
        (["--storage", "mysql://x"], "storage: give a URL such as"),
        (["--storage", "sqlite:////nowhere/at/all.db"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(
    flags: list[str], complaint: str, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASKEDBANDITS_STORAGE", storage)
    done = call("serve", "--port", "0", *flags)
    refused(done, complaint)
    assert done.stderr.count("\n") == 1


def test_foreign_address_and_revoked_key_are_refused(storage: str) -> None:
    with open_store(storage, create=True) as store:
        name, _ = create_key(store, "admin", None, 0)
        refused(call("serve", "--storage", storage, "--host", "192.0.2.1"), "is not an address of this machine")
        refused(call("serve", "--storage", storage, "--host", "no.such.host.invalid"), "is unknown")
        revoke_key(store, name, 0)
        refused(call("serve", "--storage", storage, "--host", "0.0.0.0", "--port", "0"), "there is no key")  # noqa: S104


@LINUX
def test_two_workers_ignore_interrupt_and_stop_gently(shared: str, tmp_path: Path) -> None:
    """They start in a folder with files named like modules that they import.

    A shell lets its background processes ignore SIGINT, because Ctrl-C is meant for the foreground.
    """
    for name in ("click", "uvicorn", "maskedbandits"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is somebody else')", encoding="utf-8")
    options = ["--storage", shared, "--port", 0, "--workers", 2]
    program = [sys.executable, "-P", *PROGRAM[1:], "serve", *options]
    with child(program, folder=tmp_path, ignoring=[signal.SIGINT]) as process:
        assert process.stdout is not None
        service = Running(process, [process.stdout.readline() for _ in range(5)])
        service.wait_until_ready()
        workers = workers_of(process.pid)
        assert len(workers) == 2
        for each in (process.pid, *workers):
            os.kill(each, signal.SIGINT)
        for _ in range(10):  # a worker that stops refuses new connections soon
            assert service.ask("GET", "/readyz")[0] == 200
            time.sleep(0.05)
        with connected(service) as wire:
            stop_during_request(service, wire)
        code, logged = service.finish()
    assert code == 0
    assert [line["event"] for line in logged].count("stopped") == 2


def test_missing_extra_names_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_packages(monkeypatch, *extras.SERVICE)
    refused(call("serve"), "pip install 'maskedbandits[service]'")
    refused(call("key", "list"), "pip install 'maskedbandits[service]'")


def test_password_is_not_printed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lines = main.format_announcement(Settings(storage="postgresql://u:secret@db/x"), listener, True)
    assert "secret" not in "\n".join(lines)
    assert "Authorization: Bearer KEY" in lines[2]


def test_service_listens_on_ipv6(storage: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with running(storage, "--host", "::1") as service:
        assert service.address.startswith("http://[::1]:")
        assert service.ask("GET", "/healthz")[0] == 200


SLOW_SNAPSHOT = """
import sys, time
from maskedbandits.service import state
from maskedbandits.service.server import main, settings, worker
state.ExperimentState.snapshot = lambda self: time.sleep(3600)
worker.CLOSE_TIMEOUT_S = 0.2
sys.exit(main.serve(settings.Settings(storage=sys.argv[1], port=0), lambda line: print(line, flush=True)))
"""


def test_slow_snapshot_does_not_block_stop(storage: str) -> None:
    with child([sys.executable, "-c", SLOW_SNAPSHOT, storage]) as process:
        assert process.stdout is not None
        service = Running(process, [process.stdout.readline() for _ in range(4)])
        service.wait_until_ready()
        small = {"name": "headlines", "epsilon": 1, "policy": "klucb-cf", "arms": [{"name": "a"}, {"name": "b"}]}
        assert service.ask("POST", "/v1/experiments", small)[0] == 201
        assert service.ask("POST", "/v1/experiments/headlines/decisions", {"n": 7})[0] == 200
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    assert logged[-1]["event"] == "stopped without a snapshot"
    with open_store(storage) as store:
        assert sum(store.sum_issued(1).values()) == 7  # which comes before it
        assert store.list_states(1) == []


# Several workers


def ask_for_decisions(service: Running, count: int) -> Counter[int]:
    """Return the statuses of decisions, each over a connection of its own, which any worker may accept."""
    path = "/v1/experiments/headlines/decisions"
    return Counter(service.ask("POST", path)[0] for _ in range(count))


def list_degradations(service: Running) -> list[str]:
    return [each["code"] for each in service.ask("GET", "/readyz")[1]["reasons"]]


@LINUX
@pytest.mark.parametrize(("workers", "starts"), [(2, 2), pytest.param(3, 8, marks=pytest.mark.slow)])
def test_ready_service_refuses_no_decision(shared: str, workers: int, starts: int) -> None:
    """All workers start at once; whichever accepts a connection after the first 200 of /readyz has to decide."""
    for start in range(starts):
        with running(shared, "--workers", workers) as service:
            service.wait_until_ready()
            assert len(workers_of(service.process.pid)) == workers
            if start == 0:
                assert service.ask("POST", "/v1/experiments", {**SMALL, "name": "headlines"})[0] == 201
            assert ask_for_decisions(service, 40) == {200: 40}
            assert service.ask("GET", "/readyz") == (200, {"status": "ready", "reasons": []})
            assert f'maskedbandits_workers{{state="ready"}} {workers}' in service.ask("GET", "/metrics")[1]
            assert service.stop(signal.SIGTERM)[0] == 0


@pytest.mark.slow
@LINUX
def test_successor_refuses_no_decision(shared: str) -> None:
    """A worker that replaces a dead one accepts nothing before it is ready; until then the service says so."""
    with running(shared, "--workers", 2) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", {**SMALL, "name": "headlines"})[0] == 201
        before = workers_of(service.process.pid)
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: list_degradations(service) == ["worker_absent"], service.process)
        while list_degradations(service):
            assert ask_for_decisions(service, 5) == {200: 5}
        assert ask_for_decisions(service, 20) == {200: 20}
        assert len({*workers_of(service.process.pid)} - {*before}) == 1


@pytest.mark.slow
@LINUX
def test_dead_worker_is_restarted(shared: str) -> None:
    with running(shared, "--workers", 2) as service:
        service.wait_until_ready()
        first, second = workers_of(service.process.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: len({*workers_of(service.process.pid)} - {first, second}) == 1, service.process)
        assert second in workers_of(service.process.pid)
        statuses = {service.ask("GET", "/readyz")[0] for _ in range(500)}
        assert statuses == {200}  # the new worker lets the other one answer until it is ready
        workers = workers_of(service.process.pid)
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    assert not any(map(is_running, workers))
    values = [line for line in logged if line["event"] == "worker ended and is started again"]
    assert [line["code"] for line in values] == [-signal.SIGKILL]
    assert "stopped" in [line["event"] for line in logged]


@pytest.mark.slow
@LINUX
def test_workers_stop_without_supervisor(shared: str) -> None:
    with running(shared, "--workers", 2) as service:
        wait_until(lambda: len(workers_of(service.process.pid)) == 2, service.process)
        service.wait_until_ready()
        workers = workers_of(service.process.pid)
        service.process.kill()
        service.process.wait(LONGEST)
        wait_for(lambda: not any(map(is_running, workers)))


@LINUX
def test_user_error_of_worker_stops_service(postgres_server: Cluster) -> None:
    """A store that is gone between the check and the workers' start is a mistake that starting again does not mend."""
    shared = postgres_server.place()
    with running(shared, "--workers", 2, environment={"PYTHONUNBUFFERED": "1"}) as service:
        postgres_server.execute(f"DROP SCHEMA {shared.rpartition('%3D')[2]} CASCADE")
        _, errors = service.process.communicate(timeout=LONGEST)
    assert service.process.returncode == 2
    assert "cannot start" in errors


def test_worker_refuses_manual_start() -> None:
    done = finished([sys.executable, "-m", "maskedbandits.service.server.worker"])
    assert done.returncode == 2
    assert "maskedbandits serve" in done.stderr


def test_closed_stderr_does_not_stop_service(storage: str) -> None:
    """Nobody reads its standard error any more: that is no reason to end."""
    with child([*PROGRAM, "serve", "--storage", storage, "--port", 0]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST) == 0
