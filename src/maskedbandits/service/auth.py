"""Authentication and access control: API keys, the rights of their holders, rate limits, and CORS.

A key is 256 random bits, of which the store holds only a digest. A device's key decides and reports. A backend's key
does so for many people. A key with the role read sees experiments, their state and the metrics. An administrator's key
does all of that, and changes experiments. A key may be limited to some experiments: to its holder, others do not exist.
If a store has no key and the service listens on loopback alone, all local programs have all rights. Pages
of other sites have none, because any name could resolve to loopback.

CORS follows the Fetch standard. Starlette's CORS middleware is not used, because its replies differ: a preflight gets
200 with a text, or 400 instead of a line of JSON, and all responses would pass through another layer.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_line, suggest_nearest
from maskedbandits.service.http import Header, RequestError, Response, retry_later
from maskedbandits.service.rate_limits import AddressLimits, ClientAddresses, TokenBuckets, address_block
from maskedbandits.service.schemas import SLUG
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import is_loopback
from maskedbandits.service.shared_table import SharedTable

if TYPE_CHECKING:
    from starlette.types import Scope

    from maskedbandits.service.server.settings import Settings
    from maskedbandits.service.storage.models import KeyRow
    from maskedbandits.service.storage.store import Store

PREFIX = "mb_"  # lets scanners for leaked keys recognise one
KEY_BYTES = 32
MAX_NAME_LENGTH = 64
ROLE_RIGHTS = {
    "device": frozenset({"device"}),
    "backend": frozenset({"device", "backend"}),
    "read": frozenset({"read"}),
    "admin": frozenset({"device", "backend", "read", "admin"}),
}
ROLES = tuple(ROLE_RIGHTS)
MAX_HOST_BYTES = 300  # a name has at most 253, and a port 5
HOST = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")  # RFC 3986, section 3.2
SAME_SITE = (b"", b"none", b"same-origin")  # no browser, a typed address, a page of the service itself
PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"DELETE, GET, PATCH, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, if-match"),
    (b"access-control-max-age", b"86400"),
]
EXPOSED = (b"access-control-expose-headers", b"date, etag, retry-after")  # for pages and earlier clients
VARY = (b"vary", b"origin")
SINGLE_HEADERS = ("Host", "Authorization", "Origin")  # access depends on them
TOO_OFTEN = "too many requests {}: wait for the seconds in Retry-After"
FROM_ADDRESS, WITH_KEY = "from one address (a server needs a key with the role backend)", "with one key"
UNKNOWN_PROXY = "a proxy is not in trusted_proxies, so all its clients count as one address"


# Keys


class KeyHolder(NamedTuple):
    """The name of a key, its rights, and the experiments to which it is limited."""

    name: str
    roles: frozenset[str]
    experiments: frozenset[str] | None = None  # None: all

    @property
    def is_trusted(self) -> bool:
        """Whether this has a secret key, or is a local program of a service without keys; devices have neither."""
        return not self.roles <= {"device"}


ANONYMOUS = KeyHolder("", frozenset())
LOCAL_ADMIN = KeyHolder("", ROLE_RIGHTS["admin"])


def hash_key(key: str) -> bytes:
    """Return the digest that the store holds; a plain one is enough for 256 random bits."""
    return hashlib.sha256(key.encode()).digest()


def create_key(
    store: Store, role: str, name: str | None, hour: int, experiments: Sequence[str] = ()
) -> tuple[str, str]:
    """Create a key, for these experiments if any are given; return its name and the key itself, which is not stored."""
    for each in experiments:
        if not re.match(SLUG, each):
            raise WrongValueError("experiment", each, "the name of an experiment, such as headlines")
    if role not in ROLE_RIGHTS:
        raise UserError(f"no role is called {role!r}{suggest_nearest(role, ROLES)}")
    name = secrets.token_hex(4) if name is None else _check_name(name)
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    store.add_key(name, role, hash_key(key), hour, sorted(set(experiments)) or None)
    return name, key


def _check_name(name: str) -> str:
    if len(check_line("name", name)) > MAX_NAME_LENGTH or not name.isascii() or " " in name:
        raise WrongValueError("name", name, f"at most {MAX_NAME_LENGTH} characters without spaces, such as shop-web")
    return name


def revoke_key(store: Store, name: str, hour: int) -> None:
    """Revoke a key."""
    rows = store.list_keys()
    if any(row.id == name and row.revoked is not None for row in rows):
        raise UserError(f"the key {name!r} is already revoked")
    store.revoke_key(name, hour)


def _build_holder(row: KeyRow) -> KeyHolder:
    experiments = None if row.experiments is None else frozenset(row.experiments)
    return KeyHolder(row.id, ROLE_RIGHTS.get(row.role, frozenset()), experiments)


class ApiKeys:
    """The keys of a store as of the last refresh, and the rights of requests."""

    def __init__(self, host: str, origins: Sequence[str] = ()) -> None:
        self._is_loopback = is_loopback(host)
        self._origins = {origin.encode() for origin in origins}
        self._holders: dict[bytes, KeyHolder] = {}  # by digest
        self._cache: dict[bytes, KeyHolder] = {}  # by the key itself; at most one entry for each valid key
        self._roleless: set[str] = set()  # keys with an unknown role, which has been logged
        self.is_open = False  # whether local programs need no key

    def refresh(self, rows: Sequence[KeyRow]) -> None:
        """Replace the keys; a store that ever had a key is not open."""
        valid = [row for row in rows if row.revoked is None]
        self._holders = {row.digest: _build_holder(row) for row in valid}
        for row in valid:
            if row.role not in ROLE_RIGHTS and row.id not in self._roleless:
                self._roleless.add(row.id)
                logging.event("key has an unknown role, and no rights", key=row.id, role=abbreviate(row.role))
        self._cache = {}
        self.is_open = self._is_loopback and not rows

    def identify(self, authorization: bytes) -> KeyHolder:
        """Return the holder of the key in an Authorization header."""
        scheme, _, padded = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return ANONYMOUS
        key = padded.strip()
        holder = self._cache.get(key)
        if holder is None:
            holder = self._holders.get(hashlib.sha256(key).digest())
            if holder is None:
                return ANONYMOUS
            self._cache[key] = holder
        return holder

    def identify_local(self, host: bytes, origin: bytes, site: bytes = b"") -> KeyHolder:
        """Return the rights of a request without a key: all of them for local programs if the store has no keys.

        A page of another site could make a browser send requests, or let its own name resolve to this machine. Pages
        of this service, such as the dashboard, may send them. Where a browser gives no origin, as for images, it says
        whether the page is of the same site (Sec-Fetch-Site, Fetch Metadata). Images count, because their existence
        alone would tell the page something.
        """
        is_ours = origin == b"http://" + host.lower() or origin in self._origins if origin else site in SAME_SITE
        return LOCAL_ADMIN if self.is_open and is_own_name(host) and is_ours else ANONYMOUS


def is_own_name(host: bytes) -> bool:
    """Tell whether a Host header names this machine by address or as localhost.

    Case and a dot at the end do not matter (RFC 9110, section 4.2.3).
    """
    return len(host) <= MAX_HOST_BYTES and _is_own(host)


@lru_cache(maxsize=1024)
def _is_own(host: bytes) -> bool:
    parts = HOST.fullmatch(host.decode("latin-1").lower())
    return parts is not None and is_loopback(parts["six"] or parts["name"].removesuffix("."))


# Requests


class Caller(NamedTuple):
    """The holder of the key of a request, and its address where that is limited."""

    holder: KeyHolder = ANONYMOUS
    address: str | None = None


class AccessControl:
    """Admits requests, or refuses them."""

    def __init__(self, settings: Settings, table: SharedTable | None = None) -> None:
        self.keys, table = ApiKeys(settings.host, settings.cors), table or SharedTable()
        self._addresses = ClientAddresses(settings.trusted_proxies)
        self._by_address = AddressLimits(settings.address_rate, settings.burst, table)
        self._by_key = TokenBuckets(settings.key_rate, settings.burst, table, b"key")
        self._origins = {origin.encode() for origin in settings.cors}
        self._has_warned_of_proxy = False

    def admit(self, scope: Scope, headers: dict[bytes, bytes], role: str) -> Caller:
        """Return the caller, or raise an error if its key lacks the role or it sends too many requests.

        Only devices and callers without a key are limited by address: a server sends for all its visitors.
        """
        if b"host" not in headers:
            _check_http_version(scope)
        holder = self.identify(headers)
        address = None
        if self._by_address.rate and not holder.is_trusted:
            address = self._find_address(scope, headers)
            _refuse_for(self._by_address.wait(address, time.monotonic()), FROM_ADDRESS)
        if role not in holder.roles:
            raise self._deny(role, holder)
        if holder.name:
            _refuse_for(self._by_key.wait(holder.name.encode(), time.monotonic()), WITH_KEY)
        return Caller(holder, address)

    def find_block(self, scope: Scope) -> str:
        """Return the address block of a request."""
        return address_block(self._find_address(scope, dict(scope["headers"])))

    def _find_address(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        peer, forwarded = scope["client"][0] if scope.get("client") else "", headers.get(b"x-forwarded-for", b"")
        if forwarded and not self._has_warned_of_proxy and self._addresses.is_unknown_proxy(peer):
            self._has_warned_of_proxy = True
            logging.event(UNKNOWN_PROXY, remedy="add its address to trusted_proxies")
        return self._addresses.resolve(peer, forwarded.decode("latin-1"))

    def identify(self, headers: dict[bytes, bytes]) -> KeyHolder:
        """Return the holder of the key in the headers of a request."""
        authorization = headers.get(b"authorization")
        if authorization is None:
            host = headers.get(b"host", b"localhost")  # only HTTP/1.0 may leave it out, and no browser speaks that
            return self.keys.identify_local(host, *(headers.get(name, b"") for name in (b"origin", b"sec-fetch-site")))
        return self.keys.identify(authorization)

    def _deny(self, role: str, holder: KeyHolder) -> RequestError:
        if holder is not ANONYMOUS:
            what = f"this key lacks the role {role}: create one with maskedbandits key create --role {role}"
            return RequestError(403, what, code="role_required")
        if self.keys.is_open:
            what = "without keys, only this machine may send requests, and only from the service's own pages"
            what += ": run maskedbandits key create, or add the page's origin to the setting cors"
            return RequestError(403, what, code="local_only")
        what = f"a valid key with the role {role} is required"
        return RequestError(401, f"{what}: send Authorization: Bearer KEY", [(b"www-authenticate", b"Bearer")])

    def charge(self, caller: Caller, cost: int) -> None:
        """Count a batch as that many requests before any item is processed, or refuse it."""
        if cost > 1:
            now = time.monotonic()
            if caller.address is not None:
                _refuse_for(self._by_address.wait(caller.address, now, cost, taken=1), FROM_ADDRESS)
            if caller.holder.name:
                _refuse_for(self._by_key.wait(caller.holder.name.encode(), now, cost, taken=1), WITH_KEY)

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
        what = "pages of this origin are not allowed: add it to the setting cors"
        raise RequestError(403, what, code="origin_not_allowed")


def refuse_duplicates(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """Refuse two headers of one name: a proxy may have checked the other one (RFC 9110, section 5.3)."""
    if len(headers) < len(scope["headers"]):  # some header came twice
        for header in SINGLE_HEADERS:
            if sum(name == header.lower().encode() for name, _ in scope["headers"]) > 1:
                raise RequestError(400, f"the request has two {header} headers: send one")


def _check_http_version(scope: Scope) -> None:
    """Refuse a request without a Host header, unless it is of HTTP/1.0 (RFC 9112, section 3.2)."""
    if scope["http_version"] != "1.0":
        raise RequestError(400, "the request has no Host header: send one")


def _refuse_for(seconds: float, what: str) -> None:
    if seconds:
        raise retry_later(429, TOO_OFTEN.format(what), seconds)
