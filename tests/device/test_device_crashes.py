"""A device that is killed at any moment draws no bit twice, keeps its promises, and respects its cap."""

import contextlib
import os
import random
import signal
import sqlite3
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import device_children as children
import pytest
from device_fakes import Clock, Service, opened, pass_time, serving

from helpers.boundaries import set_device_clock
from helpers.private import next_due
from maskedbandits.device import Device

pytest_plugins = ["device_fixtures"]


def judge(service: Service, events: list[Any], own: Device) -> None:
    """Check what must hold once every promise had its time."""
    promised = {what[1] for what in events if what[0] == "promised"}
    assert promised <= set(service.taken)
    bits = defaultdict(set)
    for arrival in service.arrivals:
        bits[arrival.token].add(arrival.bit)
    assert all(len(each) == 1 for each in bits.values())
    assert all(service.taken[what[1]] == what[2] for what in events if what[0] == "drawn" and what[2] is not None)
    assert own.ledger is not None
    assert len(service.taken) <= own.ledger.reports
    assert own.ledger.spent <= own.ledger.cap
    assert next_due(own) is None
    assert own.ledger.path is not None
    with contextlib.closing(sqlite3.connect(own.ledger.path)) as file:
        assert file.execute("SELECT COUNT(*) FROM decisions WHERE bit IN (0, 1)").fetchone() == (0,)


# What is on the disk changes with a COMMIT, and nothing leaves the process within a transaction: to be killed right
# before every COMMIT is to be killed in every way that there is. All statements are for those who have time.
STEPS = ("COMMIT",)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kinds", [STEPS, pytest.param(("",), marks=pytest.mark.slow)], ids=["steps", "all"])
def test_device_killed_at_any_statement_recovers(
    kinds: tuple[str, ...], url: str, service: Service, folder: Path
) -> None:
    end, number = -9, 0
    while end == -9:
        number += 1
        path = folder / str(number)
        service.arrivals, service.taken, service.issued = [], {}, {}
        events, code = children.call(children.a_life, url, str(path), number, kinds)
        assert code in (0, -9), events
        end = code
        restarted(service, url, path, events)
    assert number > 30
    assert [what[0] for what in events].count("promised") == 2  # of three


def restarted(service: Service, url: str, path: Path, events: list[Any]) -> None:
    """Open the files again, let time pass, and check."""
    clock = Clock()
    clock.at += 100  # for the child it was up to 189 s later: set back, or not
    with pytest.MonkeyPatch.context() as patch:
        set_device_clock(patch, clock)
        with opened(url, path=path, cap=2) as own:
            own.send_due()
            pass_time(own, clock, 80_000)
            judge(service, events, own)
            for _ in range(3):
                own.decide()
            pass_time(own, clock, 80_000)
            assert own.ledger is not None
            assert own.ledger.spent == 2
            judge(service, events, own)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
def test_device_killed_while_sending_sends_the_same(
    nth: int, when: str, url: str, service: Service, folder: Path
) -> None:
    running: dict[str, int] = {}

    def fails(count: int) -> str:
        if count != nth:
            return ""
        os.kill(running["process"], signal.SIGKILL)
        return when

    service.fails = fails
    started = children.start(children.a_life, url, str(folder / "ledger"), -1, STEPS)
    opened_first = started[1].recv()
    running["process"] = opened_first[1]
    events, code = children.finish(started)
    assert code == -9
    restarted(service, url, folder / "ledger", events)
    first = service.arrivals[nth - 1]
    assert [arrival.bit for arrival in service.arrivals if arrival.token == first.token] == [first.bit] * 2


def test_device_killed_repeatedly_recovers(folder: Path) -> None:
    """Kill it in real time soon after its n-th promise, on one file."""
    service, rng, events = Service(), random.Random(3), list[Any]()
    service.report_after, service.expires_after = 0.05, 3600.0
    with serving(service) as address:
        for promises in (0, 1, 3, 8, 15, 21, 27, 33):
            process, receiving = children.start(children.live_fast, address, str(folder / "ledger"))
            receiving.recv()
            events += [receiving.recv() for _ in range(promises)]
            time.sleep(rng.uniform(0.0, 0.02))
            process.kill()
            sent, code = children.finish((process, receiving))
            assert code == -9
            events += sent
        clock = Clock(time.time())
        with pytest.MonkeyPatch.context() as patch:
            set_device_clock(patch, clock)
            service.clock = clock.time
            with opened(address, path=folder / "ledger", cap=10**6) as own:
                pass_time(own, clock, 600)
                judge(service, events, own)
    assert len(events) >= 108
    assert len(service.taken) >= len(events)
