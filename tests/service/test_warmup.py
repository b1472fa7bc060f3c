"""Machine code: listed, compiled once by a child process, and loaded before decisions."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from registries import until
from running import Running
from web import SMALL, Reply, Served

from children import LONGEST, PROGRAM, child, finished
from maskedbandits._numba import cache
from maskedbandits.policies import runtime
from maskedbandits.service.config import StoredConfig
from maskedbandits.service.server import warmup
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import Change, NewArmRow

pytest_plugins = ["service_fixtures"]

TERMS = '{"epsilon":1.0,"policy":"%s","parameters":{},"report_after":1,"expires_after":2,"floor":0,"holdout":0}'
OTHER = {**SMALL, "name": "other", "policy": "auto"}  # not compiled with the policies on the axes
COLD = """
import asyncio
from maskedbandits.service.server import warmup
names = ("uniform",)
assert warmup.find_uncached(names) == ["uniform"] and not warmup.are_loaded(names)
asyncio.run(warmup.CodeLoader().load(names))
assert not warmup.find_uncached(names) and warmup.are_loaded(names)
"""


def needed_by(policy: str, **others: object) -> warmup.Names:
    return warmup.list_code(StoredConfig.decode(json.dumps({**json.loads(TERMS % policy), **others})))


def test_code_of_experiments_and_default_is_listed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bandits.db"
    auto, ts = map(needed_by, ("auto", "ts-cf"))
    with open_store(url, create=True) as store:
        assert warmup.list_store_code(url) == auto
        for name, policy in (("a", "ts-cf"), ("b", "klucb-cf")):
            store.create_experiment(name, TERMS % policy, [NewArmRow("x")], 0, 0)
        assert warmup.list_store_code(url) == auto + ts
        for experiment in (1, 2):
            store.change(experiment, Change("status", 0, status="archived"))
        assert warmup.list_store_code(url) == auto
        grouped = TERMS.replace('"floor"', '"groups": ["young", "old"], "floor"') % "ts-cf"
        store.create_experiment("d", grouped, [NewArmRow("x")], 0, 0)
        assert warmup.list_store_code(url) == (*auto, *ts, ts[0] + ".groups")


def test_index_policies_share_their_machine_code() -> None:
    plain = needed_by("klucb-cf")
    for policy in ("ucb-cf", "ts-cf", "glr-klucb-cf"):
        assert needed_by(policy) == plain
    assert needed_by("klucb-cf", parameters={"divergence": "gaussian"}) == plain
    assert needed_by("klucb-cf", groups=["young", "old"]) == (*plain, plain[0] + ".groups")


def test_cached_code_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "is_stored", lambda name: name == "here")
    assert warmup.find_uncached(["here", "there"]) == ["there"]


@pytest.mark.slow  # tests/policies/test_runtime.py has such a child, and test_serve an empty cache
def test_a_child_fills_the_cache(tmp_path: Path) -> None:
    done = finished([PROGRAM[0], "-c", COLD], environment={"MASKEDBANDITS_CACHE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("compiled-*/uniform.ready"))


def children(monkeypatch: pytest.MonkeyPatch, script: str) -> list[subprocess.Popen[bytes]]:
    """Let a script replace the compiler; return its processes."""
    started: list[subprocess.Popen[bytes]] = []

    def start(names: Iterable[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", script]))
        return started[-1]

    monkeypatch.setattr(runtime, "start_compiler", start)
    monkeypatch.setattr(cache, "is_stored", lambda name: any(each.returncode == 0 for each in started))
    return started


def test_failed_child_is_logged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    children(monkeypatch, "raise SystemExit(3)")
    warmup.compile_in_child(["some", "more"], threading.Event())
    values = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in values] == ["compiling for this machine", warmup.NO_CHILD]
    assert (values[1]["code"], values[1]["kernels"]) == (3, 2)


def test_child_is_killed_on_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    started = children(monkeypatch, "import time; time.sleep(3600)")
    over = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(warmup.compile_in_child, ["some"], over)
        while not started:
            assert not waiting.done()
        over.set()
    assert started[0].returncode == -signal.SIGKILL


def test_code_is_compiled_once_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    started = children(monkeypatch, "import time; time.sleep(0.3)")
    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(warmup.compile_in_child, ["some"], threading.Event())
    assert len(started) == 1


# A policy that is new to this machine


class Cold:
    """A machine without machine code of a policy, before it is let have it."""

    def __init__(self, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names, self.may, self.has = {*needed_by(policy)}, threading.Event(), False
        missing, loaded = warmup.find_uncached, warmup.are_loaded
        monkeypatch.setattr(warmup, "find_uncached", lambda names: [*self.absent(names), *missing(names)])
        monkeypatch.setattr(warmup, "are_loaded", lambda names: not self.absent(names) and loaded(names))
        monkeypatch.setattr(warmup, "compile_in_child", self.compile)

    def absent(self, names: Iterable[str]) -> list[str]:
        return [] if self.has else [name for name in names if name in self.names]

    def compile(self, names: Iterable[str], over: threading.Event) -> None:
        assert self.may.wait(LONGEST)
        self.has = True


def test_only_creation_waits_for_compiler(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = Cold("auto", monkeypatch)

    async def meanwhile() -> Reply:
        creating = asyncio.create_task(served.client.ask("POST", "/v1/experiments", OTHER))
        for _ in range(20):
            assert (await served.client.ask("GET", "/healthz")).status == 200
            assert (await served.client.ask("POST", "/v1/experiments/headline/decisions")).status == 200
            await asyncio.sleep(0.01)
        assert not creating.done()
        assert [live.name for live in served.registry.experiments()] == ["headline"]
        cold.may.set()
        return await creating

    assert served.run(meanwhile()).status == 201
    assert served.post("/v1/experiments/other/decisions").status == 200


def test_experiment_waits_until_compiled(storage: str, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = Cold("ucb-cf", monkeypatch)
    with open_store(storage) as store:
        store.create_experiment("other", TERMS % "ucb-cf", [NewArmRow("x"), NewArmRow("y")], 0, 0)
    served.run(until(lambda: served.registry.is_quarantined("other")))
    reply = served.post("/v1/experiments/other/decisions")
    assert (reply.status, "retry-after" in reply.headers) == (503, True)
    assert served.post("/v1/experiments/headline/decisions").status == 200
    cold.may.set()
    served.run(until(lambda: served.registry.get("other") is not None, LONGEST))
    assert served.post("/v1/experiments/other/decisions").status == 200


def test_experiment_that_cannot_compile_is_quarantined(
    storage: str, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Cold("ucb-cf", monkeypatch)

    def fail(names: Iterable[str], over: threading.Event) -> None:
        raise MemoryError

    monkeypatch.setattr(warmup, "compile_in_child", fail)
    with open_store(storage) as store:
        store.create_experiment("other", TERMS % "ucb-cf", [NewArmRow("x"), NewArmRow("y")], 0, 0)
    values: list[str] = []

    def is_said() -> bool:
        values.extend(capsys.readouterr().err.splitlines())
        return any("experiment is set aside" in line and "MemoryError" in line for line in values)

    served.run(until(is_said))
    assert served.post("/v1/experiments/other/decisions").status == 503
    assert served.post("/v1/experiments/headline/decisions").status == 200


WATCHED = """
import sys
from maskedbandits.policies import runtime
from maskedbandits.service.server import logging, main, settings, warmup

plain = runtime.interpret
def watched(kernel):
    def call(*arguments):
        logging.event("interpreted", kernel=kernel.__name__)
        return plain(kernel)(*arguments)
    return call

runtime.interpret, warmup.DEFAULT_POLICY = watched, "ts-cf"
sys.exit(main.serve(settings.Settings(storage=sys.argv[1], port=0), lambda line: print(line, flush=True)))
"""


@pytest.mark.slow  # it compiles policies that no other test has
def test_live_code_is_never_interpreted(tmp_path: Path) -> None:
    """On a machine that has never compiled anything, with a policy that the service was not started with."""
    url = f"sqlite:///{tmp_path}/bandits.db"
    environment = {cache.VARIABLE: str(tmp_path / "cache")}
    command = [sys.executable, "-c", WATCHED, url]
    with child(command, environment=environment) as process, ThreadPoolExecutor(1) as thread:
        assert process.stdout is not None
        service = Running(process, [process.stdout.readline() for _ in range(5)])
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", {**SMALL, "policy": "ts-cf"})[0] == 201
        creating = thread.submit(service.ask, "POST", "/v1/experiments", OTHER)
        while not creating.done():
            assert service.ask("GET", "/healthz")[0] == 200
            assert service.ask("POST", "/v1/experiments/headline/decisions")[0] == 200
        assert creating.result()[0] == 201
        status, decided = service.ask("POST", "/v1/experiments/other/decisions")
        assert status == 200
        assert service.ask("POST", "/v1/reports", {"token": decided["token"], "bit": 1})[0] == 200
        code, logged = service.stop(signal.SIGTERM)
    assert code == 0
    said = [line["event"] for line in logged]
    assert said.count("compiling for this machine") == 2
    assert "interpreted" not in said


@pytest.mark.parametrize("has_stopped", [False, True])
def test_thread_waits_until_code_is_loaded_or_stopped(has_stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(warmup, "are_loaded", lambda names: {*names} <= {*loaded})
    monkeypatch.setattr(warmup, "find_uncached", lambda names: [])
    monkeypatch.setattr(warmup, "load_code", lambda names, stop: loaded.extend(names))
    loader = warmup.CodeLoader()
    if has_stopped:
        loader.stop()
    assert loader.wait(("uniform",)) is not has_stopped
    assert loaded == ([] if has_stopped else ["uniform"])
    loader.stop()
