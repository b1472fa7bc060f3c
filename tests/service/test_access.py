"""Who is let in, by the headers of a request as they came."""

from __future__ import annotations

import asyncio

import pytest
from web import exchanged

from maskedbandits.service.app import App
from maskedbandits.service.auth import Access, refuse_repeated
from maskedbandits.service.http import Refused
from maskedbandits.service.keys import ANYBODY, NOBODY, Keys, digest_of, is_own_name
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage.models import KeyRow


def admitted(*headers: tuple[bytes, bytes], version: str = "1.1") -> bool:
    access = Access(Settings())
    access.keys.refresh([])
    scope = {"headers": list(headers), "http_version": version}
    refuse_repeated(scope, dict(headers))
    return access.admit(scope, dict(headers), "admin").holder is ANYBODY


@pytest.mark.parametrize("hosts", [(b"evil.com", b"localhost"), (b"localhost", b"evil.com"), (b"localhost",) * 2])
def test_a_request_for_two_hosts_is_refused(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(Refused) as refused:
        admitted(*((b"host", host) for host in hosts))
    assert (refused.value.status, refused.value.error) == (400, "the request has two Host headers: send one")


@pytest.mark.parametrize("second", [b"Bearer good", b"Bearer bad", b"Basic x", b""])
@pytest.mark.parametrize("order", [1, -1], ids=["good first", "good last"])
def test_a_request_with_two_authorization_headers_is_refused(second: bytes, order: int) -> None:
    """One of them has a good key: neither the first nor the last may win."""
    access = Access(Settings())
    access.keys.refresh([KeyRow("ops", "admin", digest_of("good"), 0, None)])
    good = [(b"host", b"localhost"), (b"authorization", b"Bearer good")]
    assert access.admit({"headers": good, "http_version": "1.1"}, dict(good), "admin").holder.name == "ops"
    both = [*good, (b"authorization", second)][::order]
    with pytest.raises(Refused) as refused:
        refuse_repeated({"headers": both}, dict(both))
    assert (refused.value.status, refused.value.error) == (400, "the request has two Authorization headers: send one")


@pytest.mark.parametrize("header", [b"host", b"origin", b"authorization"])
@pytest.mark.parametrize("path", ["/healthz", "/client.js", "/v1/reports", "/nowhere"])
def test_two_headers_by_which_somebody_is_let_in_are_refused_everywhere(header: bytes, path: str) -> None:
    value = {b"host": b"localhost", b"origin": b"http://localhost"}.get(header, b"Bearer x")
    headers = [(b"host", b"localhost")] * (header != b"host") + [(header, value)] * 2
    scope = {"type": "http", "method": "POST" if path == "/v1/reports" else "GET", "path": path, "headers": headers}
    start, body = asyncio.run(exchanged(App(Settings()), {**scope, "http_version": "1.1"}, []))
    assert start["status"] == 400
    assert f"two {header.decode().title()} headers" in body["body"].decode()


@pytest.mark.parametrize(
    "host", [b"[::1].evil.com", b"[::1]evil.com", b"[::1]:80.evil.com", b"localhost:evil.com", b"::1", b"[127.0.0.1"]
)
def test_a_host_that_only_begins_like_this_machine_is_not_it(host: bytes) -> None:
    assert not is_own_name(host)
    with pytest.raises(Refused, match="only this machine"):
        admitted((b"host", host))


def test_long_headers_of_others_are_not_kept() -> None:
    """A good key with other blanks each time filled the memory: 226 to 618 MiB in 8 seconds."""
    keys = Keys("127.0.0.1")
    keys.refresh([KeyRow("ops", "admin", digest_of("good"), 0, None), KeyRow("web", "device", digest_of("x"), 0, None)])
    for blanks in range(1, 1000):
        assert keys.holder(b"Bearer" + b" " * blanks + b"good" + b" " * (blanks % 7)).name == "ops"
        assert keys.holder(b"bearer x" + b" " * blanks).name == "web"
        assert keys.holder(b"Bearer no" + b"." * blanks) is NOBODY
        assert not is_own_name(b"localhost:" + b"0" * 300 + b"0" * blanks)
    assert len(keys._seen) == 2
    assert all(len(key) < 10 for key in keys._seen)


def test_other_headers_may_come_twice() -> None:
    assert admitted((b"host", b"localhost"), (b"accept", b"text/html"), (b"accept", b"*/*"))


def test_only_a_request_of_http_1_0_needs_no_host() -> None:
    assert admitted(version="1.0")
    with pytest.raises(Refused) as refused:
        admitted()
    assert (refused.value.status, refused.value.error[:34]) == (400, "the request has no Host header: se")
    for headers in ([(b"origin", b"https://evil.example")], [(b"sec-fetch-site", b"cross-site")], [(b"host", b"evil")]):
        with pytest.raises(Refused, match="only this machine"):
            admitted(*headers, version="1.0")
