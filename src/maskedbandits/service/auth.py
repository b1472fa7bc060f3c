"""Who may ask, and how often; and which other sites' pages a browser lets ask (CORS, as the Fetch standard has it)."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.types import Scope

from maskedbandits.service.http import Answer, Header, Refused, later
from maskedbandits.service.keys import NOBODY, Holder, Keys
from maskedbandits.service.rate_limits import Addresses, Buckets, block_of, bucket_of
from maskedbandits.service.server.settings import Settings

ALLOWED = [
    (b"access-control-allow-methods", b"GET, PATCH, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"86400"),
]
EXPOSED = (b"access-control-expose-headers", b"date, retry-after")  # by which a page's device knows when to send
VARY = (b"vary", b"origin")
ONCE = ("Host", "Authorization", "Origin")  # headers by which somebody is let in
TOO_OFTEN = "too many requests from one {}: ask again after as many seconds as Retry-After says"


class Caller(NamedTuple):
    """Who asks, and from where, as far as that is limited."""

    holder: Holder = NOBODY
    address: str = ""


class Access:
    """Lets requests in, or refuses them."""

    def __init__(self, settings: Settings) -> None:
        self.keys = Keys(settings.host, settings.cors)
        self._addresses = Addresses(settings.trusted_proxies)
        self._by_address = Buckets(settings.address_rate, settings.burst)
        self._by_key = Buckets(settings.key_rate, settings.burst)
        self._origins = {origin.encode() for origin in settings.cors}

    def admit(self, scope: Scope, headers: dict[bytes, bytes], role: str) -> Caller:
        """Return who asks, if they may."""
        if b"host" not in headers:
            _refuse_no_host(scope)
        address = ""
        if self._by_address.rate:
            address = bucket_of(self._address(scope, headers))
            _refuse_after(self._by_address.wait(address, time.monotonic()), "address")
        holder = self.holder(headers)
        if role not in holder.roles:
            raise self._refusal(role, holder)
        if self._by_key.rate and holder.name:
            _refuse_after(self._by_key.wait(holder.name, time.monotonic()), "key")
        return Caller(holder, address)

    def block(self, scope: Scope) -> str:
        """Return the address block that a request comes from."""
        return block_of(self._address(scope, dict(scope["headers"])))

    def _address(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        peer = scope["client"][0] if scope.get("client") else ""
        return self._addresses.of(peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"))

    def holder(self, headers: dict[bytes, bytes]) -> Holder:
        """Return whose key a request carries, as the keys are now."""
        authorization = headers.get(b"authorization")
        if authorization is None:
            host = headers.get(b"host", b"localhost")  # no name was looked up by HTTP/1.0, and no browser speaks it
            return self.keys.anybody(host, *(headers.get(name, b"") for name in (b"origin", b"sec-fetch-site")))
        return self.keys.holder(authorization)

    def _refusal(self, role: str, holder: Holder) -> Refused:
        if holder is not NOBODY:
            return Refused(
                403, f"this key has not the role {role}: make one with maskedbandits key create --role {role}"
            )
        if self.keys.is_open:
            what = "without any key only this machine may ask, and no page of another site"
            return Refused(403, f"{what}: make keys with maskedbandits key create, or list the page's origin in cors")
        what = f"a key with the role {role} is needed, and there is none here, or it is revoked"
        return Refused(401, f"{what}: send Authorization: Bearer KEY", [(b"www-authenticate", b"Bearer")])

    def charge(self, caller: Caller, cost: int) -> None:
        """Count a request of many decisions or reports as that many, before any of them is done, or refuse it."""
        if cost > 1:
            now = time.monotonic()
            _refuse_after(self._by_address.wait(caller.address, now, cost, taken=1), "address")
            if caller.holder.name:
                _refuse_after(self._by_key.wait(caller.holder.name, now, cost, taken=1), "key")

    def cors(self, origin: bytes) -> list[Header]:
        """Return the headers that let a page of this origin see the answer; none if it may not."""
        if b"*" in self._origins:
            return [(b"access-control-allow-origin", b"*"), EXPOSED]
        if origin in self._origins:
            return [(b"access-control-allow-origin", origin), EXPOSED, VARY]
        return [VARY] if self._origins else []

    def preflight(self, origin: bytes) -> Answer:
        """Return the answer to a browser that asks whether a page may ask; it carries no key yet."""
        if b"*" in self._origins or origin in self._origins:
            return Answer(204, b"", ALLOWED)
        raise Refused(403, "pages of this origin may not ask: list it in the setting cors")


def refuse_repeated(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """Refuse two headers of one name, of which a proxy may have checked the other (RFC 9110, section 5.3)."""
    if len(headers) < len(scope["headers"]):  # some header came twice
        for header in ONCE:
            if sum(name == header.lower().encode() for name, _ in scope["headers"]) > 1:
                raise Refused(400, f"the request has two {header} headers: send one")


def _refuse_no_host(scope: Scope) -> None:
    """Refuse a request without a host, unless it is of a time when there was none (RFC 9112, section 3.2)."""
    if scope["http_version"] != "1.0":
        raise Refused(400, "the request has no Host header: send one, or ask by HTTP/1.0")


def _refuse_after(seconds: float, what: str) -> None:
    if seconds:
        raise later(429, TOO_OFTEN.format(what), seconds)
