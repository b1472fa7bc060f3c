"""The tables, once for both databases, and how those of an older version become those of this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maskedbandits.errors import UserError

VERSION = 3  # of the tables: `meta` holds it under this key
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
    """Columns with their types (a question mark: may be NULL), the key, and whether rows are short."""

    key: tuple[str, ...]
    columns: Mapping[str, str]
    short: bool = True  # rows: SQLite then keeps them in the order of the key, and many are copied at once
    busy: bool = False  # rows are updated all the time: PostgreSQL leaves room for that beside them


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
        short=False,
        busy=True,
    ),
    "arm": Table(
        ("experiment", "place"),
        {"experiment": "int", "place": "int", "name": "text", "payload": "text", "status": "text"},
        short=False,
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
        short=False,
    ),
    "issued": Table(
        ("experiment", "expires", "arm", "process"),
        {"experiment": "int", "arm": "int", "process": "text", "expires": "int", "count": "long"},
        busy=True,
    ),
    "refused": Table(
        ("experiment", "reason", "minute"),
        {"experiment": "int", "reason": "text", "minute": "int", "count": "long"},
        busy=True,
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
    # The net below `append`: a decision has one report. Ids are dropped when they expire, and leave the indexes too.
    "CREATE UNIQUE INDEX event_decision ON event (experiment, decision) WHERE decision IS NOT NULL",
    "CREATE INDEX event_expires ON event (experiment, expires) WHERE expires IS NOT NULL",
    "CREATE INDEX visitor_expires ON visitor (expires)",
)

# Counts of one hour become one row; those that are summed up already stand under 0.
HOURS_ALONE = (
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

# From each older version, by the database's name, what leads to the next one. Version 1 is the first that was released.
STEPS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {  # experiments with groups; and under which version of its configuration a decision was made
        "sqlite": ("ALTER TABLE event ADD COLUMN config INTEGER", "ALTER TABLE event ADD COLUMN question BLOB"),
        "postgresql": ("ALTER TABLE event ADD COLUMN config INTEGER", "ALTER TABLE event ADD COLUMN question BYTEA"),
    },
    # No finer time than an hour, no token that a visitor's row tells, no secret; see ``service/upgrading.py``, too.
    2: dict.fromkeys(DIALECTS, (*HOURS_ALONE, "DELETE FROM visitor", "DELETE FROM meta WHERE key = 'visitor_secret'")),
}


def bare(dialect: str) -> list[str]:
    """Return what makes all tables, with nothing in them and no index."""
    return [_created(name, table, dialect) for name, table in TABLES.items()]


def statements(dialect: str) -> list[str]:
    """Return what makes all tables, with the version in them, and their indexes."""
    version = f"INSERT INTO meta (key, value) VALUES ('{VERSION_KEY}', '{VERSION}')"  # noqa: S608 - our own words
    return [*bare(dialect), *INDEXES, version]


def at_once(table: str) -> int:
    """Return how many rows of a table are copied at once, without filling the memory."""
    return 2_000 if TABLES[table].short else 20


def types(table: str, dialect: str) -> tuple[str, ...]:
    """Return the types of a table's columns, in their order."""
    return tuple(TYPES[kind.rstrip("?")][dialect] for kind in TABLES[table].columns.values())


def misfits(table: str) -> str:
    """Return what holds of a row in SQLite that has a value of another type than its column."""
    kinds = {"text": "'text'", "bytes": "'blob'"}
    told = TABLES[table].columns.items()
    each = (
        (column, kinds.get(kind.rstrip("?"), "'integer'"), ", 'null'" * kind.endswith("?")) for column, kind in told
    )
    return " OR ".join(f"typeof({column}) NOT IN ({kind}{nothing})" for column, kind, nothing in each)


def columns(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns, in their order."""
    return tuple(TABLES[table].columns)


def steps(version: int, dialect: str) -> list[str]:
    """Return what leads from an older version to this one."""
    return [statement for older in range(version, VERSION) for statement in STEPS[older][dialect]]


def version_of(told: object, name: str) -> int:
    """Return the version that tables say they have; 0 if they say none."""
    if told is None:
        return 0
    if not (isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < 10):
        raise UserError(f"{name}: damaged: its version is no number; restore a backup, or take another one")
    return int(told)


def refuse_others(version: int, name: str) -> None:
    """Refuse tables of another version, and say what to do."""
    if version > VERSION:
        raise UserError(
            f"{name}: its tables have version {version}, this maskedbandits knows {VERSION}: install a newer one"
        )
    if version < VERSION:
        raise UserError(
            f"{name}: its tables have version {version}, this maskedbandits needs {VERSION}: stop the service and run "
            "maskedbandits upgrade"
        )


def _created(name: str, table: Table, dialect: str) -> str:
    """Return what makes one table."""
    kinds = zip(table.columns.items(), types(name, dialect), strict=True)
    parts = [f"{column} {kind}{'' if word.endswith('?') else ' NOT NULL'}" for (column, word), kind in kinds]
    parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
    end = ""
    if dialect == "sqlite" and table.short:
        end = " WITHOUT ROWID"
    if dialect == "postgresql" and table.busy:
        end = " WITH (fillfactor = 50)"
    return f"CREATE TABLE {name} ({', '.join(parts)}){end}"
