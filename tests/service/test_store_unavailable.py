"""A store that fails under a running service and comes back: clients wait, and nothing is lost."""

from __future__ import annotations

import base64
import json
import resource
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from postgres import cluster
from running import OPENER, Running, children_of, running
from web import SMALL

from children import wait_until
from helpers.private import read_tables
from maskedbandits.service.secret import derive_decision_key, hash_decision_id, load_secret
from maskedbandits.service.storage import open_store

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"
LENGTHS = [0.5, pytest.param(10.0, marks=pytest.mark.slow)]  # seconds without the store
LONG_ENOUGH = 30.0  # seconds for an answer: the service tries again for a while before it says no


class Witness:
    """Sends reports and records those acknowledged."""

    def __init__(self, service: Running) -> None:
        self.service = service
        self.acknowledged: list[bytes] = []
        self.open: list[str] = []  # tokens without a reply

    def decide(self, count: int) -> None:
        status, answer = self.service.ask("POST", DECISIONS, {"n": count})
        assert status == 200  # whether or not the store is there
        self.open += [each["token"] for each in answer["decisions"]]

    def report(self) -> None:
        """Report open tokens, which are accepted now or were written before."""
        for token in self.open:
            status, answer = self.service.ask("POST", REPORTS, {"token": token, "bit": 1})
            assert (status, answer["status"] in ("accepted", "duplicate")) == (200, True)
            self.acknowledged.append(base64.urlsafe_b64decode(token)[21:32])
        self.open = []


def refused(service: Running, method: str, path: str, body: Any = None) -> tuple[int, int]:
    """Return status and Retry-After of an error; 200 and 0 for a success."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(service.address + path, sent, method=method)  # noqa: S310 -- loopback
    try:
        OPENER.open(request, timeout=LONG_ENOUGH).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, int(refusal.headers["retry-after"])
    return 200, 0


def survived(storage: str, service: Running, gone: Callable[[], Any], back: Callable[[], Any], seconds: float) -> None:
    """Take a store away for some seconds while reports come; then count."""
    witness = Witness(service)
    witness.decide(5)
    witness.report()
    gone()
    witness.decide(3)
    until = time.monotonic() + seconds
    tries = 0
    while time.monotonic() < until or tries < 3:
        code, wait = refused(service, "POST", REPORTS, {"token": witness.open[tries % 3], "bit": 1})
        assert code == 503
        assert wait >= 1
        tries += 1
        time.sleep(0.1)
    code, wait = refused(service, "GET", "/readyz")
    assert (code, wait >= 1) == (503, True)
    witness.decide(2)
    back()
    wait_until(lambda: refused(service, "GET", "/readyz")[0] == 200, service.process)  # by itself
    witness.report()
    witness.decide(4)
    witness.report()
    with open_store(storage) as store:
        events = store.read_events(1, 0, 100)
        key = derive_decision_key(load_secret(store))
        with read_tables(store) as tx:
            ids: dict[bytes, int] = dict(tx.query("SELECT decision, seq FROM report_id WHERE experiment = 1"))
    assert set(ids) == {hash_decision_id(key, identity) for identity in witness.acknowledged}
    assert sorted(ids.values()) == [event.seq for event in events if event.kind == "report"]
    assert [event.seq for event in events] == list(range(1, 16))


@contextmanager
def served(storage: str) -> Iterator[Running]:
    with running(storage) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", SMALL)[0] == 201
        yield service


@pytest.mark.parametrize("seconds", LENGTHS)
def test_service_survives_lost_postgresql(seconds: float) -> None:
    with cluster() as server, served(server.url()) as service:
        survived(server.url(), service, server.stop, server.start, seconds)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit, which Linux has")
@pytest.mark.parametrize("seconds", LENGTHS)
def test_service_survives_full_disk(tmp_path: Path, seconds: float) -> None:
    """A file size limit stands in for a full disk, which would need an administrator."""
    storage = f"sqlite:///{tmp_path}/bandits.db"
    with served(storage) as service:
        processes = [service.process.pid, *children_of(service.process.pid)]

        def limit(size: int) -> None:
            for each in processes:
                resource.prlimit(each, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        survived(storage, service, lambda: limit(0), lambda: limit(resource.RLIM_INFINITY), seconds)
