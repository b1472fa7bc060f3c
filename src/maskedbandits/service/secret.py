"""The secret of a service, and the keys that are derived from it or sealed with it.

The secret is never in the database: it is in a key file beside it, or in an environment variable. All keys derive from
it: the one that hashes visitors, the one that hashes ids of decisions, and the one that seals the signing keys in the
database. So a database or its backup can neither sign a token nor join a visitor to a report. The store holds a keyed
digest of the secret, by which a wrong secret is refused.

Sealing is HMAC-SHA256 in counter mode under a random nonce. It hides but does not authenticate. Tokens have a digest of
their own. A sealed signing key that is altered becomes another key, which cannot be known without the secret. A signing
key of another length is not used.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from maskedbandits.errors import UserError
from maskedbandits.service.server import logging
from maskedbandits.service.storage.keys import MAX_SIGNING_KEYS
from maskedbandits.service.storage.models import DECISION_ID_BYTES
from maskedbandits.service.tokens import SIGNING_KEY_BYTES, Keyring

if TYPE_CHECKING:
    from maskedbandits.service.storage.base import Transaction
    from maskedbandits.service.storage.store import Store

VARIABLE, FILE_VARIABLE = "MASKEDBANDITS_SECRET", "MASKEDBANDITS_SECRET_FILE"
CHECK = "secret_check"  # the store holds a digest of the secret under this name
MIN_SECRET_LENGTH = 32  # characters
NONCE_BYTES, BLOCK_BYTES = 16, 32
GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO
START_OVER = "maskedbandits key rotate --keep 0, which invalidates all open tokens"
LAST_PLAIN_VERSION = 2  # of the tables: up to it they held signing keys and ids as they are
IDS_AT_ONCE = 5_000


# Sealing


def derive_key(secret: bytes, purpose: str) -> bytes:
    """Return the key for one purpose."""
    return hmac.digest(secret, purpose.encode(), "sha256")


def derive_sealing_key(secret: bytes) -> bytes:
    """Return the key that seals the signing keys."""
    return derive_key(secret, "signing keys")


def derive_decision_key(secret: bytes) -> bytes:
    """Return the key that hashes ids of decisions."""
    return derive_key(secret, "decisions")


def seal(key: bytes, plain: bytes) -> bytes:
    """Encrypt bytes under a key."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _xor_with_stream(key, nonce, plain)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Decrypt sealed bytes; under another key the result is noise."""
    return _xor_with_stream(key, sealed[:NONCE_BYTES], sealed[NONCE_BYTES:])


def _xor_with_stream(key: bytes, nonce: bytes, plain: bytes) -> bytes:
    blocks = range(-(-len(plain) // BLOCK_BYTES))
    stream = b"".join(hmac.digest(key, nonce + block.to_bytes(4, "big"), "sha256") for block in blocks)
    result = int.from_bytes(plain, "big") ^ int.from_bytes(stream[: len(plain)], "big")
    return result.to_bytes(len(plain), "big")


def hash_decision_id(key: bytes, identity: bytes) -> bytes:
    """Return the keyed digest that the log holds of a decision's id."""
    return hmac.digest(key, identity, "sha256")[:DECISION_ID_BYTES]


# The secret


def load_secret(store: Store, environment: Mapping[str, str] | None = None) -> bytes:
    """Return the secret of a store; create a key file for a store that has no secret yet."""
    variables = os.environ if environment is None else environment
    known = store.read_meta(CHECK)
    secret, where = _read_secret(store.key_file, variables, create=known is None)
    check = derive_key(secret, CHECK).hex()
    if known is None:
        known = store.set_default_meta(CHECK, check)
    if known != check:
        raise UserError(f"{where}: not the secret of {store.name}: give the original one, or run {START_OVER}")
    return secret


def _read_secret(default: Path, variables: Mapping[str, str], *, create: bool) -> tuple[bytes, str]:
    """Return the secret and the name of its source."""
    if variables.get(VARIABLE):
        return _check_length(variables[VARIABLE], VARIABLE), VARIABLE
    path = Path(variables.get(FILE_VARIABLE) or default)
    try:
        if create and not path.exists():
            _create_key_file(path)
        with path.open(encoding="ascii") as stream:
            _check_permissions(path, stream.fileno())
            return _check_length(stream.read(), str(path)), str(path)
    except FileNotFoundError:
        lost = f"{path}: no such key file, but the store was created with one"
        raise UserError(f"{lost}: restore it, set {VARIABLE}, or run {START_OVER}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a key file: restore the right one, or set {VARIABLE}") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: check the path and its permissions, or set {VARIABLE}") from None


def _check_permissions(path: Path, handle: int) -> None:
    """Refuse a key file that others can read if this user can change its mode; else warn.

    A container gets its secrets mounted read-only, or owned by root and writable by no user.
    """
    if os.name != "posix":
        return
    status = os.fstat(handle)
    mode = stat.S_IMODE(status.st_mode)
    if not mode & GROUP_AND_OTHERS:
        return
    is_read_only = bool(os.fstatvfs(handle).f_flag & os.ST_RDONLY)
    if status.st_uid == os.geteuid() and mode & stat.S_IWUSR and not is_read_only:
        raise UserError(f"{path}: others can use this key file (mode {mode:04o}): run chmod 600 {path}")
    _warn_of_permissions(str(path), f"{mode:04o}")


@lru_cache(maxsize=16)  # keys are read again every few seconds, but the warning is logged once
def _warn_of_permissions(path: str, mode: str) -> None:
    logging.event("key file is open to others", file=path, mode=mode, remedy="chmod 600, or mount it for one user")


def _check_length(text: str, where: str) -> bytes:
    secret = text.strip()
    if len(secret) < MIN_SECRET_LENGTH:
        raise UserError(
            f"{where}: a secret needs at least {MIN_SECRET_LENGTH} characters: create one with openssl rand -hex 32"
        )
    return secret.encode()


def _create_key_file(path: Path) -> None:
    """Create a key file that only its owner can read; of several processes that do so at once, the first wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(f"{secrets.token_hex(32)}\n")
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


# Signing keys


@dataclass
class Secrets:
    """The signing keys, and the keys that hash visitors and ids of decisions."""

    ring: Keyring
    visitor: bytes
    decision: bytes


def load_secrets(store: Store) -> Secrets:
    """Return the secrets of a store; the first process that needs a signing key creates it."""
    secret = load_secret(store)
    sealing_key = derive_sealing_key(secret)
    if not store.list_signing_keys():
        store.add_signing_key(seal(sealing_key, secrets.token_bytes(SIGNING_KEY_BYTES)), first=True)
    sealed_keys = [each for each in store.list_signing_keys() if _is_intact(store.name, *each)]
    if not sealed_keys:
        raise UserError(f"{store.name}: all signing keys are damaged: restore a backup, or run {START_OVER}")
    ring = Keyring({number: unseal(sealing_key, sealed) for number, sealed in sealed_keys}, sealed_keys[0][0])
    return Secrets(ring, derive_key(secret, "visitor"), derive_decision_key(secret))


def rotate_signing_key(store: Store, keep: int | None = None) -> tuple[int, list[int]]:
    """Add a signing key and drop all older ones but the last ``keep``; return its number and those dropped.

    By default all older keys stay valid. Tokens of a dropped key count as forged.
    """
    if keep == 0:  # nothing is left that the earlier secret has sealed, so a new secret is accepted
        store.drop_meta(CHECK)
    sealed = seal(derive_sealing_key(load_secret(store)), secrets.token_bytes(SIGNING_KEY_BYTES))
    return (store.add_signing_key(sealed), []) if keep is None else store.rotate_signing_keys(sealed, keep)


def _is_intact(store: str, number: int, sealed: bytes) -> bool:
    """Tell whether a stored signing key has the right length; warn of one that has not."""
    is_intact = 0 <= number < MAX_SIGNING_KEYS and len(sealed) == NONCE_BYTES + SIGNING_KEY_BYTES
    if not is_intact:
        _warn_of_damage(store, number)
    return is_intact


@lru_cache(maxsize=MAX_SIGNING_KEYS)  # keys are read again every few seconds, but the warning is logged once
def _warn_of_damage(store: str, number: int) -> None:
    logging.event("signing key is damaged and not used", storage=store, key=number, remedy="restore a backup")


# Stores of older versions


def upgrade_store(store: Store) -> tuple[int, int]:
    """Upgrade the tables of an older version in one transaction; return the old version and the new one."""
    secret = load_secret(store) if store.read_version() <= LAST_PLAIN_VERSION else b""

    def hide_secrets(tx: Transaction, version: int) -> None:
        if version <= LAST_PLAIN_VERSION:
            _seal_signing_keys(tx, derive_sealing_key(secret))
            _hash_ids(tx, derive_decision_key(secret))

    return store.upgrade(hide_secrets)


def _seal_signing_keys(tx: Transaction, key: bytes) -> None:
    """Seal the signing keys, so that open tokens stay valid."""
    for number, plain in tx.query("SELECT id, secret FROM signing_key"):
        tx.execute("UPDATE signing_key SET secret = ? WHERE id = ?", (seal(key, bytes(plain)), number))


def _hash_ids(tx: Transaction, key: bytes) -> None:
    """Hash the ids of decisions, which held the minute of the decision."""
    for (experiment,) in tx.query("SELECT id FROM experiment"):
        last = 0
        while found := tx.query(_SELECT_IDS, (experiment, last, IDS_AT_ONCE)):
            hashed = [(hash_decision_id(key, bytes(plain)), experiment, seq) for seq, plain in found]
            tx.execute_many(_UPDATE_ID, hashed)
            last = found[-1][0]


_SELECT_IDS = (
    "SELECT seq, decision FROM event WHERE experiment = ? AND seq > ? AND decision IS NOT NULL ORDER BY seq LIMIT ?"
)
_UPDATE_ID = "UPDATE event SET decision = ? WHERE experiment = ? AND seq = ?"
