"""Functions that tests of stores run in other processes."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection

from store_samples import LATER, report, to_id

from maskedbandits.errors import UserError
from maskedbandits.service.storage import StoreUnavailable, open_store
from maskedbandits.service.storage.models import Visit

LONGEST = 600.0  # seconds that a child may take: only one that hangs takes as long
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["maskedbandits.service.storage.sqlite", "maskedbandits.service.storage.postgres"])
BATCHES, SIZE, COMMON = 30, 10, 5  # of each writer; of each batch; of a batch, shared by all writers


def processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=PROCESSES)


def decisions(who: int, batch: int) -> list[int]:
    """Return the decisions of one batch: a writer's own, one of them twice, and some shared by all writers."""
    own = [1_000_000 * (who + 1) + batch * SIZE + each for each in range(SIZE - COMMON)]
    return [*own, *(batch * COMMON + each for each in range(COMMON)), own[0]]


def write(url: str, who: int, experiments: int) -> dict[tuple[int, int], int]:
    """Append reports of several experiments at once; return the numbers that this writer was given."""
    given: dict[tuple[int, int], int] = {}
    with open_store(url) as store:
        for batch in range(BATCHES):
            turn = (
                range(experiments) if who % 2 else reversed(range(experiments))
            )  # opposite orders, which could deadlock
            rows = [(1 + each, decision) for each in turn for decision in decisions(who, batch)]
            answers = store.append([report(each, to_id(decision), tag=decision) for each, decision in rows])
            for row, answer in zip(rows, answers, strict=True):
                if answer > 0:
                    assert row not in given
                    given[row] = answer
    return given


def visit(url: str, who: int, visitors: int) -> list[bytes]:
    with open_store(url) as store:
        return [
            store.assign_tokens([Visit(1, bytes([visitor]) * 16, f"{who}".encode(), LATER, LATER - 5)])[0]
            for visitor in range(visitors)
        ]


def create(url: str) -> int:
    with open_store(url, create=True) as store:
        return store.add_signing_key(os.urandom(32), first=True)


def hold_a_lock(path: str, ready: Connection, release: Connection) -> None:
    """Lock a SQLite file until released."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        ready.send(True)
        release.recv()
        connection.execute("ROLLBACK")


def fill_the_disk(path: str) -> tuple[int, list[str], list[int]]:
    """Append until the file size limit is reached, then with higher limits; return the last number and the errors."""
    said: list[str] = []
    acknowledged = 1
    with open_store(f"sqlite:///{path}") as store:
        for limit in (200_000, 300_000, 400_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                while acknowledged < 100_000:
                    acknowledged = store.append([report() for _ in range(20)])[-1]
            except StoreUnavailable as gone:
                said.append(gone.reason)
                acknowledged = max(acknowledged, store.read_heads()[1] if gone.may_be_committed else 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return acknowledged, said, store.append([report() for _ in range(3)])


def open_as_nobody(path: str) -> str:
    """Open a store that may not be written to, and return the complaint."""
    if os.geteuid() == 0:  # root may write anywhere
        os.setuid(65534)
    try:
        open_store(f"sqlite:///{path}").close()
    except UserError as error:
        return str(error)
    return "opened"


def fork_and_use(url: str) -> list[str]:
    """Use a store in a fork of the process that opened it; then again in that process."""
    said = []
    with open_store(url) as store:
        receiving, sending = multiprocessing.Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            try:
                sending.send(str(store.read_heads()))
            except UserError as error:
                sending.send(str(error))
            store.close()  # the parent's connection stays open
            os._exit(0)
        os.waitpid(child, 0)
        said.append(receiving.recv())
        said.append(str(store.read_heads()))
    return said
