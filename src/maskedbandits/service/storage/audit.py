"""The audit trail: who changed what and when, written in the transaction of the change and never deleted with it.

Administrators are not visitors: the time of a change is kept to the second, in the detail.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from maskedbandits.service.storage.base import StoreBackend, Transaction
from maskedbandits.service.storage.errors import Conflict
from maskedbandits.service.storage.idempotency import RepeatableRequest, refuse_repeated, save_reply
from maskedbandits.service.storage.models import ArmRow, ExperimentRow, check_text

HOUR_S = 3600
MAX_ID = 2**62  # no entry has a higher id


@dataclass(frozen=True)
class AdminRequest:
    """What the store has to know of a request that changes something: who, when, what, and under which conditions."""

    action: str
    key: str | None  # name of the caller's key; None: no key was needed
    at: float  # unix seconds
    what: dict[str, Any]
    versions: frozenset[int] | None = None  # of the configuration, one of which must be the present one; None: any
    repeatable: RepeatableRequest | None = None

    def begin(self, tx: Transaction) -> None:
        """Check that the request was not carried out before."""
        if self.repeatable is not None:
            refuse_repeated(tx, self.repeatable)

    def check_version(self, row: ExperimentRow) -> None:
        """Check that nothing has changed since the caller looked."""
        if self.versions is not None and row.config_version not in self.versions:
            what = f"{row.name!r} has config_version {row.config_version} now, which If-Match does not name"
            raise Conflict(f"{what}: get it again before you change it", "version_changed")

    def finish(self, tx: Transaction, before: int | None, row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
        """Append the entry of the audit trail, and store the reply of a request that may be repeated."""
        last = tx.query("SELECT max(id) FROM audit")[0][0] or 0
        at = datetime.fromtimestamp(int(self.at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        detail = json.dumps({"at": at, "experiment_id": row.id, "version_before": before, "what": self.what})
        tx.execute(
            "INSERT INTO audit (id, hour, key, key_name, action, experiment, config_version, detail) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                last + 1,
                int(self.at) // HOUR_S,
                self.key,
                self.key,
                self.action,
                row.name,
                row.config_version,
                check_text("detail", detail),
            ),
        )
        if self.repeatable is not None:
            save_reply(tx, self.repeatable, row, arms)


class AuditRow(NamedTuple):
    """An entry of the audit trail; the detail is JSON."""

    id: int
    key: str | None
    key_name: str | None
    action: str
    experiment: str | None
    config_version: int | None
    detail: str


class Audit(StoreBackend):
    """The audit trail of a store."""

    def list_audit(
        self, before: int = 0, limit: int = 100, experiment: str = "", names: Collection[str] | None = None
    ) -> list[AuditRow]:
        """Return entries with ids below ``before`` (0: all), the newest first, of one experiment, of some or of all."""
        condition, parameters = ("AND experiment = ? ", [experiment]) if experiment else ("", [])
        if names is not None:
            condition += f"AND experiment IN ({', '.join(['NULL', *'?' * len(names)])}) "
            parameters += names
        select = (
            f"SELECT {', '.join(AuditRow._fields)} FROM audit WHERE id < ? {condition}"  # noqa: S608 - our own names
            "ORDER BY id DESC LIMIT ?"
        )
        with self._begin_read() as tx:
            return [AuditRow(*row) for row in tx.query(select, (before or MAX_ID, *parameters, limit))]
