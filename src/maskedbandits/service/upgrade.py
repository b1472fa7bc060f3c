"""Upgrading a store: what an older version has written in plain is sealed or hashed with the service's secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maskedbandits.service.keys import decision_key, hidden_id, sealing_key
from maskedbandits.service.secret import seal, secret_of

if TYPE_CHECKING:
    from maskedbandits.service.storage.base import Transaction
    from maskedbandits.service.storage.store import Store

PLAIN = 2  # the last version whose tables held secrets and ids as they are
AT_ONCE = 5_000  # ids


def upgraded(store: Store) -> tuple[int, int]:
    """Bring the tables of an older version to this one, whole or not at all; return both."""
    secret = secret_of(store) if store.read_version() <= PLAIN else b""

    def hide(tx: Transaction, version: int) -> None:
        if version <= PLAIN:
            _hide_signing_keys(tx, sealing_key(secret))
            _hide_ids(tx, decision_key(secret))

    return store.upgrade(hide)


def _hide_signing_keys(tx: Transaction, key: bytes) -> None:
    """Seal the signing keys, so that tokens which are open stay good."""
    for number, plain in tx.query("SELECT id, secret FROM signing_key"):
        tx.execute("UPDATE signing_key SET secret = ? WHERE id = ?", (seal(key, bytes(plain)), number))


def _hide_ids(tx: Transaction, key: bytes) -> None:
    """Hash the ids of decisions, which held the minute of the decision."""
    for (experiment,) in tx.query("SELECT id FROM experiment"):
        last = 0
        while found := tx.query(_IDS, (experiment, last, AT_ONCE)):
            tx.execute_many(_HIDE, [(hidden_id(key, bytes(plain)), experiment, seq) for seq, plain in found])
            last = found[-1][0]


_IDS = "SELECT seq, decision FROM event WHERE experiment = ? AND seq > ? AND decision IS NOT NULL ORDER BY seq LIMIT ?"
_HIDE = "UPDATE event SET decision = ? WHERE experiment = ? AND seq = ?"
