"""The tables and columns of a store, defined once for both databases, and the steps that upgrade older versions.

To add a column of the log, add it to ``TABLES["event"]`` and to a row in ``models.py``, and add a step to ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maskedbandits.errors import UserError

VERSION = 3  # of the tables, stored in `meta`
VERSION_KEY = "schema"
DIALECTS = ("sqlite", "postgresql")
TYPES = {
    "small": {"sqlite": "INTEGER", "postgresql": "SMALLINT"},
    "int": {"sqlite": "INTEGER", "postgresql": "INTEGER"},
    "long": {"sqlite": "INTEGER", "postgresql": "BIGINT"},
    "text": {"sqlite": "TEXT", "postgresql": "TEXT"},
    "bytes": {"sqlite": "BLOB", "postgresql": "BYTEA"},
}


class Table(NamedTuple):
    """The primary key, and the columns with their types; a question mark allows NULL."""

    key: tuple[str, ...]
    columns: Mapping[str, str]
    has_short_rows: bool = True  # SQLite stores short rows in the order of the key, and many are copied at once
    is_busy: bool = False  # PostgreSQL leaves room beside rows that are updated all the time


TABLES = {
    "meta": Table(("key",), {"key": "text", "value": "text"}),
    "experiment": Table(
        ("id",),
        {
            "id": "int",
            "seq": "long",
            "name": "text",
            "status": "text",
            "config": "text",
            "config_version": "int",
            "default_arm": "int",
            "created_hour": "int",
            "forgotten": "int",
        },
        has_short_rows=False,
        is_busy=True,
    ),
    "arm": Table(
        ("experiment", "place"),
        {"experiment": "int", "place": "int", "name": "text", "payload": "text", "status": "text"},
        has_short_rows=False,
    ),
    "event": Table(
        ("experiment", "seq"),
        {
            "seq": "long",
            "epsilon": "long?",
            "experiment": "int",
            "arm": "int?",
            "probability": "int?",
            "expires": "int?",
            "hour": "int",
            "bit": "small?",
            "flags": "small?",
            "kind": "text",
            "decision": "bytes?",
            "detail": "text?",
            "config": "int?",
            "question": "bytes?",
        },
    ),
    "snapshot": Table(
        ("experiment", "kernel", "seq"),
        {"experiment": "int", "kernel": "text", "seq": "long", "body": "bytes", "sha256": "text"},
        has_short_rows=False,
    ),
    "issued": Table(
        ("experiment", "expires", "arm", "process"),
        {"experiment": "int", "arm": "int", "process": "text", "expires": "int", "count": "long"},
        is_busy=True,
    ),
    "refused": Table(
        ("experiment", "reason", "minute"),
        {"experiment": "int", "reason": "text", "minute": "int", "count": "long"},
        is_busy=True,
    ),
    "visitor": Table(
        ("experiment", "visitor"),
        {"experiment": "int", "visitor": "bytes", "token": "bytes", "expires": "int"},
    ),
    "api_key": Table(("id",), {"id": "text", "role": "text", "digest": "bytes", "created": "int", "revoked": "int?"}),
    "signing_key": Table(("id",), {"id": "int", "made": "long", "secret": "bytes"}),
}

INDEXES = (
    "CREATE UNIQUE INDEX experiment_name ON experiment (name)",
    "CREATE UNIQUE INDEX arm_name ON arm (experiment, name)",
    # A second guard of the rule that a decision has one report. Expired ids are deleted, and leave the index, too.
    "CREATE UNIQUE INDEX event_decision ON event (experiment, decision) WHERE decision IS NOT NULL",
    "CREATE INDEX event_expires ON event (experiment, expires) WHERE expires IS NOT NULL",
    "CREATE INDEX visitor_expires ON visitor (expires)",
)

# Merge the counts of an hour into one row; compacted counts have minute 0.
_ROUND_TO_HOURS = (
    "UPDATE event SET expires = (expires + 59) / 60 * 60 WHERE expires IS NOT NULL",
    "INSERT INTO issued (experiment, arm, process, expires, count) "
    "SELECT experiment, arm, process, (expires + 59) / 60 * 60, CAST(sum(count) AS BIGINT) FROM issued "
    "WHERE expires <> expires / 60 * 60 GROUP BY experiment, arm, process, (expires + 59) / 60 * 60 "
    "ON CONFLICT (experiment, arm, process, expires) DO UPDATE SET count = issued.count + excluded.count",
    "DELETE FROM issued WHERE expires <> expires / 60 * 60",
    "INSERT INTO refused (experiment, reason, minute, count) "
    "SELECT experiment, reason, minute / 60 * 60, CAST(sum(count) AS BIGINT) FROM refused "
    "WHERE minute <> minute / 60 * 60 GROUP BY experiment, reason, minute / 60 * 60 "
    "ON CONFLICT (experiment, reason, minute) DO UPDATE SET count = refused.count + excluded.count",
    "DELETE FROM refused WHERE minute <> minute / 60 * 60",
)

# The statements that lead from a version to the next, by database.
STEPS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {  # experiments with groups, and the version of the configuration at a decision
        "sqlite": ("ALTER TABLE event ADD COLUMN config INTEGER", "ALTER TABLE event ADD COLUMN question BLOB"),
        "postgresql": ("ALTER TABLE event ADD COLUMN config INTEGER", "ALTER TABLE event ADD COLUMN question BYTEA"),
    },
    # Store no time finer than an hour, no readable token of a visitor, and no secret; see ``cli/upgrade.py``, too.
    2: dict.fromkeys(
        DIALECTS, (*_ROUND_TO_HOURS, "DELETE FROM visitor", "DELETE FROM meta WHERE key = 'visitor_secret'")
    ),
}


def list_table_statements(dialect: str) -> list[str]:
    """Return the statements that create all tables, empty and without indexes."""
    return [_format_create(name, table, dialect) for name, table in TABLES.items()]


def list_statements(dialect: str) -> list[str]:
    """Return the statements that create all tables with their version and indexes."""
    version = f"INSERT INTO meta (key, value) VALUES ('{VERSION_KEY}', '{VERSION}')"  # noqa: S608 - our own words
    return [*list_table_statements(dialect), *INDEXES, version]


def get_batch_size(table: str) -> int:
    """Return how many rows of a table to copy at once without filling the memory."""
    return 2_000 if TABLES[table].has_short_rows else 20


def list_types(table: str, dialect: str) -> tuple[str, ...]:
    """Return the types of a table's columns, in order."""
    return tuple(TYPES[kind.rstrip("?")][dialect] for kind in TABLES[table].columns.values())


def format_type_check(table: str) -> str:
    """Return the condition for rows of SQLite that have a value of another type than its column."""
    kinds = {"text": "'text'", "bytes": "'blob'"}
    conditions = []
    for column, kind in TABLES[table].columns.items():
        allowed = kinds.get(kind.rstrip("?"), "'integer'") + ", 'null'" * kind.endswith("?")
        conditions.append(f"typeof({column}) NOT IN ({allowed})")
    return " OR ".join(conditions)


def list_columns(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns, in order."""
    return tuple(TABLES[table].columns)


def list_upgrade_steps(version: int, dialect: str) -> list[str]:
    """Return the statements that lead from an older version to this one."""
    return [statement for older in range(version, VERSION) for statement in STEPS[older][dialect]]


def parse_version(text: object, name: str) -> int:
    """Return the version that is stored in the tables; 0 if there is none."""
    if text is None:
        return 0
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10):
        raise UserError(f"{name}: damaged: its version is no number; restore a backup, or take another one")
    return int(text)


def refuse_other_version(version: int, name: str) -> None:
    """Refuse tables of another version."""
    if version > VERSION:
        raise UserError(
            f"{name}: its tables have version {version}, this maskedbandits knows {VERSION}: install a newer one"
        )
    if version < VERSION:
        raise UserError(
            f"{name}: its tables have version {version}, this maskedbandits needs {VERSION}: stop the service and run "
            "maskedbandits upgrade"
        )


def _format_create(name: str, table: Table, dialect: str) -> str:
    kinds = zip(table.columns.items(), list_types(name, dialect), strict=True)
    parts = [f"{column} {kind}{'' if word.endswith('?') else ' NOT NULL'}" for (column, word), kind in kinds]
    parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
    end = ""
    if dialect == "sqlite" and table.has_short_rows:
        end = " WITHOUT ROWID"
    if dialect == "postgresql" and table.is_busy:
        end = " WITH (fillfactor = 50)"
    return f"CREATE TABLE {name} ({', '.join(parts)}){end}"
