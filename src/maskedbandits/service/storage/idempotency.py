"""Replies to requests that a client may repeat, stored in the transaction of the change (header Idempotency-Key)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maskedbandits.service.storage.base import StoreBackend, Transaction
from maskedbandits.service.storage.errors import Conflict
from maskedbandits.service.storage.models import MINUTES_PER_DAY, ArmRow, ExperimentRow

KEPT_MINUTES = MINUTES_PER_DAY  # after which a key may be used for another request


class StoredReply(NamedTuple):
    """The first reply to a request."""

    status: int
    body: str


class RepeatedRequest(Exception):  # noqa: N818 - it is no error
    """The request was carried out before; its reply is attached."""

    def __init__(self, reply: StoredReply) -> None:
        super().__init__(reply)
        self.reply = reply


class RepeatableRequest(NamedTuple):
    """A request that a client may send again: a digest of caller, path and key, and one of the body."""

    key: str
    digest: bytes
    minute: int  # now
    status: int  # of the reply to be stored
    build_body: Callable[[ExperimentRow, Sequence[ArmRow]], str]


def refuse_repeated(tx: Transaction, request: RepeatableRequest) -> None:
    """Raise `RepeatedRequest` if the request was carried out, or a `Conflict` if its key was used for another one."""
    found = tx.query(
        "SELECT digest, status, body FROM idempotency WHERE key = ? AND expires > ?", (request.key, request.minute)
    )
    if not found:
        return
    digest, status, body = found[0]
    if digest != request.digest:
        what = "this Idempotency-Key was sent with another body before: use a new key for a new request"
        raise Conflict(what, "idempotency_key_reused")
    raise RepeatedRequest(StoredReply(status, body))


def save_reply(tx: Transaction, request: RepeatableRequest, row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
    """Store the reply to a request; an expired one of the same key is replaced."""
    tx.execute("DELETE FROM idempotency WHERE key = ?", (request.key,))
    tx.execute(
        "INSERT INTO idempotency (key, digest, status, body, expires) VALUES (?, ?, ?, ?, ?)",
        (
            request.key,
            request.digest,
            request.status,
            request.build_body(row, arms),
            request.minute + KEPT_MINUTES,
        ),
    )


class Idempotency(StoreBackend):
    """The stored replies."""

    def refuse_repeated(self, request: RepeatableRequest) -> None:
        """Raise `RepeatedRequest` or `Conflict` for a request whose key was used."""
        with self._begin_read() as tx:
            refuse_repeated(tx, request)

    def forget_replies(self, minute: int) -> None:
        """Delete replies that have expired."""
        with self._begin_read() as tx:
            has_expired = bool(tx.query("SELECT 1 FROM idempotency WHERE expires <= ? LIMIT 1", (minute,)))
        if has_expired:
            with self._begin_write() as tx:
                tx.execute("DELETE FROM idempotency WHERE expires <= ?", (minute,))
