"""Keys of those who ask: 256 random bits each, of which the store holds a digest alone; and who may do what.

A device's key decides and reports. One to read sees experiments, their state and the metrics. An administrator's does
all of that, and changes experiments. Where there is no key at all and only this machine can ask, everybody may do
everything; but no page of another site, whose name for this machine could be anybody's.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.errors import UserError, WrongValueError, line, nearest, shown
from maskedbandits.service.secret import CHECK, NONCE, START_OVER, derive, seal, secret_of, unseal
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import is_loopback
from maskedbandits.service.storage.keys import MAX_SIGNING_KEYS
from maskedbandits.service.storage.models import DECISION_ID_BYTES
from maskedbandits.service.tokens import SECRET, Keyring

if TYPE_CHECKING:
    from maskedbandits.service.storage.models import KeyRow
    from maskedbandits.service.storage.store import Store

PREFIX = "mb_"  # by which those who look for leaked keys can know one
LONGEST_NAME = 64
MAY = {"device": frozenset({"device"}), "read": frozenset({"read"}), "admin": frozenset({"device", "read", "admin"})}
ROLES = tuple(MAY)
LONGEST_HOST = 300  # bytes: a name has at most 253, and a port 5
HOST = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")  # RFC 3986, section 3.2
OWN_SITE = (b"", b"none", b"same-origin")  # no browser, a person who typed the address, a page of the service


class Holder(NamedTuple):
    """Who asks, and what they may do."""

    name: str
    roles: frozenset[str]


NOBODY = Holder("", frozenset())
ANYBODY = Holder("", MAY["admin"])


def digest_of(key: str) -> bytes:
    """Return what the store holds of a key; of 256 random bits a plain digest gives nothing away."""
    return hashlib.sha256(key.encode()).digest()


def create_key(store: Store, role: str, name: str | None, hour: int) -> tuple[str, str]:
    """Make a key, and return its name and the key itself, which is told this once."""
    if role not in MAY:
        raise UserError(f"no role is called {role!r}{nearest(role, ROLES)}")
    name = secrets.token_hex(4) if name is None else _checked_name(name)
    key = PREFIX + secrets.token_urlsafe(SECRET)
    store.add_key(name, role, digest_of(key), hour)
    return name, key


def _checked_name(name: str) -> str:
    if len(line("name", name)) > LONGEST_NAME or not name.isascii() or " " in name:
        raise WrongValueError("name", name, f"at most {LONGEST_NAME} letters without blanks, such as shop-web")
    return name


def revoke_key(store: Store, name: str, hour: int) -> None:
    """Let a key be of no more use."""
    rows = store.list_keys()
    if any(row.id == name and row.revoked is not None for row in rows):
        raise UserError(f"the key {name!r} is revoked already: nothing is to be done")
    store.revoke_key(name, hour)


def rotate(store: Store, keep: int | None = None) -> tuple[int, list[int]]:
    """Sign with a new key from now on, and believe only so many of those before it, all unless told otherwise.

    Return the number of the new one and of those dropped. Tokens that a dropped one has signed are forged from then on.
    """
    if keep == 0:  # nothing is left that the earlier secret has sealed
        store.drop_meta(CHECK)
    sealed = seal(sealing_key(secret_of(store)), secrets.token_bytes(SECRET))
    return (store.add_signing_key(sealed), []) if keep is None else store.rotate_signing_keys(sealed, keep)


@dataclass
class Secrets:
    """What signs tokens, and what visitors and ids of decisions are hashed under."""

    ring: Keyring
    visitor: bytes
    decision: bytes


def secrets_of(store: Store) -> Secrets:
    """Return the secrets of a store; the first signing key is made when it is first needed, by one process."""
    secret = secret_of(store)
    sealing = sealing_key(secret)
    if not store.list_signing_keys():
        store.add_signing_key(seal(sealing, secrets.token_bytes(SECRET)), first=True)
    signing = [each for each in store.list_signing_keys() if _is_sound(store.name, *each)]
    if not signing:
        raise UserError(f"{store.name}: all signing keys are damaged: restore a backup, or run {START_OVER}")
    ring = Keyring({number: unseal(sealing, sealed) for number, sealed in signing}, signing[0][0])
    return Secrets(ring, derive(secret, "visitor"), decision_key(secret))


def _is_sound(store: str, number: int, sealed: bytes) -> bool:
    """Tell whether a signing key is as one was written; others are passed over."""
    is_sound = 0 <= number < MAX_SIGNING_KEYS and len(sealed) == NONCE + SECRET
    if not is_sound:
        _warn_damaged(store, number)
    return is_sound


@lru_cache(maxsize=MAX_SIGNING_KEYS)  # keys are read again every few seconds
def _warn_damaged(store: str, number: int) -> None:
    logging.event("signing key is damaged and not used", storage=store, key=number, remedy="restore a backup")


def sealing_key(secret: bytes) -> bytes:
    """Return the key that signing keys are sealed with."""
    return derive(secret, "signing keys")


def decision_key(secret: bytes) -> bytes:
    """Return the key that ids of decisions are hashed under."""
    return derive(secret, "decisions")


def hidden_id(key: bytes, identity: bytes) -> bytes:
    """Return what the log holds of a decision's id."""
    return hmac.digest(key, identity, "sha256")[:DECISION_ID_BYTES]


class Keys:
    """The keys of a store as they were when it was last looked at, and what a request may do."""

    def __init__(self, host: str, origins: Sequence[str] = ()) -> None:
        self._is_loopback = is_loopback(host)
        self._origins = {origin.encode() for origin in origins}
        self._holders: dict[bytes, Holder] = {}
        self._seen: dict[bytes, Holder] = {}  # by the bare key: at most as many as there are keys
        self._roleless: set[str] = set()  # keys whose role nobody knows, which has been said
        self.is_open = False

    def refresh(self, rows: Sequence[KeyRow]) -> None:
        """Go by these keys; a revoked one is of no use from now on, and a store that ever had one is not open."""
        known = [row for row in rows if row.revoked is None]
        self._holders = {row.digest: Holder(row.id, MAY.get(row.role, frozenset())) for row in known}
        for row in known:
            if row.role not in MAY and row.id not in self._roleless:
                self._roleless.add(row.id)
                logging.event("key has an unknown role, and no rights", key=row.id, role=shown(row.role))
        self._seen = {}
        self.is_open = self._is_loopback and not rows

    def holder(self, authorization: bytes) -> Holder:
        """Return who sends this header."""
        scheme, _, padded = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return NOBODY
        key = padded.strip()
        found = self._seen.get(key)
        if found is None:
            found = self._holders.get(hashlib.sha256(key).digest())
            if found is None:
                return NOBODY
            self._seen[key] = found
        return found

    def anybody(self, host: bytes, origin: bytes, site: bytes = b"") -> Holder:
        """Return what may be done without a key: everything where there are none, by whoever is on this machine.

        A page of another site could make a browser ask, or have its own name stand for this machine. Pages that come
        from this very service, as the dashboard does, may ask. Where a browser tells no origin, as of a picture that a
        page wants, it tells whether the page is of the same (Sec-Fetch-Site, Fetch Metadata): whether there is such a
        picture would tell the page something, too.
        """
        is_ours = origin == b"http://" + host.lower() or origin in self._origins if origin else site in OWN_SITE
        return ANYBODY if self.is_open and is_own_name(host) and is_ours else NOBODY


def is_own_name(host: bytes) -> bool:
    """Tell whether a Host header names this machine, so that nobody else's name was looked up.

    Letters of a name may be large, and a dot may end it: it is the same name (RFC 9110, section 4.2.3).
    """
    return len(host) <= LONGEST_HOST and _is_own(host)


@lru_cache(maxsize=1024)
def _is_own(host: bytes) -> bool:
    found = HOST.fullmatch(host.decode("latin-1").lower())
    return found is not None and is_loopback(found["six"] or found["name"].removesuffix("."))
