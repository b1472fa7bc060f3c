"""Access by the headers of a request."""

from __future__ import annotations

import asyncio

import pytest
from web import exchanged

from maskedbandits.service.app import App
from maskedbandits.service.auth import (
    ANONYMOUS,
    LOCAL_ADMIN,
    AccessControl,
    ApiKeys,
    hash_key,
    is_own_name,
    refuse_duplicates,
)
from maskedbandits.service.http import RequestError
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage.models import KeyRow


def admitted(*headers: tuple[bytes, bytes], version: str = "1.1") -> bool:
    access = AccessControl(Settings())
    access.keys.refresh([])
    scope = {"headers": list(headers), "http_version": version}
    refuse_duplicates(scope, dict(headers))
    return access.admit(scope, dict(headers), "admin").holder is LOCAL_ADMIN


@pytest.mark.parametrize("hosts", [(b"evil.com", b"localhost"), (b"localhost", b"evil.com"), (b"localhost",) * 2])
def test_two_host_headers_are_refused(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(RequestError) as refused:
        admitted(*((b"host", host) for host in hosts))
    assert (refused.value.status, refused.value.error) == (400, "the request has two Host headers: send one")


@pytest.mark.parametrize("second", [b"Bearer good", b"Bearer bad", b"Basic x", b""])
@pytest.mark.parametrize("order", [1, -1], ids=["good first", "good last"])
def test_two_authorization_headers_are_refused_in_any_order(second: bytes, order: int) -> None:
    """One of them has a good key: neither the first nor the last may win."""
    access = AccessControl(Settings())
    access.keys.refresh([KeyRow("ops", "admin", hash_key("good"), 0, None)])
    good = [(b"host", b"localhost"), (b"authorization", b"Bearer good")]
    assert access.admit({"headers": good, "http_version": "1.1"}, dict(good), "admin").holder.name == "ops"
    both = [*good, (b"authorization", second)][::order]
    with pytest.raises(RequestError) as refused:
        refuse_duplicates({"headers": both}, dict(both))
    assert (refused.value.status, refused.value.error) == (400, "the request has two Authorization headers: send one")


@pytest.mark.parametrize("header", [b"host", b"origin", b"authorization"])
@pytest.mark.parametrize("path", ["/healthz", "/client.js", "/v1/reports", "/nowhere"])
def test_duplicate_access_headers_are_refused_on_every_path(header: bytes, path: str) -> None:
    value = {b"host": b"localhost", b"origin": b"http://localhost"}.get(header, b"Bearer x")
    headers = [(b"host", b"localhost")] * (header != b"host") + [(header, value)] * 2
    scope = {"type": "http", "method": "POST" if path == "/v1/reports" else "GET", "path": path, "headers": headers}
    start, body = asyncio.run(exchanged(App(Settings()), {**scope, "http_version": "1.1"}, []))
    assert start["status"] == 400
    assert f"two {header.decode().title()} headers" in body["body"].decode()


@pytest.mark.parametrize(
    "host", [b"[::1].evil.com", b"[::1]evil.com", b"[::1]:80.evil.com", b"localhost:evil.com", b"::1", b"[127.0.0.1"]
)
def test_host_with_loopback_prefix_is_not_loopback(host: bytes) -> None:
    assert not is_own_name(host)
    with pytest.raises(RequestError, match="only this machine"):
        admitted((b"host", host))


def test_key_cache_does_not_grow_with_padding() -> None:
    """A good key with other blanks each time filled the memory: 226 to 618 MiB in 8 seconds."""
    keys = ApiKeys("127.0.0.1")
    keys.refresh([KeyRow("ops", "admin", hash_key("good"), 0, None), KeyRow("web", "device", hash_key("x"), 0, None)])
    keys.identify(b"Bearer good"), keys.identify(b"Bearer x")
    size = len(repr(vars(keys)))
    for blanks in range(1, 1000):
        assert keys.identify(b"Bearer" + b" " * blanks + b"good" + b" " * (blanks % 7)).name == "ops"
        assert keys.identify(b"bearer x" + b" " * blanks).name == "web"
        assert keys.identify(b"Bearer no" + b"." * blanks) is ANONYMOUS
        assert not is_own_name(b"localhost:" + b"0" * 300 + b"0" * blanks)
    assert len(repr(vars(keys))) == size


def test_other_headers_may_repeat() -> None:
    assert admitted((b"host", b"localhost"), (b"accept", b"text/html"), (b"accept", b"*/*"))


def test_only_http_1_0_needs_no_host() -> None:
    assert admitted(version="1.0")
    with pytest.raises(RequestError) as refused:
        admitted()
    assert (refused.value.status, refused.value.error[:34]) == (400, "the request has no Host header: se")
    for headers in ([(b"origin", b"https://evil.example")], [(b"sec-fetch-site", b"cross-site")], [(b"host", b"evil")]):
        with pytest.raises(RequestError, match="only this machine"):
            admitted(*headers, version="1.0")
