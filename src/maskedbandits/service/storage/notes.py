"""Notes of a store: texts under keys, such as the version of its tables."""

from __future__ import annotations

from maskedbandits.errors import UserError
from maskedbandits.service.storage import schema
from maskedbandits.service.storage.database import Database
from maskedbandits.service.storage.texts import short, text


class Notes(Database):
    """The part of a store that holds texts under keys."""

    def meta(self, key: str) -> str | None:
        """Return what was noted under a key."""
        with self._reading() as do:
            found = do.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return found[0][0] if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Note something under a key."""
        if key == schema.VERSION_KEY:
            raise UserError(f"{key!r} says which version the tables have: give another key")
        with self._writing() as do:
            do.changed(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (short("key", key), text("value", value)),
            )

    def first_meta(self, key: str, value: str) -> str:
        """Note something under a key, unless something is noted there; return what is."""
        with self._writing() as do:
            do.changed("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (key, value))
            return str(do.rows("SELECT value FROM meta WHERE key = ?", (key,))[0][0])

    def drop_meta(self, key: str) -> None:
        """Drop the note under a key."""
        with self._writing() as do:
            do.changed("DELETE FROM meta WHERE key = ?", (key,))
