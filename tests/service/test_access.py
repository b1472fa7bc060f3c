"""Who is let in, by the headers of a request as they came."""

from __future__ import annotations

import pytest

from maskedbandits.service.access import Access
from maskedbandits.service.asgi import Refused
from maskedbandits.service.keys import ANYBODY
from maskedbandits.service.settings import Settings


def admitted(*headers: tuple[bytes, bytes], version: str = "1.1") -> bool:
    access = Access(Settings())
    access.keys.refresh([])
    scope = {"headers": list(headers), "http_version": version}
    return access.admit(scope, dict(headers), "admin").holder is ANYBODY


@pytest.mark.parametrize("hosts", [(b"evil.com", b"localhost"), (b"localhost", b"evil.com"), (b"localhost",) * 2])
def test_a_request_for_two_hosts_is_refused(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(Refused) as refused:
        admitted(*((b"host", host) for host in hosts))
    assert (refused.value.status, refused.value.error) == (400, "the request has two Host headers: send one")


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
