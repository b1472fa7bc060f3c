"""Keys in a store: digests of API keys, and the sealed secrets that sign tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence

from maskedbandits.errors import UserError, suggest_nearest
from maskedbandits.service.storage.base import StoreBackend
from maskedbandits.service.storage.layouts import refuse_while_shared
from maskedbandits.service.storage.models import KeyRow, check_name

MAX_SIGNING_KEYS = 256  # a token names its key in one byte


class Keys(StoreBackend):
    """The keys of a store."""

    def add_key(
        self,
        id: str,  # noqa: A002 - the column's name
        role: str,
        digest: bytes,
        hour: int,
        experiments: Sequence[str] | None = None,
    ) -> None:
        """Add an API key, for some experiments or for all; the store has its digest alone."""
        check_name("key id", id)
        names = None if experiments is None else json.dumps([check_name("experiment", each) for each in experiments])
        with self._begin_write(exclusive=True) as tx:
            if tx.query("SELECT 1 FROM api_key WHERE id = ?", (id,)):
                raise UserError(f"the key {id!r} already exists: give another name")
            if names is not None:
                refuse_while_shared(tx, f"the key {id!r} is limited to some experiments")
            tx.execute(
                "INSERT INTO api_key (id, role, digest, created, revoked, name, experiments) "
                "VALUES (?, ?, ?, ?, NULL, ?, ?)",
                (id, check_name("role", role), digest, hour, id, names),
            )

    def list_keys(self) -> list[KeyRow]:
        """Return all API keys, the oldest first, including revoked ones."""
        with self._begin_read() as tx:
            rows = tx.query("SELECT id, role, digest, created, revoked, experiments FROM api_key")
        keys = [
            KeyRow(id_, role, digest, created, revoked, None if names is None else _decode_names(names))
            for id_, role, digest, created, revoked, names in rows
        ]
        return sorted(keys, key=lambda key: (key.created, key.id))

    def revoke_key(self, id: str, hour: int) -> None:  # noqa: A002 - as above
        """Revoke an API key; one that is revoked stays as it is."""
        with self._begin_write(exclusive=True) as tx:
            known = [row[0] for row in tx.query("SELECT id FROM api_key")]
            if id not in known:
                raise UserError(f"no key has the id {id!r}{suggest_nearest(id, known)}")
            tx.execute("UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", (hour, id))

    def list_signing_keys(self) -> list[tuple[int, bytes]]:
        """Return id and sealed secret of each signing key, the newest first."""
        with self._begin_read() as tx:
            rows = tx.query("SELECT id, secret FROM signing_key ORDER BY made DESC")
        return [(key, secret) for key, secret in rows]

    def add_signing_key(self, secret: bytes, *, first: bool = False) -> int:
        """Add a secret and return its unused id; ``first``: only if the store has none yet."""
        return self.rotate_signing_keys(secret, first=first)[0]

    def rotate_signing_keys(
        self, secret: bytes, keep: int = MAX_SIGNING_KEYS, *, first: bool = False
    ) -> tuple[int, list[int]]:
        """Add a secret and drop all but the newest ``keep`` before it; return its id, and the ids dropped."""
        with self._begin_write(exclusive=True) as tx:
            rows = tx.query("SELECT id, made FROM signing_key ORDER BY made DESC")
            newest, made = rows[0] if rows else (-1, 0)
            if first and rows:
                return int(newest), []
            used = [int(row[0]) for row in rows]
            dropped = used[keep:]
            following = [(newest + step) % MAX_SIGNING_KEYS for step in range(1, MAX_SIGNING_KEYS + 1)]
            # Reuse the id of a dropped key only if no other is free: processes may accept the old key for some seconds.
            free = [key for key in following if key not in used] or [key for key in following if key in dropped]
            if not free:
                remedy = "drop old ones with maskedbandits key rotate --keep 20, which keeps the newest 20"
                raise UserError(f"{MAX_SIGNING_KEYS} signing keys are in use: {remedy}")
            for old in dropped:
                tx.execute("DELETE FROM signing_key WHERE id = ?", (old,))
            tx.execute("INSERT INTO signing_key (id, made, secret) VALUES (?, ?, ?)", (free[0], made + 1, secret))
            return free[0], dropped

    def drop_signing_key(self, id: int) -> None:  # noqa: A002 - as above
        """Drop a secret, which makes the tokens signed with it invalid."""
        with self._begin_write(exclusive=True) as tx:
            if not tx.execute("DELETE FROM signing_key WHERE id = ?", (id,)):
                raise UserError(f"no signing key has the id {id}")


def _decode_names(text: str) -> tuple[str, ...]:
    """Return the experiments of a key; none if the text is damaged, so that the key reaches too few and not all."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        return ()
