"""Lookups of experiments in a store: by name or id, page by page, and the counts of many in one query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from maskedbandits.service.storage import changes
from maskedbandits.service.storage.base import MAX_PARAMETERS, StoreBackend, Transaction
from maskedbandits.service.storage.errors import StoreUnavailable
from maskedbandits.service.storage.models import OPEN, ArmRow, ExperimentRow

IssuedRow = tuple[int, str, int, int]  # arm, process, minute of expiry, count


class ListedExperiment(NamedTuple):
    """An experiment in a page of a list, and the number of its open arms."""

    row: ExperimentRow
    open_arms: int


class Listing(StoreBackend):
    """Reads about experiments."""

    def find_experiment(self, which: int | str) -> ExperimentRow | None:
        """Return an experiment by id or name, or None."""
        column = "id" if isinstance(which, int) else "name"
        with self._begin_read() as tx:
            found = tx.query(f"{changes.SELECT_EXPERIMENT} WHERE {column} = ?", (which,))
        return ExperimentRow(*found[0]) if found else None

    def find_described(self, which: int | str) -> tuple[ExperimentRow, list[ArmRow]] | None:
        """Return an experiment by id or name with its arms, both of one moment; None if there is none."""
        row = self.find_experiment(which)
        for _ in range(_TRIES):
            if row is None:
                return None
            with self._begin_read() as tx:
                arms = changes.list_arms(tx, row.id)
            again = self.find_experiment(row.id)
            if again is not None and again.config_version == row.config_version:
                return row, arms
            row = again
        raise StoreUnavailable("the experiment changes all the time: try again")

    def list_page(
        self, after: int, limit: int, status: str = "", search: str = "", names: Collection[str] | None = None
    ) -> list[ListedExperiment]:
        """Return experiments with ids after ``after``, the oldest first: at most ``limit``.

        With a status, a text that the name contains in either case, or some names, others are left out.
        """
        conditions, parameters = ["id > ?"], [after]
        more: list[str] = []
        if status:
            conditions.append("experiment.status = ?")
            more.append(status)
        if search:
            conditions.append("experiment.name LIKE ? ESCAPE '!'")
            escaped = search.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
            more.append(f"%{escaped}%")
        if names is not None:
            conditions.append(f"experiment.name IN ({', '.join(['NULL', *'?' * len(names)])})")
            more += names
        columns = ", ".join(f"experiment.{name}" for name in ExperimentRow._fields)
        select = (
            f"SELECT {columns}, (SELECT count(*) FROM arm WHERE arm.experiment = experiment.id "  # noqa: S608 - our own names
            f"AND arm.status = '{OPEN}') FROM experiment WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
        )
        with self._begin_read() as tx:
            rows = tx.query(select, (*parameters, *more, limit))
        return [ListedExperiment(ExperimentRow(*row[:-1]), row[-1]) for row in rows]

    def read_last_id(self) -> int:
        """Return the highest id that an experiment ever had, including deleted ones."""
        with self._begin_read() as tx:
            return find_last_id(tx)

    def list_issued_since(self, since: Mapping[int, int], besides: str) -> dict[int, list[IssuedRow]]:
        """Return the decisions of each experiment that expire from its minute on, as `list_issued` does."""
        found: dict[int, list[IssuedRow]] = {}
        wanted = [(experiment, max(1, minute)) for experiment, minute in sorted(since.items())]
        for start in range(0, len(wanted), _PAIRS_AT_ONCE):
            some = wanted[start : start + _PAIRS_AT_ONCE]
            pairs = ", ".join(["(?, ?)"] * len(some))
            with self._begin_read() as tx:
                rows = tx.query(_ISSUED_SINCE.format(pairs=pairs), (*(n for pair in some for n in pair), besides))
            for experiment, *row in rows:
                found.setdefault(experiment, []).append((row[0], row[1], row[2], row[3]))
        return found

    def sum_all_issued(self) -> dict[int, dict[int, int]]:
        """Return the number of decisions ever issued for each arm of each experiment that is not archived."""
        with self._begin_read() as tx:
            rows = tx.query(_ALL_ISSUED)
        sums: dict[int, dict[int, int]] = {}
        for experiment, arm, count in rows:
            sums.setdefault(experiment, {})[arm] = count
        return sums


LAST_ID_KEY = "last_experiment"  # in `meta`: the highest id of a deleted experiment


def find_last_id(tx: Transaction) -> int:
    """Return the highest id that an experiment ever had."""
    last = int(tx.query("SELECT max(id) FROM experiment")[0][0] or 0)
    noted = tx.query("SELECT value FROM meta WHERE key = ?", (LAST_ID_KEY,))
    return max(last, int(noted[0][0])) if noted else last


_TRIES = 10  # to read an experiment and its arms without a change in between
_PAIRS_AT_ONCE = (MAX_PARAMETERS - 1) // 2
_ISSUED_SINCE = (
    "WITH wanted (id, since) AS (VALUES {pairs}) "
    "SELECT issued.experiment, issued.arm, issued.process, issued.expires, issued.count FROM wanted "
    "JOIN issued ON issued.experiment = wanted.id AND issued.expires >= wanted.since "
    "WHERE issued.process <> ? ORDER BY issued.experiment, issued.expires, issued.arm, issued.process"
)
_ALL_ISSUED = (
    "SELECT issued.experiment, issued.arm, CAST(sum(issued.count) AS BIGINT) FROM experiment "
    "JOIN issued ON issued.experiment = experiment.id WHERE experiment.status <> 'archived' "
    "GROUP BY issued.experiment, issued.arm"
)
