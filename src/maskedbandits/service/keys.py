"""API keys: 256 random bits each, of which the store holds only a digest, and the rights of their holders.

A device's key decides and reports. A key with the role read sees experiments, their state and the metrics. An
administrator's key does all of that, and changes experiments. If a store has no key and the service listens on loopback
alone, all local programs have all rights. Pages of other sites have none, because any name could resolve to loopback.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.errors import UserError, WrongValueError, line, nearest, shown
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import is_loopback

if TYPE_CHECKING:
    from maskedbandits.service.storage.models import KeyRow
    from maskedbandits.service.storage.store import Store

PREFIX = "mb_"  # lets scanners for leaked keys recognise one
KEY_BYTES = 32
MAX_NAME_LENGTH = 64
ROLE_RIGHTS = {
    "device": frozenset({"device"}),
    "read": frozenset({"read"}),
    "admin": frozenset({"device", "read", "admin"}),
}
ROLES = tuple(ROLE_RIGHTS)
MAX_HOST_BYTES = 300  # a name has at most 253, and a port 5
HOST = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")  # RFC 3986, section 3.2
SAME_SITE = (b"", b"none", b"same-origin")  # no browser, a typed address, a page of the service itself


class KeyHolder(NamedTuple):
    """The name of a key, and its rights."""

    name: str
    roles: frozenset[str]


ANONYMOUS = KeyHolder("", frozenset())
LOCAL_ADMIN = KeyHolder("", ROLE_RIGHTS["admin"])


def hash_key(key: str) -> bytes:
    """Return the digest that the store holds; a plain one is enough for 256 random bits."""
    return hashlib.sha256(key.encode()).digest()


def create_key(store: Store, role: str, name: str | None, hour: int) -> tuple[str, str]:
    """Create a key; return its name and the key itself, which is not stored."""
    if role not in ROLE_RIGHTS:
        raise UserError(f"no role is called {role!r}{nearest(role, ROLES)}")
    name = secrets.token_hex(4) if name is None else _check_name(name)
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    store.add_key(name, role, hash_key(key), hour)
    return name, key


def _check_name(name: str) -> str:
    if len(line("name", name)) > MAX_NAME_LENGTH or not name.isascii() or " " in name:
        raise WrongValueError("name", name, f"at most {MAX_NAME_LENGTH} letters without blanks, such as shop-web")
    return name


def revoke_key(store: Store, name: str, hour: int) -> None:
    """Revoke a key."""
    rows = store.list_keys()
    if any(row.id == name and row.revoked is not None for row in rows):
        raise UserError(f"the key {name!r} is revoked already: nothing is to be done")
    store.revoke_key(name, hour)


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
        self._holders = {row.digest: KeyHolder(row.id, ROLE_RIGHTS.get(row.role, frozenset())) for row in valid}
        for row in valid:
            if row.role not in ROLE_RIGHTS and row.id not in self._roleless:
                self._roleless.add(row.id)
                logging.event("key has an unknown role, and no rights", key=row.id, role=shown(row.role))
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
