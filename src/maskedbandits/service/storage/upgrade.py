"""Upgrades of a store: additions that older processes do not notice, then changes while newer ones run.

`expand` adds what version 4 has beside the tables of version 3, which stay as they are. So processes of both releases
may run. `upgrade` needs all of them to be on this release. It renames the columns of the ids, which makes statements
of the older release fail as a whole, moves the ids in small transactions, and removes the columns. Each step may be
repeated, so an upgrade that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from maskedbandits._util.safe_text import format_count
from maskedbandits.errors import UserError
from maskedbandits.service.storage import schema
from maskedbandits.service.storage.base import StoreBackend, Transaction
from maskedbandits.service.storage.errors import Busy, LayoutChanged, StoreUnavailable
from maskedbandits.service.storage.layouts import (
    MOVING_KEY,
    OLD_COLUMNS,
    SHARED_VERSION,
    Layout,
    find_layout,
)

IDS_AT_ONCE = 1_000  # in a transaction
TABLE_TIMEOUT_S = 60.0  # for which a change of the tables is tried again
PAUSE_S = 0.2  # between two tries, in which others use the tables

T = TypeVar("T")
Rewrite = Callable[[Transaction, int], None]


class Upgrades(StoreBackend):
    """The version of a store, and the ways to a newer one."""

    def read_version(self) -> int:
        """Return the version of the tables."""
        with self._begin_read() as tx:
            return _read_version(tx, self.name)

    def expand(self) -> None:
        """Add what this version has beside the tables of the one before it; processes of both may go on."""
        with self._begin_read() as tx:
            is_expanded = self._is_expanded(tx)
        if not is_expanded:
            self._change_tables(self._expand)

    def upgrade(self, rewrite: Rewrite) -> tuple[int, int]:
        """Bring tables of an older version to this one, and return both versions.

        Tables of version 3 are upgraded while processes of this release use them. Older ones are upgraded in one
        transaction, in which ``rewrite`` gets the tables of version 3 and the version that they had.
        """
        version = self.read_version()
        if version < SHARED_VERSION:
            with self._begin_write(exclusive=True) as tx:
                self._upgrade_at_once(tx, rewrite)
            return version, schema.VERSION
        layout = self._read_layout()
        if layout is Layout.CURRENT:
            return version, schema.VERSION
        if layout is Layout.SHARED:
            self.expand()
            self._refuse_older_processes()
        self._change_tables(self._switch)
        try:
            self._move_ids()
        except LayoutChanged:  # another process has finished the same upgrade
            if self._read_layout() is not Layout.CURRENT:
                raise
        self._change_tables(self._finish)
        return SHARED_VERSION, schema.VERSION

    def _refuse_older_processes(self) -> None:
        """Refuse to take the tables away from processes of an earlier release, as far as the database knows them."""
        with self._begin_read() as tx:
            count = tx.query(self.COUNT_OLDER)[0][0]
        if count:
            who = f"{format_count(count, 'connection')} of an earlier release"
            raise UserError(f"{self.name}: {who}: restart its processes with this release first")

    def _change_tables(self, work: Callable[[Transaction], T]) -> T:
        """Change tables in one transaction, which waits for others only briefly, because new ones wait behind it."""
        until = time.monotonic() + TABLE_TIMEOUT_S
        while True:
            try:
                with self._begin_write(exclusive=True) as tx:
                    for statement in self.WAIT_BRIEFLY:
                        tx.execute(statement)
                    return work(tx)
            except Busy:
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)

    # Steps. Each does nothing if it was done before.

    def _expand(self, tx: Transaction) -> None:
        if self._is_expanded(tx):
            return
        for statement in schema.list_additions(self.DIALECT):
            tx.execute(statement)

    def _is_expanded(self, tx: Transaction) -> bool:
        return _read_version(tx, self.name) != SHARED_VERSION or bool(tx.query(self.FIND_ADDITIONS))

    def _switch(self, tx: Transaction) -> None:
        """Let new ids go to their own table, and hide the old columns from older processes."""
        if _read_version(tx, self.name) != SHARED_VERSION:
            return
        for column, renamed in OLD_COLUMNS.items():
            tx.execute(f"ALTER TABLE event RENAME COLUMN {column} TO {renamed}")
        _set_key(tx, MOVING_KEY, "yes")
        _set_key(tx, schema.VERSION_KEY, str(schema.VERSION))

    def _move_ids(self) -> None:
        """Move all ids to their own table, a few at a time."""
        with self._begin_read() as tx:
            experiments = _list_unmoved(tx)
        for experiment in experiments:
            last: bytes | None = b""
            while last is not None:
                with self._begin_write(exclusive=True) as tx:
                    tx.query(f"SELECT id FROM experiment WHERE id = ?{self.FOR_UPDATE}", (experiment,))  # noqa: S608 - our own words
                    last = _move_some(tx, experiment, last)

    def _finish(self, tx: Transaction) -> None:
        """Remove the old indexes and columns, which are empty now."""
        if not _has_key(tx, MOVING_KEY):
            return
        if left := _list_unmoved(tx):
            raise StoreUnavailable(f"{self.name}: experiment {left[0]} has ids that were not moved: try again")
        for statement in ("DROP INDEX event_decision", "DROP INDEX event_expires", *self.DROP_OLD_COLUMNS):
            tx.execute(statement)
        tx.execute("DELETE FROM meta WHERE key = ?", (MOVING_KEY,))

    def _upgrade_at_once(self, tx: Transaction, rewrite: Rewrite) -> None:
        version = _read_version(tx, self.name)
        if version >= SHARED_VERSION:  # another process was first
            return
        for statement in schema.list_upgrade_steps(version, self.DIALECT):
            tx.execute(statement)
        rewrite(tx, version)
        _set_key(tx, schema.VERSION_KEY, str(SHARED_VERSION))
        self._expand(tx)
        self._switch(tx)
        for experiment in _list_unmoved(tx):
            last: bytes | None = b""
            while last is not None:
                last = _move_some(tx, experiment, last)
        self._finish(tx)

    # The layout of the tables

    def _in_layout(self, work: Callable[[Layout], T]) -> T:
        """Do some work in the layout of the tables; look at it again if an upgrade has changed it meanwhile."""
        while True:
            layout = self._layout or self._read_layout()
            try:
                return work(layout)
            except LayoutChanged:
                if self._read_layout() is layout:  # not changed, but damaged
                    raise

    def _read_layout(self) -> Layout:
        with self._begin_read() as tx:
            rows = tx.query("SELECT key, value FROM meta WHERE key IN (?, ?)", (schema.VERSION_KEY, MOVING_KEY))
        self._layout = find_layout([(key, value) for key, value in rows], self.name)
        return self._layout


def _read_version(tx: Transaction, name: str) -> int:
    found = tx.query("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,))
    return schema.parse_version(found[0][0] if found else None, name)


def _has_key(tx: Transaction, key: str) -> bool:
    return bool(tx.query("SELECT 1 FROM meta WHERE key = ?", (key,)))


def _set_key(tx: Transaction, key: str, value: str) -> None:
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def _list_unmoved(tx: Transaction) -> list[int]:
    """Return the experiments with ids in their log, also those that are being deleted."""
    rows = tx.query("SELECT DISTINCT experiment FROM event WHERE old_decision IS NOT NULL ORDER BY experiment")
    return [experiment for (experiment,) in rows]


def _move_some(tx: Transaction, experiment: int, after: bytes) -> bytes | None:
    """Move some ids after an id, in their order; return the last one, or None if there are no more."""
    rows = tx.query(_OLD_IDS, (experiment, after, IDS_AT_ONCE))
    tx.insert("report_id", rows)
    tx.execute_many(_EMPTY_OLD_ID, [(experiment, seq) for _, _, seq, _ in rows])
    return bytes(rows[-1][1]) if rows else None


_OLD_IDS = (
    "SELECT experiment, old_decision, seq, old_expires FROM event WHERE experiment = ? AND old_decision > ? "
    "ORDER BY old_decision LIMIT ?"
)
_EMPTY_OLD_ID = "UPDATE event SET old_decision = NULL, old_expires = NULL WHERE experiment = ? AND seq = ?"
