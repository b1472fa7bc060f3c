"""Backend keys: what a key in a page may not do, and experiments whose decisions only servers ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from web import SMALL, Served

from maskedbandits.service.auth import create_key
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import Store

pytest_plugins = ["service_fixtures"]

DECISIONS = "/v1/experiments/headline/decisions"


@pytest.fixture
def keys(store: Store) -> dict[str, str]:
    return {role: create_key(store, role, role, 7)[1] for role in ("device", "backend", "read", "admin")}


@pytest.fixture
def site(registry: ExperimentRegistry, keys: dict[str, str]) -> Iterator[Served]:
    """A service whose one experiment is decided with backend keys."""
    with Served(registry) as service:
        service.client.key = keys["admin"]
        assert service.post("/v1/experiments", {**SMALL, "decide_with": "backend"}).status == 201
        service.client.key = keys["device"]
        yield service


def with_key(service: Served, key: str) -> Served:
    service.client.key = key
    return service


@pytest.mark.parametrize("body", [b"", {}, {"n": 2}, {"visitor": "v"}, {"participate": False}])
def test_device_key_gets_no_decision_of_backend_experiment(site: Served, body: object) -> None:
    reply = site.post(DECISIONS, body)
    assert reply.status == 403
    assert "role backend" in reply.error


def test_device_reports_with_token_that_a_backend_got(site: Served, keys: dict[str, str]) -> None:
    token = with_key(site, keys["backend"]).post(DECISIONS, {"visitor": "v"}).json["token"]
    report = {"token": token, "bit": 1}
    assert with_key(site, keys["device"]).post("/v1/reports", report).json["status"] == "accepted"
    assert site.post("/v1/reports", report).json["status"] == "duplicate"


def test_backend_key_cannot_view_or_change(site: Served, keys: dict[str, str]) -> None:
    with_key(site, keys["backend"])
    assert site.get("/v1/experiments").status == 403
    assert site.patch("/v1/experiments/headline", {"decide_with": "device"}).status == 403


def test_decide_with_can_change(site: Served, keys: dict[str, str]) -> None:
    with_key(site, keys["admin"])
    assert site.get("/v1/experiments/headline").json["decide_with"] == "backend"
    assert site.patch("/v1/experiments/headline", {"decide_with": "device"}).json["decide_with"] == "device"
    assert with_key(site, keys["device"]).post(DECISIONS).status == 200
    assert with_key(site, keys["admin"]).patch("/v1/experiments/headline", {"decide_with": "page"}).status == 400


def test_new_experiment_is_decided_with_devices(served: Served) -> None:
    assert served.get("/v1/experiments/headline").json["decide_with"] == "device"


@pytest.mark.parametrize(("n", "status"), [(20, 200), (21, 403), (1000, 403), (1001, 400)])
def test_device_gets_at_most_20_decisions(site: Served, keys: dict[str, str], n: int, status: int) -> None:
    with_key(site, keys["admin"]).patch("/v1/experiments/headline", {"decide_with": "device"})
    reply = with_key(site, keys["device"]).post(DECISIONS, {"n": n})
    assert reply.status == status
    if status == 403:
        assert f"n = {n}" in reply.error
        assert "at most 20" in reply.error


@pytest.mark.parametrize("role", ["backend", "admin"])
def test_secret_keys_get_more_decisions(site: Served, keys: dict[str, str], role: str) -> None:
    assert len(with_key(site, keys[role]).post(DECISIONS, {"n": 21}).json["decisions"]) == 21
