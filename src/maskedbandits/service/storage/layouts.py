"""Layouts of the tables: releases of two neighbouring versions share a store, and an upgrade changes it while they run.

Version 3 has the ids of reports in the log. Version 4 has them in a table of their own, so that events never change.

SHARED    version 3 with the additions of version 4: processes of both releases read and write it
MOVING    version 4 with ids that an upgrade has not moved yet: in the log, in columns with other names
CURRENT   version 4

A store passes through them in this order. A process remembers the layout that it has seen. Each step renames or drops
the columns of the layout before it, so a statement of an earlier layout fails as a whole and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from maskedbandits.service.storage import schema
from maskedbandits.service.storage.errors import Conflict

if TYPE_CHECKING:
    from maskedbandits.service.storage.base import Transaction

SHARED_VERSION = 3
MOVING_KEY = "moving"  # in `meta`: some ids are not moved yet
ADDED_TABLE = schema.NEW_TABLES[0]  # shows that version 3 has the additions: not in `meta`, which older backups copy
OLD_COLUMNS = {"decision": "old_decision", "expires": "old_expires"}  # of `event`: names while ids are moved


class Layout(Enum):
    """Where the ids of reports are."""

    SHARED = "shared"
    MOVING = "moving"
    CURRENT = "current"


IGNORED_SETTINGS = {"decide_with": "device"}  # of an experiment, that version 3 does not know, with their defaults
ID_COLUMNS = ("decision", "expires")  # of a report that are not in its event

# The ids of all reports that may be repeated: experiment, decision, seq, expires.
IDS = {
    Layout.SHARED: "(SELECT experiment, decision, seq, expires FROM event WHERE decision IS NOT NULL)",
    Layout.MOVING: (
        "(SELECT experiment, decision, seq, expires FROM report_id "
        "UNION ALL SELECT experiment, old_decision, seq, old_expires FROM event WHERE old_decision IS NOT NULL)"
    ),
    Layout.CURRENT: "report_id",
}

# Tables of version 4 as every layout can be read, for backups.
_META = (
    f"SELECT key, CASE WHEN key = '{schema.VERSION_KEY}' THEN '{schema.VERSION}' ELSE value END AS value FROM meta "  # noqa: S608 - our own words
    f"WHERE key <> '{MOVING_KEY}'"
)


def find_layout(meta: Iterable[tuple[str, str]], name: str) -> Layout:
    """Return the layout of a store from the rows of its table `meta`."""
    texts = dict(meta)
    version = schema.parse_version(texts.get(schema.VERSION_KEY), name)
    if version == SHARED_VERSION:
        return Layout.SHARED
    refuse_other_version(version, name)
    return Layout.MOVING if MOVING_KEY in texts else Layout.CURRENT


def refuse_other_version(version: int, name: str) -> None:
    """Refuse tables of another version, except those that this release shares with the one before it."""
    if version != SHARED_VERSION:
        schema.refuse_other_version(version, name)


def refuse_while_shared(tx: Transaction, what: str) -> None:
    """Refuse what processes of version 3 ignore, while they may run; no store goes back to version 3."""
    rows = tx.query("SELECT key, value FROM meta WHERE key = ?", (schema.VERSION_KEY,))
    if find_layout([(key, value) for key, value in rows], "the store") is Layout.SHARED:
        remedy = "once all processes run this release, run maskedbandits upgrade"
        raise Conflict(f"{what}, which processes of an earlier release would ignore: {remedy}", "upgrade_required")


def refuse_ignored_settings(tx: Transaction, config: str) -> None:
    """Refuse members of a configuration that processes of version 3 ignore, while they may run."""
    members = json.loads(config)
    for member, default in IGNORED_SETTINGS.items():
        if isinstance(members, dict) and members.get(member, default) != default:
            refuse_while_shared(tx, f"{member} = {members[member]!r}")


def format_selects(layout: Layout, *, has_additions: bool = True) -> dict[str, str]:
    """Return for each table the query for its rows as version 4 has them."""
    selects = {table: _format_select(table, has_additions) for table in schema.TABLES}
    listed = ", ".join(schema.list_columns("report_id"))
    selects["report_id"] = f"SELECT {listed} FROM {IDS[layout]} AS ids"  # noqa: S608 - our own names
    selects["meta"] = _META
    return selects if has_additions else {table: selects[table] for table in selects if table not in _ADDED_TABLES}


_ADDED_TABLES = tuple(table for table in schema.NEW_TABLES if table != "report_id")


def _format_select(table: str, has_additions: bool) -> str:
    missing = () if has_additions else schema.NEW_COLUMNS.get(table, ())
    columns = schema.TABLES[table].columns
    values = [
        f"{schema.parse_kind(columns[column]).default or 'NULL'} AS {column}" if column in missing else column
        for column in columns
    ]
    return f"SELECT {', '.join(values)} FROM {table}"  # noqa: S608 - our own names
