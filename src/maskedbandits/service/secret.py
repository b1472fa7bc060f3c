"""The secret of a service, which is never in its database: a key file beside it, or an environment variable.

Everything secret is derived from it: the key that visitors are hashed under, the key that ids of decisions are hashed
under, and the key that seals the signing keys in the database. So a database, or a backup of it, signs no token and
joins no visitor to a report. The store holds a keyed digest of the secret, by which a wrong one is refused.

Sealing is HMAC-SHA256 in counter mode under a random nonce. It hides, and authenticates nothing. Tokens have a digest
of their own. A sealed signing key that somebody changes becomes another key, which nobody knows without the secret.
One of another length is not used (``keys.py``).
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from maskedbandits.errors import UserError
from maskedbandits.service.server import logging

if TYPE_CHECKING:
    from maskedbandits.service.storage.store import Store

VARIABLE, FILE_VARIABLE = "MASKEDBANDITS_SECRET", "MASKEDBANDITS_SECRET_FILE"
CHECK = "secret_check"  # under which the store holds a digest of the secret
LEAST = 32  # letters
NONCE, BLOCK = 16, 32  # bytes
OTHERS = stat.S_IRWXG | stat.S_IRWXO  # all but the owner
START_OVER = "maskedbandits key rotate --keep 0, which refuses all open tokens"


def derive(secret: bytes, purpose: str) -> bytes:
    """Return the key for one purpose."""
    return hmac.digest(secret, purpose.encode(), "sha256")


def seal(key: bytes, plain: bytes) -> bytes:
    """Return bytes that tell nothing without the key."""
    nonce = os.urandom(NONCE)
    return nonce + _masked(key, nonce, plain)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Return what was sealed; with another key, or of other bytes, it is noise."""
    return _masked(key, sealed[:NONCE], sealed[NONCE:])


def _masked(key: bytes, nonce: bytes, plain: bytes) -> bytes:
    blocks = range(-(-len(plain) // BLOCK))
    stream = b"".join(hmac.digest(key, nonce + block.to_bytes(4, "big"), "sha256") for block in blocks)
    masked = int.from_bytes(plain, "big") ^ int.from_bytes(stream[: len(plain)], "big")
    return masked.to_bytes(len(plain), "big")


def secret_of(store: Store, environment: Mapping[str, str] | None = None) -> bytes:
    """Return the secret that belongs to a store; where the store has none yet, a key file is made."""
    variables = os.environ if environment is None else environment
    known = store.read_meta(CHECK)
    found, where = _read(store.key_file, variables, create=known is None)
    check = derive(found, CHECK).hex()
    if known is None:
        known = store.set_default_meta(CHECK, check)
    if known != check:
        raise UserError(
            f"{where}: not the secret of {store.name}: give the one it was started with, or run {START_OVER}"
        )
    return found


def _read(beside: Path, variables: Mapping[str, str], *, create: bool) -> tuple[bytes, str]:
    """Return the secret, and where it is from."""
    if variables.get(VARIABLE):
        return _checked(variables[VARIABLE], VARIABLE), VARIABLE
    path = Path(variables.get(FILE_VARIABLE) or beside)
    try:
        if create and not path.exists():
            _make(path)
        with path.open(encoding="ascii") as stream:
            _refuse_shared(path, stream.fileno())
            return _checked(stream.read(), str(path)), str(path)
    except FileNotFoundError:
        lost = f"{path}: no such key file, and the store was started with one"
        raise UserError(f"{lost}: put it back, set {VARIABLE}, or run {START_OVER}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a key file: put the right one back, or set {VARIABLE}") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: check the path and its permissions, or set {VARIABLE}") from None


def _refuse_shared(path: Path, handle: int) -> None:
    """Refuse a key file that others can read, if it is ours to change; else warn.

    Secrets that a container gets are mounted read-only, or owned by root and writable by nobody.
    """
    if os.name != "posix":
        return
    found = os.fstat(handle)
    mode = stat.S_IMODE(found.st_mode)
    if not mode & OTHERS:
        return
    is_mounted = bool(os.fstatvfs(handle).f_flag & os.ST_RDONLY)
    if found.st_uid == os.geteuid() and mode & stat.S_IWUSR and not is_mounted:
        raise UserError(f"{path}: others can use this key file (mode {mode:04o}): run chmod 600 {path}")
    _warn_shared(str(path), f"{mode:04o}")


@lru_cache(maxsize=16)  # keys are read again every few seconds
def _warn_shared(path: str, mode: str) -> None:
    logging.event("key file is open to others", file=path, mode=mode, remedy="chmod 600, or mount it for one user")


def _checked(text: str, where: str) -> bytes:
    secret = text.strip()
    if len(secret) < LEAST:
        raise UserError(f"{where}: a secret has at least {LEAST} letters: make one with openssl rand -hex 32")
    return secret.encode()


def _make(path: Path) -> None:
    """Make a key file that only its owner can read; of several that do so at once, the first one wins."""
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
