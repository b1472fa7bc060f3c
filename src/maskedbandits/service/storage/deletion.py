"""Deletion of archived experiments: the name is free at once, and the rows go in small batches.

A mark in ``meta`` tells which experiments have rows left, so any process goes on where another was killed. The mark
stays for a few minutes more, for a snapshot that another process may be writing. Ids are never used again. Processes of
version 3 of the tables would, so nothing is deleted while they may run.
"""

from __future__ import annotations

from maskedbandits.service.storage import changes, schema
from maskedbandits.service.storage.audit import AdminRequest
from maskedbandits.service.storage.base import StoreBackend, Transaction, placeholders
from maskedbandits.service.storage.errors import Conflict, ExperimentDeleted
from maskedbandits.service.storage.layouts import refuse_while_shared
from maskedbandits.service.storage.listing import LAST_ID_KEY, find_last_id
from maskedbandits.service.storage.models import ARCHIVED, ExperimentRow

MARK = "deleting:"  # before an id, in `meta`: the minute of the deletion
MARKED_MINUTES = 5  # for which a mark stays at least
OWNED_TABLES = tuple(  # whose rows belong to an experiment, and go in the background
    name for name, table in schema.TABLES.items() if table.key[0] == "experiment" and name != "arm"
)


class Deletion(StoreBackend):
    """Deletes experiments."""

    def delete_experiment(self, experiment: int, minute: int, admin: AdminRequest | None = None) -> ExperimentRow:
        """Delete an archived experiment and its arms; its other rows are deleted by `delete_rows`."""
        with self._begin_write(exclusive=True) as tx:
            found = tx.query(f"{changes.SELECT_EXPERIMENT} WHERE id = ?{self.FOR_UPDATE}", (experiment,))
            if not found:
                raise ExperimentDeleted(experiment)
            row = ExperimentRow(*found[0])
            if row.status != ARCHIVED:
                what = f"{row.name!r} is {row.status}: archive it first, and export what you need"
                raise Conflict(f"{what}, since a deleted experiment is gone for good", "not_archived")
            if admin is not None:
                admin.check_version(row)
            refuse_while_shared(tx, f"the id of the deleted experiment {row.name!r} is taken for good")
            if admin is not None:
                admin.finish(tx, row.config_version, row, ())
            _set_meta(tx, LAST_ID_KEY, find_last_id(tx))
            _set_meta(tx, f"{MARK}{experiment}", minute)
            tx.execute("DELETE FROM arm WHERE experiment = ?", (experiment,))
            tx.execute("DELETE FROM experiment WHERE id = ?", (experiment,))
        return row

    def list_deleted(self) -> dict[int, int]:
        """Return the ids of deleted experiments that may have rows left, and the minute of each deletion."""
        with self._begin_read() as tx:
            rows = tx.query("SELECT key, value FROM meta WHERE key LIKE ?", (f"{MARK}%",))
        return {int(key.removeprefix(MARK)): int(value) for key, value in rows}

    def delete_rows(self, experiment: int, minute: int) -> bool:
        """Delete a batch of rows of a deleted experiment; return whether there may be more."""
        for table in OWNED_TABLES:
            if self._delete_batch(table, experiment):
                return True
        marked = self.list_deleted().get(experiment, minute)
        if minute >= marked + MARKED_MINUTES:
            with self._begin_write() as tx:
                tx.execute("DELETE FROM meta WHERE key = ?", (f"{MARK}{experiment}",))
        return False

    def _delete_batch(self, table: str, experiment: int) -> int:
        """Delete the first rows of an experiment in the order of the primary key; return how many."""
        keys = schema.TABLES[table].key[1:]
        listed, size = ", ".join(keys), schema.get_batch_size(table)
        where = f"FROM {table} WHERE experiment = ?"
        with self._begin_read() as tx:
            if not tx.query(f"SELECT 1 {where} LIMIT 1", (experiment,)):
                return 0
        with self._begin_write() as tx:
            last = tx.query(f"SELECT {listed} {where} ORDER BY {listed} LIMIT 1 OFFSET ?", (experiment, size - 1))
            if not last:
                return tx.execute(f"DELETE {where}", (experiment,))
            return tx.execute(
                f"DELETE {where} AND ({listed}) <= ({placeholders(keys)})",
                (experiment, *last[0]),
            )


def _set_meta(tx: Transaction, key: str, value: int) -> None:
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, str(value)),
    )
