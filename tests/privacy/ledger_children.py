"""Child processes of the ledger's tests that crash, fill the disk, or take turns."""

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import pytest
from ledgers import Clock

from helpers.boundaries import set_ledger_clock
from helpers.private import connection_of
from maskedbandits.privacy.ledger import Ledger, LedgerError, Overdraft

PROCESSES = multiprocessing.get_context("forkserver")
# So that not every child imports them; modules of tests are not found this early.
IMPORTS = ["http.server", "maskedbandits.device.device", "maskedbandits.privacy.ledger", "pytest"]
PROCESSES.set_forkserver_preload(IMPORTS)


def call(work: Callable[..., Any], *arguments: Any) -> tuple[Any, int | None]:
    """Run work(send, ...) in a process; return the last message it sent, and its exit code."""
    return finish(start(work, *arguments))


def start(work: Callable[..., Any], *arguments: Any) -> tuple[Any, Connection]:
    receiving, sending = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(sending, *arguments))
    process.start()
    sending.close()
    return process, receiving


def finish(started: tuple[Any, Connection]) -> tuple[Any, int | None]:
    process, receiving = started
    sent = None
    with contextlib.suppress(EOFError):
        while True:
            sent = receiving.recv()
    process.join(120)
    code = process.exitcode
    process.kill()
    return sent, code


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_statement(ledger: Ledger, number: int) -> None:
    """Kill this process right before the n-th SQL statement from now."""
    seen = [0]

    def traced(statement: str) -> None:
        seen[0] += 1
        if seen[0] == number:
            die()

    connection_of(ledger).set_trace_callback(traced)


def crash_at_statement(send: Connection, path: str, number: int) -> None:
    """Reserve and report, killed before an SQL statement; send the report if it gets there."""
    ledger = Ledger(1, path)
    die_before_statement(ledger, number)
    ledger.reserve("a", 0.5)
    send.send("reserved")
    send.send(ledger.report("a", 1).bit)


def crash_when_renewed(send: Connection, path: str, number: int) -> None:
    """Spend the cap, and again after its renewal, killed before an SQL statement."""
    clock = Clock()
    set_ledger_clock(pytest.MonkeyPatch(), clock)  # as long as the process lives
    ledger = Ledger(1, path, per="1 second")
    ledger.reserve("a", 1)
    clock.at += 10
    die_before_statement(ledger, number)
    ledger.reserve("b", 1)
    send.send("renewed")


def crash_after_draw(send: Connection, path: str) -> None:
    """Report, killed after the commit of the draw and before the caller has it."""
    ledger, seen = Ledger(1, path), [""]
    ledger.reserve("a", 0)
    connection_of(ledger).set_trace_callback(lambda statement: seen.__setitem__(0, statement))

    def profiled(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and argument.__name__ == "execute" and seen[0] == "COMMIT":
            die()

    sys.setprofile(profiled)
    ledger.report("a", 1)
    send.send("returned")


def crash_after_report(send: Connection, path: str) -> None:
    """Report, killed before the bits are sent anywhere but to the test."""
    ledger = Ledger(1, path)
    for decision in range(64):
        ledger.reserve(decision, 0)
    send.send([ledger.report(decision, 1).bit for decision in range(64)])
    die()


def spend_all(send: Connection, path: str, who: int, cap: int, common: int) -> None:
    """Reserve own decisions until the cap is reached; report the shared ones."""
    paid, bits = 0, []
    with Ledger(cap, path) as ledger:
        for decision in range(common):
            bits.append(ledger.report(f"common {decision}", who % 2).bit)
        with contextlib.suppress(Overdraft):
            while True:
                ledger.reserve(f"{who}: {paid}", 0.1)
                paid += 1
    send.send((paid, bits))


def create(send: Connection, path: str, who: int) -> None:
    """Open a ledger that does not exist yet, and spend something."""
    with Ledger(1000, path) as ledger:
        ledger.reserve(who, 1)
    send.send("done")


def fill_the_disk(send: Connection, path: str, limit: int) -> None:
    """Reserve until files cannot grow; then report what is paid for, and send the error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with Ledger(10**6, path) as ledger:
        paid = 0
        try:
            while paid < 2000:
                ledger.reserve(f"{paid:0>100}", 1)
                paid += 1
        except LedgerError as error:
            send.send((paid, str(error), ledger.reports))


def as_nobody(send: Connection, path: str) -> None:
    """Open a read-only ledger."""
    if os.geteuid() == 0:  # who may do anything
        os.setuid(65534)
    with Ledger(1, path) as ledger:
        errors = []
        for work in (lambda: ledger.reserve("b", 0.1), lambda: ledger.report("a", 1)):
            try:
                work()
            except LedgerError as error:
                errors.append(str(error))
        send.send((errors, ledger.spent, ledger.recall("a")))


def use_after_fork(send: Connection, path: str | None) -> None:
    """Use a copy of a ledger that another process opened."""
    with Ledger(1, path) as ledger:
        ledger.reserve("a", 0.5)
        child = os.fork()
        if child == 0:
            try:
                ledger.report("a", 1)
            except LedgerError as error:
                send.send(str(error))
            os._exit(0)
        os.waitpid(child, 0)
        ledger.report("a", 1)
