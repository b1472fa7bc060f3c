"""Fake reports against a real service with two workers: one address with the public key gets few of them through."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from postgres import Cluster
from running import OPENER, Running, running

from children import wait_until
from maskedbandits.service.auth import create_key
from maskedbandits.service.storage import open_store

pytest_plugins = ["postgres_fixtures"]

RATE, BURST = 5.0, 20.0  # requests a second, and seconds: 100 requests at once
LIARS, TRIES = 4, 250  # threads, and fake reports that each tries to send; without a limit all are accepted
DECISIONS = "/v1/experiments/headline/decisions"
SMALL = {"name": "headline", "epsilon": 1, "arms": [{"name": "short"}, {"name": "long"}], "policy": "klucb-cf"}


class Site:
    """A service of two workers behind a proxy on this machine, and its keys by role."""

    def __init__(self, service: Running, keys: dict[str, str]) -> None:
        self.service, self.keys = service, keys

    def ask(self, role: str, method: str, path: str, body: Any = None, address: str = "") -> tuple[int, Any]:
        """Return the status and the body for a client of the proxy with this address."""
        headers = {"authorization": f"Bearer {self.keys[role]}"} | ({"x-forwarded-for": address} if address else {})
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.service.address + path, sent, headers, method=method)  # noqa: S310
        try:
            with OPENER.open(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, dict(refused.headers)


@pytest.fixture(scope="module")
def site(postgres_server: Cluster) -> Iterator[Site]:
    url = postgres_server.place()
    with open_store(url, create=True) as store:
        keys = {role: create_key(store, role, role, 7)[1] for role in ("device", "backend", "read", "admin")}
    settings = {
        "MASKEDBANDITS_TRUSTED_PROXIES": "127.0.0.1",
        "MASKEDBANDITS_ADDRESS_RATE": str(RATE),
        "MASKEDBANDITS_BURST": str(BURST),
    }
    with running(url, "--workers", 2, environment=settings) as service:
        service.wait_until_ready()
        found = Site(service, keys)
        assert found.ask("admin", "POST", "/v1/experiments", SMALL)[0] == 201
        wait_until(lambda: all(found.ask("device", "POST", DECISIONS, {})[0] == 200 for _ in range(8)), service.process)
        yield found


def lie(site: Site, tries: int, address: str) -> Counter[int]:
    """Send fake reports from an address: ones for the second arm, zeros for the first; return the statuses."""
    statuses: Counter[int] = Counter()
    for _ in range(tries):
        status, decision = site.ask("device", "POST", DECISIONS, {}, address)
        if status == 200:
            report = {"token": decision["token"], "bit": int(decision["arm"] == "long")}
            status = site.ask("device", "POST", "/v1/reports", report, address)[0]
        statuses[status] += 1
    return statuses


def test_one_address_gets_few_fake_reports_through(site: Site) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(LIARS) as threads:
        statuses = sum(threads.map(lambda _: lie(site, TRIES, "198.51.100.7"), range(LIARS)), Counter[int]())
    most = RATE * (BURST + time.monotonic() - began) / 2  # a fake takes two requests
    assert set(statuses) == {200, 429}
    assert RATE * BURST / 2 - LIARS <= statuses[200] <= most + 1
    assert site.ask("device", "POST", DECISIONS, {}, "203.0.113.9")[0] == 200  # an honest person
    assert site.ask("backend", "POST", DECISIONS, {"n": 200}, "198.51.100.7")[0] == 200
    status, headers = site.ask("device", "POST", DECISIONS, {"n": 20}, "198.51.100.7")
    assert (status, int(headers["retry-after"]) >= 1) == (429, True)


def test_fakes_from_one_network_raise_alarm_in_all_workers(site: Site) -> None:
    def lie_at_once(place: int) -> None:
        status, reply = site.ask("device", "POST", DECISIONS, {"n": 20}, f"192.0.2.{place}")
        assert status == 200
        fakes = [{"token": each["token"], "bit": int(each["arm"] == "long")} for each in reply["decisions"]]
        assert site.ask("device", "POST", "/v1/reports", {"reports": fakes}, f"192.0.2.{place}")[0] == 200

    for place in range(20):
        lie_at_once(place)
    states = [site.ask("read", "GET", "/v1/experiments/headline/state")[1] for _ in range(10)]
    assert all(state["poisoning"] == ["unmasked"] for state in states)
