"""The application as a whole: wrong requests, access, rate limits, CORS, and an unavailable store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from registries import build_registry, storage_in, until
from web import SMALL, Client, Reply, Served

from helpers.boundaries import shorten_store_waits
from helpers.private import cut_connections, refuse_writes
from maskedbandits.service import http, log_reader, log_writer
from maskedbandits.service.app import App
from maskedbandits.service.auth import create_key
from maskedbandits.service.clock import Clock
from maskedbandits.service.recovery import SNAPSHOT_KERNEL
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import Store, StoreUnavailable

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"
STATE = "/v1/experiments/headline/state"


# Wrong requests


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", DECISIONS, "POST"),
        ("PUT", REPORTS, "POST"),
        ("DELETE", "/v1/experiments", "GET, HEAD, POST"),
        ("POST", "/v1/experiments/headline", "DELETE, GET, HEAD, PATCH"),
        ("BREW", "/healthz", "GET, HEAD"),
        ("GET", "/v1/experiments/headline/arms/long/retire", "PATCH, POST"),
    ],
)
def test_wrong_method_gets_405(served: Served, method: str, path: str, allowed: str) -> None:
    reply = served.ask(method, path)
    assert (reply.status, reply.headers["allow"]) == (405, allowed)
    assert allowed in reply.error


@pytest.mark.parametrize("path", ["/x", "/v1", "/v1/experiments/", "/v1/experiments/headline/", "/v2/reports", "/é"])
def test_unknown_path_gets_404(served: Served, path: str) -> None:
    reply = served.post(path)
    assert reply.status == 404
    assert "openapi.json" in reply.error


def test_head_is_get_without_a_body(served: Served) -> None:
    head, get = served.ask("HEAD", "/v1/experiments"), served.get("/v1/experiments")
    assert (head.status, head.body) == (200, b"")
    assert head.headers | {"date": ""} == get.headers | {"date": ""}


def test_long_body_gets_413(registry: ExperimentRegistry) -> None:
    with Served(registry, Settings(body_limit=2000)) as served:
        served.post("/v1/experiments", SMALL)
        long = json.dumps({"visitor": "v" * 2000}).encode()
        for path in (DECISIONS, REPORTS, "/v1/experiments"):
            assert served.post(path, long).status == 413
        cut = [long[start : start + 100] for start in range(0, len(long), 100)]
        pieces = [{"type": "http.request", "body": piece, "more_body": True} for piece in cut]
        reply = served.post(DECISIONS, pieces=pieces)
        assert reply.status == 413
        assert "2000 bytes" in reply.error
        assert reply.headers["connection"] == "close"
        values = served.post(DECISIONS, pieces=pieces[:1], headers={"content-length": "99999999999999999999999"})
        assert values.status == 0  # the rest did not come
        assert served.post(DECISIONS, pieces=pieces[:1], headers={"content-length": "2001"}).status == 413


def test_body_in_pieces_is_read(served: Served) -> None:
    pieces: list[dict[str, Any]] = [
        {"type": "http.request", "body": bytes([byte]), "more_body": True} for byte in b'{"n":2}'
    ]
    assert len(served.post(DECISIONS, pieces=[*pieces, {"type": "http.request"}]).json["decisions"]) == 2


def test_client_that_leaves_gets_no_response(served: Served) -> None:
    reply = served.post(DECISIONS, pieces=[{"type": "http.request", "body": b"{", "more_body": True}])
    assert reply.status == 0
    assert 'requests_total{route="decisions",status="499"} 1' in served.get("/metrics").body.decode()


def test_slow_body_gets_408(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_TIMEOUT_S", 0.01)
    answers: list[Any] = []

    async def slow() -> None:
        messages = iter([{"type": "http.request", "body": b"{", "more_body": True}])

        async def receive() -> Any:
            for message in messages:
                return message
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            answers.append(message)

        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": DECISIONS, "headers": headers, "client": ("127.0.0.1", 1)}
        await served.app(scope, receive, send)

    served.run(slow())
    assert answers[0]["status"] == 408


def test_websockets_are_closed(served: Served) -> None:
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    served.run(served.app({"type": "websocket", "path": "/"}, receive, send))
    assert answers == [{"type": "websocket.close", "code": 1000}]


def test_internal_error_reveals_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the visitor was alice")

    monkeypatch.setattr(served.registry.get("headline"), "decide", broken)
    reply = served.run(served.client.ask("POST", DECISIONS, {"visitor": "alice"}))
    assert reply.status == 500
    logged = capsys.readouterr().err
    assert "alice" not in reply.error + logged
    values = {line["event"]: line for line in map(json.loads, logged.splitlines())}
    assert values["request failed"]["kind"] == "RuntimeError"


# Bad times


@contextmanager
def without_store(served: Served) -> Iterator[None]:
    """While the store cannot be reached; the registry has noticed, and at the end that it can be again."""

    def gone(*_: object) -> None:
        raise StoreUnavailable("the database at secret-host cannot be reached")

    with pytest.MonkeyPatch.context() as patch:
        shorten_store_waits(patch)
        patch.setattr(log_reader, "SECOND", 0.05)
        cut_connections(patch, gone)
        served.run(until(lambda: not served.registry.is_ready))
        yield
    served.run(until(lambda: served.registry.is_ready))


def test_only_health_answers_before_start() -> None:
    client = Client(App(Settings()))

    async def use() -> None:
        assert (await client.ask("GET", "/healthz")).json == {"status": "ok"}
        for method, path in (("GET", "/readyz"), ("POST", DECISIONS), ("POST", REPORTS), ("GET", "/v1/experiments")):
            reply = await client.ask(method, path, headers={"authorization": "Bearer good"})
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert "starting" in reply.error

    asyncio.run(use())


def test_requests_get_503_while_store_is_gone(served: Served) -> None:
    token = served.post(DECISIONS).json["token"]
    with without_store(served):
        replies = [
            served.post(REPORTS, {"token": token, "bit": 1}),
            served.post("/v1/experiments", {**SMALL, "name": "other"}),
            served.patch("/v1/experiments/headline", {"status": "paused"}),
        ]
        for reply in replies:
            assert reply.status == 503
            assert int(reply.headers["retry-after"]) >= 1
            assert "secret-host" not in reply.error
        assert served.get("/healthz").status == 200
        ready = served.get("/readyz")
        assert (ready.status, ready.json["status"]) == (200, "degraded")
        assert [reason["code"] for reason in ready.json["reasons"]] == ["store_away"]
        assert served.get("/v1/experiments/headline").status == 200
        assert served.get("/v1/experiments").status == 503  # the list comes from the store
        assert served.post(DECISIONS).status == 200  # it needs no store; devices keep their reports until there is one
        assert served.post(DECISIONS, {"visitor": "v"}).json["stored"] is False
        assert 'maskedbandits_store_away{worker="0"} 1' in served.get("/metrics").body.decode()
    assert served.get("/readyz").json == {"status": "ready", "reasons": []}
    assert served.post(REPORTS, {"token": token, "bit": 1}).json == {"status": "accepted"}


def test_full_disk_is_logged_once_and_degraded(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading still works then, so only writing shows it."""

    def full(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full: make room")

    token = served.post(DECISIONS).json["token"]
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        shorten_store_waits(patch)
        refuse_writes(patch, full)
        assert served.post(REPORTS, {"token": token, "bit": 1}).status == 503
        for _ in range(2):
            served.run(asyncio.sleep(2 * log_writer.PAUSE_S))
            assert served.get("/readyz").json["status"] == "degraded"
            assert served.post(REPORTS, {"token": token, "bit": 1}).status == 503
    values = [
        line for line in map(json.loads, capsys.readouterr().err.splitlines()) if line["event"] == "store is gone"
    ]
    assert [line["reason"] for line in values] == ["the disk is full: make room"]
    served.run(until(lambda: served.registry.is_ready))
    assert served.post(REPORTS, {"token": token, "bit": 1}).json == {"status": "accepted"}


def test_full_queue_loses_no_report(storage: str, served: Served) -> None:
    served.close()
    with Served(build_registry(storage, queue=1)) as narrow:
        reports = [{"token": narrow.post(DECISIONS).json["token"], "bit": 1} for _ in range(2)]
        assert narrow.post(REPORTS, {"reports": reports}).status == 503
        for report in reports:
            assert narrow.post(REPORTS, report).json == {"status": "accepted"}


def test_visitor_without_store_gets_decision_of_one_report(served: Served) -> None:
    with without_store(served):
        reply = served.post(DECISIONS, {"visitor": "v"})
        assert (reply.status, reply.json["stored"]) == (200, False)
    assert sum(served.get(STATE).json["pending"]) == 1
    assert served.post(REPORTS, {"token": reply.json["token"], "bit": 1}).verdict == "accepted"


def test_closing_app_stops_registry(registry: ExperimentRegistry, store: Store) -> None:
    with Served(registry) as served:
        served.post("/v1/experiments", SMALL)
        assert served.get("/readyz").status == 200
        assert not store.list_snapshots(1, SNAPSHOT_KERNEL)
    assert not registry.is_ready
    assert [seq for seq, _ in store.list_snapshots(1, SNAPSHOT_KERNEL)] == [1]  # the snapshot at the end


# The time


def dated(reply: Reply) -> float:
    return parsedate_to_datetime(reply.headers["date"]).timestamp()


def test_date_header_follows_service_clock(storage: str) -> None:
    wall = [2e9]
    with Served(build_registry(storage, Clock(lambda: wall[0]))) as served:
        served.post("/v1/experiments", {**SMALL, "report_after": 60})
        wall[0] -= 5000
        decided = served.post(DECISIONS)
        assert 0 <= dated(decided) - decided.json["now"] <= 1
        refused = served.post("/nowhere")
        assert 2e9 <= dated(refused) < 2e9 + 100


def test_date_header_before_start_follows_service_clock() -> None:
    wall = [2e9]
    app = App(Settings(), clock=Clock(lambda: wall[0]))

    async def ask_twice() -> list[Reply]:
        return [await Client(app).ask("GET", path) for path in ("/healthz", "/readyz")]

    asyncio.run(ask_twice())
    wall[0] -= 5000
    assert all(2e9 <= dated(reply) < 2e9 + 100 for reply in asyncio.run(ask_twice()))


# How often


@pytest.fixture
def limited(registry: ExperimentRegistry, store: Store) -> Iterator[Served]:
    """A service that lets a device send five requests at once from each address."""
    keys = {role: create_key(store, role, role, 0)[1] for role in ("device", "admin")}
    with Served(registry, Settings(address_rate=0.001, burst=5000, trusted_proxies=("10.0.0.0/8",))) as service:
        service.client.key = keys["admin"]
        assert service.post("/v1/experiments", SMALL).status == 201
        service.client.key = keys["device"]
        yield service


def test_address_over_its_rate_gets_429(limited: Served) -> None:
    statuses = [limited.post(DECISIONS).status for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    reply = limited.post(DECISIONS)
    assert int(reply.headers["retry-after"]) > 100
    assert "one address" in reply.error
    assert limited.post(DECISIONS, client="192.0.2.9").status == 200
    assert limited.get("/healthz").status == 200


def test_batch_is_charged_before_it_is_processed(limited: Served) -> None:
    """Batches that come at once were all answered, and charged afterwards."""
    token = limited.post(DECISIONS, client="192.0.2.2").json["token"]
    batch = {"reports": [{"token": token, "bit": 1}] * 3}

    async def at_once() -> list[Reply]:
        replies = (limited.client.ask("POST", "/v1/reports", batch) for _ in range(4))
        return await asyncio.gather(*replies)

    replies = limited.run(at_once())
    assert sorted(reply.status for reply in replies) == [200, 429, 429, 429]
    assert all("one address" in reply.error for reply in replies if reply.status == 429)
    (done,) = [[each["status"] for each in reply.json["results"]] for reply in replies if reply.status == 200]
    assert done == ["accepted", "duplicate", "duplicate"]
    statuses = [limited.post(DECISIONS, {"n": n}, client="192.0.2.4").status for n in (4, 2, 1)]
    assert statuses == [200, 429, 429]


def test_ipv6_household_is_one_address(limited: Served) -> None:
    statuses = [limited.post(DECISIONS, client=f"2001:db8:7:7::{place:x}").status for place in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    assert limited.post(DECISIONS, client="2001:db8:7:8::1").status == 200


def test_json_is_never_cached(served: Served) -> None:
    for reply in (served.post(DECISIONS), served.get(STATE), served.get("/nowhere"), served.post("/v1/reports", b"{")):
        assert reply.headers["content-type"] == f"application/{'json' if reply.status == 200 else 'problem+json'}"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "header", ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"]
)
def test_forwarded_requests_need_a_key(served: Served, header: str) -> None:
    """The proxy is on this machine, but its clients are not."""
    for method, path in (("POST", DECISIONS), ("GET", STATE), ("PATCH", "/v1/experiments/headline")):
        reply = served.ask(method, path, {}, headers={header: "198.51.100.1"}, client="127.0.0.1")
        assert reply.status == 403
        assert "run maskedbandits key create" in reply.error
    assert served.get("/healthz", headers={header: "198.51.100.1"}).status == 200


def test_only_trusted_proxies_are_believed(limited: Served) -> None:
    for last in range(20):
        forwarded = {"x-forwarded-for": f"198.51.100.{last}"}
        assert limited.post(DECISIONS, client="10.0.0.1", headers=forwarded).status == 200
    statuses = [limited.post(DECISIONS, headers={"x-forwarded-for": f"198.51.100.{last}"}).status for last in range(7)]
    assert statuses == [200] * 5 + [429] * 2


@pytest.mark.parametrize("role", ["backend", "read", "admin"])
def test_secret_keys_are_not_limited_by_address(limited: Served, store: Store, role: str) -> None:
    _, limited.client.key = create_key(store, role, "secret", 0)
    limited.renew_keys()
    path = STATE if role == "read" else DECISIONS
    assert {limited.ask("GET" if role == "read" else "POST", path).status for _ in range(10)} == {200}


def test_address_without_a_valid_key_is_limited(limited: Served) -> None:
    limited.client.key = "guess"
    assert [limited.post(DECISIONS).status for _ in range(7)] == [401] * 5 + [429] * 2


def test_local_programs_are_not_limited_without_keys(served: Served) -> None:
    assert {served.post(DECISIONS).status for _ in range(120)} == {200}


def test_forgotten_proxy_is_logged_once(limited: Served, capsys: pytest.CaptureFixture[str]) -> None:
    for place in range(3):
        limited.post(DECISIONS, client=f"192.168.0.{place}", headers={"x-forwarded-for": "198.51.100.1"})
    log = capsys.readouterr().err
    assert log.count("trusted_proxies") == 2  # what is wrong, and the remedy
    assert "192.168" not in log
    assert "198.51" not in log


def test_batch_counts_as_many_requests(limited: Served) -> None:
    assert limited.post(DECISIONS, {"n": 20}).status == 200
    assert limited.post(DECISIONS).status == 429


# Pages of other sites

SITE = {"origin": "https://shop.example"}


@pytest.fixture
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    other = build_registry(storage_in(tmp_path_factory.mktemp("listed")))
    with Served(other, Settings(cors=("https://shop.example",))) as service:
        service.post("/v1/experiments", SMALL)
        yield service


def test_listed_origin_is_allowed(listed: Served) -> None:
    headers = {**SITE, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    preflight = listed.ask("OPTIONS", DECISIONS, headers=headers)
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    reply = listed.post(DECISIONS, headers=SITE)
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == "https://shop.example"
    assert reply.headers["vary"] == "origin"
    refused = listed.post("/v1/experiments/none/decisions", headers=SITE)  # an error can be read, too
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (404, "https://shop.example")


def test_unlisted_origin_is_refused(listed: Served, served: Served) -> None:
    for service in (listed, served):
        other = {"origin": "https://evil.example"}
        preflight = service.ask("OPTIONS", DECISIONS, headers=other)
        assert preflight.status == 403
        assert "access-control-allow-origin" not in preflight.headers
        reply = service.post(DECISIONS, headers=other)
        assert reply.status == 403  # without keys this is the only protection from that page
        assert "access-control-allow-origin" not in reply.headers


def test_wildcard_origin_allows_all_pages(registry: ExperimentRegistry) -> None:
    with Served(registry, Settings(cors=("*",))) as service:
        assert service.get("/openapi.json", headers=SITE).headers["access-control-allow-origin"] == "*"
        assert service.ask("OPTIONS", DECISIONS, headers=SITE).status == 204
        assert service.get("/v1/experiments", headers=SITE).status == 403  # but not as if it were this machine
