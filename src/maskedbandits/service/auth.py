"""Access control: keys, rate limits, and CORS as the Fetch standard defines it.

Starlette's CORS middleware is not used, because its replies differ: a preflight gets 200 with a text, or 400 instead of
a line of JSON, and all answers would pass through another layer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.service.http import Header, RequestError, Response, retry_later
from maskedbandits.service.keys import ANONYMOUS, ApiKeys, KeyHolder
from maskedbandits.service.rate_limits import ClientAddresses, TokenBuckets, address_block, bucket_name

if TYPE_CHECKING:
    from starlette.types import Scope

    from maskedbandits.service.server.settings import Settings

PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"GET, PATCH, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"86400"),
]
EXPOSED = (b"access-control-expose-headers", b"date, retry-after")  # a device times its reports by them
VARY = (b"vary", b"origin")
SINGLE_HEADERS = ("Host", "Authorization", "Origin")  # access depends on them
TOO_OFTEN = "too many requests from one {}: ask again after as many seconds as Retry-After says"


class Caller(NamedTuple):
    """The holder of the key of a request, and its address where addresses are limited."""

    holder: KeyHolder = ANONYMOUS
    address: str = ""


class AccessControl:
    """Admits requests, or refuses them."""

    def __init__(self, settings: Settings) -> None:
        self.keys = ApiKeys(settings.host, settings.cors)
        self._addresses = ClientAddresses(settings.trusted_proxies)
        self._by_address = TokenBuckets(settings.address_rate, settings.burst)
        self._by_key = TokenBuckets(settings.key_rate, settings.burst)
        self._origins = {origin.encode() for origin in settings.cors}

    def admit(self, scope: Scope, headers: dict[bytes, bytes], role: str) -> Caller:
        """Return the caller, or raise an error if its key lacks the role or it sends too many requests."""
        if b"host" not in headers:
            _check_http_version(scope)
        address = ""
        if self._by_address.rate:
            address = bucket_name(self._find_address(scope, headers))
            _refuse_for(self._by_address.wait(address, time.monotonic()), "address")
        holder = self.identify(headers)
        if role not in holder.roles:
            raise self._deny(role, holder)
        if self._by_key.rate and holder.name:
            _refuse_for(self._by_key.wait(holder.name, time.monotonic()), "key")
        return Caller(holder, address)

    def find_block(self, scope: Scope) -> str:
        """Return the address block of a request."""
        return address_block(self._find_address(scope, dict(scope["headers"])))

    def _find_address(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        peer = scope["client"][0] if scope.get("client") else ""
        return self._addresses.resolve(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"))

    def identify(self, headers: dict[bytes, bytes]) -> KeyHolder:
        """Return the holder of the key in the headers of a request."""
        authorization = headers.get(b"authorization")
        if authorization is None:
            host = headers.get(b"host", b"localhost")  # only HTTP/1.0 may leave it out, and no browser speaks that
            return self.keys.identify_local(host, *(headers.get(name, b"") for name in (b"origin", b"sec-fetch-site")))
        return self.keys.identify(authorization)

    def _deny(self, role: str, holder: KeyHolder) -> RequestError:
        if holder is not ANONYMOUS:
            return RequestError(
                403, f"this key has not the role {role}: make one with maskedbandits key create --role {role}"
            )
        if self.keys.is_open:
            what = "without any key only this machine may ask, and no page of another site"
            return RequestError(
                403, f"{what}: make keys with maskedbandits key create, or list the page's origin in cors"
            )
        what = f"a key with the role {role} is needed, and there is none here, or it is revoked"
        return RequestError(401, f"{what}: send Authorization: Bearer KEY", [(b"www-authenticate", b"Bearer")])

    def charge(self, caller: Caller, cost: int) -> None:
        """Count a batch as that many requests before any item is processed, or refuse it."""
        if cost > 1:
            now = time.monotonic()
            _refuse_for(self._by_address.wait(caller.address, now, cost, taken=1), "address")
            if caller.holder.name:
                _refuse_for(self._by_key.wait(caller.holder.name, now, cost, taken=1), "key")

    def cors_headers(self, origin: bytes) -> list[Header]:
        """Return the headers that let a page of this origin read the response; none if it may not."""
        if b"*" in self._origins:
            return [(b"access-control-allow-origin", b"*"), EXPOSED]
        if origin in self._origins:
            return [(b"access-control-allow-origin", origin), EXPOSED, VARY]
        return [VARY] if self._origins else []

    def preflight(self, origin: bytes) -> Response:
        """Return the response to a preflight request, which carries no key yet."""
        if b"*" in self._origins or origin in self._origins:
            return Response(204, b"", PREFLIGHT_HEADERS)
        raise RequestError(403, "pages of this origin may not ask: list it in the setting cors")


def refuse_duplicates(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """Refuse two headers of one name: a proxy may have checked the other one (RFC 9110, section 5.3)."""
    if len(headers) < len(scope["headers"]):  # some header came twice
        for header in SINGLE_HEADERS:
            if sum(name == header.lower().encode() for name, _ in scope["headers"]) > 1:
                raise RequestError(400, f"the request has two {header} headers: send one")


def _check_http_version(scope: Scope) -> None:
    """Refuse a request without a Host header, unless it is of HTTP/1.0 (RFC 9112, section 3.2)."""
    if scope["http_version"] != "1.0":
        raise RequestError(400, "the request has no Host header: send one, or ask by HTTP/1.0")


def _refuse_for(seconds: float, what: str) -> None:
    if seconds:
        raise retry_later(429, TOO_OFTEN.format(what), seconds)
