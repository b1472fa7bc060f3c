"""Readiness over all workers: who waits for whom at the start, and the reasons why a ready service is degraded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product

import pytest
from registries import until
from web import Served

from helpers.boundaries import shorten_store_waits
from maskedbandits.service.log_reader import Quarantined
from maskedbandits.service.server import readiness
from maskedbandits.service.server.readiness import has_first_started, list_reasons, wait_for_others
from maskedbandits.service.server.worker_memory import WorkerMemory, WorkerState
from maskedbandits.service.storage.sqlite import SqliteStore

pytest_plugins = ["service_fixtures"]

STATES = tuple(WorkerState)


def memory_of(*states: WorkerState) -> WorkerMemory:
    memory = WorkerMemory(0, workers=len(states))
    for worker, state in enumerate(states):
        memory.set("state", state, worker)
    return memory


async def passes(memory: WorkerMemory) -> bool:
    try:
        async with asyncio.timeout(0.0):
            await wait_for_others(memory)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("others", list(product(STATES, repeat=2)))
def test_first_worker_waits_for_all_that_start(others: tuple[WorkerState, ...]) -> None:
    """One that has died is not waited for: its successor accepts nothing before it is ready."""
    memory = memory_of(WorkerState.STARTING, *others)
    assert asyncio.run(passes(memory)) is (WorkerState.STARTING not in others)


def play(orders: Iterable[str]) -> None:
    """Play a start of two workers: each step is one that gets ready, or one that is killed and started again."""
    memory, warm, accepts = memory_of(WorkerState.STARTING, WorkerState.STARTING), [False, False], [True, False]
    for order in orders:
        what, which = order.split()
        number = 0 if which == "first" else 1
        if what == "kill":
            memory.set("state", WorkerState.ABSENT, number)
            warm[number] = accepts[number] = False
        elif number == 0 and memory.get_state(0) == WorkerState.STARTING:  # it answers already, that it is starting
            warm[0] = asyncio.run(passes(memory))
            memory.set("state", WorkerState.READY if warm[0] else WorkerState.STARTING, 0)
        else:
            warm[number] = True
            memory.set("state", WorkerState.READY, number)
            accepts[number] = has_first_started(memory)
        answering = [each for each, accepted in zip(warm, accepts, strict=True) if accepted]
        assert all(answering) or not any(answering), orders


def test_no_worker_is_ready_while_another_refuses() -> None:
    for orders in product(("step first", "step second", "kill first", "kill second"), repeat=4):
        play(orders)


def test_reasons_are_those_of_all_workers() -> None:
    memory = memory_of(WorkerState.READY, WorkerState.READY, WorkerState.ABSENT)
    assert [reason.code for reason in list_reasons(memory)] == ["worker_absent"]
    memory.set("store_lost_at", 1e9, 1)
    memory.set("quarantined", 2, 1)
    memory.set("compiling", 1, 0)
    memory.set("log_failed_at", 1e9, 0)
    found = {reason.code: reason.text for reason in list_reasons(memory)}
    assert list(found) == [
        *("store_away", "log_not_followed", "worker_absent", "experiment_quarantined", "experiment_compiling")
    ]
    assert "1 of 3" in found["worker_absent"]
    assert ": 2." in found["experiment_quarantined"]


def test_experiment_that_compiles_delays_readiness(served: Served) -> None:
    """At the start it is waited for; later it is a reason, and others decide."""
    reader = served.registry.log_reader
    reader.quarantined[1] = Quarantined("headline", None, float("inf"), has_failed=False)

    async def wait() -> bool:
        waiting = asyncio.create_task(readiness.wait_until_compiled(served.registry))
        await asyncio.sleep(3 * readiness.CHECK_EVERY_S)
        was_done = waiting.done()
        codes = [reason["code"] for reason in (await served.client.ask("GET", "/readyz")).json["reasons"]]
        assert codes == ["experiment_compiling"]
        reader.quarantined[1] = Quarantined("headline", None, float("inf"))  # it has failed: it is not waited for
        await waiting
        return was_done

    assert served.run(wait()) is False
    assert served.get("/readyz").json["reasons"][0]["code"] == "experiment_quarantined"


def test_log_that_cannot_be_followed_is_a_reason(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: SqliteStore) -> None:
        raise ArithmeticError

    shorten_store_waits(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "read_status", fail)
        served.run(until(lambda: served.registry.log_reader.trouble is not None))
        assert [reason["code"] for reason in served.get("/readyz").json["reasons"]] == ["log_not_followed"]
        assert served.post("/v1/experiments/headline/decisions").status == 200
    served.run(until(lambda: served.registry.log_reader.trouble is None))
    assert served.get("/readyz").json == {"status": "ready", "reasons": []}
    logged = capsys.readouterr().err
    assert (logged.count("following the log failed"), logged.count("following the log goes on")) == (1, 1)
