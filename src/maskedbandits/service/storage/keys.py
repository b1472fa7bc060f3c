"""Keys of a store: digests of those that open the service, and, sealed, the secrets that tokens are signed with."""

from __future__ import annotations

from maskedbandits.errors import UserError, nearest
from maskedbandits.service.storage.database import Database
from maskedbandits.service.storage.models import KeyRow
from maskedbandits.service.storage.texts import short

SIGNING_KEYS = 256  # a token names its key in one byte


class Keys(Database):
    """The part of a store that holds keys."""

    def add_key(self, id: str, role: str, digest: bytes, hour: int) -> None:  # noqa: A002 - as the column is called
        """Add a key to the service; what is kept is its digest."""
        short("key id", id)
        with self._writing(alone=True) as do:
            if do.rows("SELECT 1 FROM api_key WHERE id = ?", (id,)):
                raise UserError(f"a key has the id {id!r} already: give another")
            do.changed(
                "INSERT INTO api_key (id, role, digest, created, revoked) VALUES (?, ?, ?, ?, NULL)",
                (id, short("role", role), digest, hour),
            )

    def keys(self) -> list[KeyRow]:
        """Return all keys to the service, the oldest first; revoked ones, too."""
        with self._reading() as do:
            found = do.rows("SELECT id, role, digest, created, revoked FROM api_key")
        return sorted((KeyRow(*row) for row in found), key=lambda key: (key.created, key.id))

    def revoke_key(self, id: str, hour: int) -> None:  # noqa: A002 - as above
        """Revoke a key; one that is revoked stays as it is."""
        with self._writing(alone=True) as do:
            known = [row[0] for row in do.rows("SELECT id FROM api_key")]
            if id not in known:
                raise UserError(f"no key has the id {id!r}{nearest(id, known)}")
            do.changed("UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", (hour, id))

    def signing_keys(self) -> list[tuple[int, bytes]]:
        """Return the sealed secrets that tokens are signed with, the newest first: id and secret."""
        with self._reading() as do:
            found = do.rows("SELECT id, secret FROM signing_key ORDER BY made DESC")
        return [(each, secret) for each, secret in found]

    def add_signing_key(self, secret: bytes, *, first: bool = False) -> int:
        """Add a secret and return its id, which is not one in use; ``first``: only where there is none yet."""
        return self.rotate_signing_keys(secret, first=first)[0]

    def rotate_signing_keys(
        self, secret: bytes, keep: int = SIGNING_KEYS, *, first: bool = False
    ) -> tuple[int, list[int]]:
        """Add a secret, and drop all before it but the newest so many, at once; return its id, and what was dropped."""
        with self._writing(alone=True) as do:
            kept = do.rows("SELECT id, made FROM signing_key ORDER BY made DESC")
            newest, made = kept[0] if kept else (-1, 0)
            if first and kept:
                return int(newest), []
            used = [int(row[0]) for row in kept]
            dropped = used[keep:]
            turn = [(newest + step) % SIGNING_KEYS for step in range(1, SIGNING_KEYS + 1)]
            # One of those dropped only if there is no other: processes may believe in it for some seconds.
            free = [each for each in turn if each not in used] or [each for each in turn if each in dropped]
            if not free:
                some = "drop old ones with maskedbandits key rotate --keep 20, which keeps the newest 20"
                raise UserError(f"{SIGNING_KEYS} signing keys are in use: {some}")
            for old in dropped:
                do.changed("DELETE FROM signing_key WHERE id = ?", (old,))
            do.changed("INSERT INTO signing_key (id, made, secret) VALUES (?, ?, ?)", (free[0], made + 1, secret))
            return free[0], dropped

    def drop_signing_key(self, id: int) -> None:  # noqa: A002 - as above
        """Drop a secret; tokens that were signed with it are worth nothing from then on."""
        with self._writing(alone=True) as do:
            if not do.changed("DELETE FROM signing_key WHERE id = ?", (id,)):
                raise UserError(f"no signing key has the id {id}")
