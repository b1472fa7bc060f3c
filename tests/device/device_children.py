"""Child processes of the device's tests that are killed, fill the disk, or take turns."""

import contextlib
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from device_fakes import QUICK, Clock, opened

from helpers.boundaries import set_device_clock
from helpers.private import connection_of, next_due, outbox_of, token_of
from maskedbandits.device import Device, device, reporter
from maskedbandits.privacy import LedgerError

PROCESSES = multiprocessing.get_context("forkserver")
# So that not every child imports them; modules of tests are not found this early.
IMPORTS = ["http.server", "maskedbandits.device.device", "maskedbandits.privacy.ledger", "pytest"]
PROCESSES.set_forkserver_preload(IMPORTS)


def start(work: Callable[..., Any], *arguments: Any) -> tuple[Any, Connection]:
    receiving, sending = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(sending, *arguments))
    process.start()
    sending.close()
    return process, receiving


def finish(started: tuple[Any, Connection]) -> tuple[list[Any], int | None]:
    """Return everything a child sent, and its exit code."""
    process, receiving = started
    sent = []
    with contextlib.suppress(EOFError):
        while True:
            sent.append(receiving.recv())
    process.join(120)
    code = process.exitcode
    process.kill()
    return sent, code


def call(work: Callable[..., Any], *arguments: Any) -> tuple[list[Any], int | None]:
    return finish(start(work, *arguments))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_statement(own: Device, number: int, kinds: tuple[str, ...]) -> None:
    """Kill this process right before the n-th statement of some kinds, in either file."""
    seen = [0]

    def traced(statement: str) -> None:
        seen[0] += statement.startswith(kinds)
        if seen[0] == number:
            die()

    assert own.ledger is not None
    for part in (own.ledger, outbox_of(own)):
        connection_of(part).set_trace_callback(traced)


def a_life(send: Connection, url: str, path: str, number: int, kinds: tuple[str, ...]) -> None:
    """Decide, get rewards or none, and send; killed before a statement. Promises and draws are sent at once."""
    clock = Clock()
    set_device_clock(pytest.MonkeyPatch(), clock)  # as long as the process lives
    own = opened(url, path=path, cap=2)
    die_before_statement(own, number, kinds)
    send.send(("opened", os.getpid()))
    for reward in (1, None, 1):
        decision = own.decide()
        if decision.participate:
            send.send(("promised", token_of(decision)))
        if reward is not None and decision.report(reward):
            assert own.ledger is not None
            drawn = own.ledger.recall(reporter.decision_name(token_of(decision)))
            send.send(("drawn", token_of(decision), None if drawn is None else drawn.bit))
        clock.at += 31
        own.send_due()
    for _ in range(6):
        clock.at += 16
        own.send_due()
    own.close()


def live_fast(send: Connection, url: str, path: str) -> None:
    """Decide and report endlessly in real time, with a sending thread; killed at any moment."""
    own = Device(url, "headline", path=path, cap=10**6, max_epsilon=1, jitter=0.05, timing=QUICK)
    send.send(("opened", os.getpid()))
    while True:
        decision = own.decide()
        if decision.participate:
            send.send(("promised", token_of(decision)))
            decision.report(1)


def spend(send: Connection, url: str, path: str, cap: int) -> None:
    """Decide until the cap is reached, and send everything, beside other processes."""
    with Device(url, "headline", path=path, cap=cap, max_epsilon=1, jitter=0.1, timing=QUICK) as own:
        paid = 0
        while own.decide().participate:
            paid += 1
        while next_due(own) is not None:
            time.sleep(0.05)
    send.send(paid)


def fill_the_disk(send: Connection, url: str, path: str, limit: int) -> None:
    """Decide until files cannot grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    with opened(url, path=path) as own:
        decisions = [own.decide() for _ in range(150)]
        send.send([decision.participate for decision in decisions])
        for decision in decisions:
            decision.report(1)  # and none raises anything
        send.send({decision.arm for decision in decisions})
        send.send(next(decision.why for decision in decisions if decision.why))


def as_nobody(send: Connection, url: str, path: str) -> None:
    """Use a read-only file; send the arm and the log."""
    said: list[str] = []
    url.encode("idna")  # which Python loads when it is first used, from where nobody may not look
    if os.geteuid() == 0:  # who may do anything
        os.setuid(65534)
    device.LOG.warning = lambda text, *values: said.append(text % values)  # type: ignore[method-assign]
    with opened(url, path=Path(path)) as own:
        decisions = [own.decide() for _ in range(3)]
        own.send_due()
        send.send([(decision.arm, decision.participate, decision.report(1)) for decision in decisions])
        send.send(said)


def use_after_fork(send: Connection, url: str, path: str | None) -> None:
    """Use a copy of a device that another process opened."""
    with opened(url, path=path) as own:
        before = own.decide()
        child = os.fork()
        if child == 0:
            decision = own.decide()
            with contextlib.suppress(LedgerError):
                send.send(next_due(own))  # the file is its parent's
            send.send((decision.arm, decision.participate, decision.why, before.report(1), own.send_due()))
            own.close()
            os._exit(0)
        os.waitpid(child, 0)
        send.send((before.report(1), own.decide().participate))
