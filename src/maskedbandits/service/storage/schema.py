"""The tables and columns of a store, defined once for both databases, and the steps that upgrade older versions.

To add a column of the log, add it to ``TABLES["event"]`` and to a row in ``models.py``, and name it in ``NEW_COLUMNS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maskedbandits.errors import UserError

VERSION = 4  # of the tables, stored in `meta`
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
    """The primary key, and the columns with their types.

    A question mark allows NULL, and a number after an equals sign is the value of rows that do not give one.
    """

    key: tuple[str, ...]
    columns: Mapping[str, str]
    has_short_rows: bool = True  # SQLite stores short rows in the order of the key, and many are copied at once
    is_busy: bool = False  # PostgreSQL leaves room beside rows that are updated all the time
    loses_rows: bool = False  # PostgreSQL is to use the room of deleted rows soon: see ``REUSE``


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
            "first_seq": "long=1",  # the oldest event that is kept
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
            "hour": "int",
            "bit": "small?",
            "flags": "small?",
            "kind": "text",
            "detail": "text?",
            "config": "int?",
            "question": "bytes?",
        },
        loses_rows=True,
    ),
    "report_id": Table(  # of reports that devices may still repeat
        ("experiment", "decision"),
        {"experiment": "int", "decision": "bytes", "seq": "long", "expires": "int"},
        loses_rows=True,
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
    "api_key": Table(
        ("id",),
        {
            "id": "text",
            "role": "text",
            "digest": "bytes",
            "created": "int",
            "revoked": "int?",
            "name": "text?",
            "experiments": "text?",  # a JSON list of names; NULL: all
        },
    ),
    "signing_key": Table(("id",), {"id": "int", "made": "long", "secret": "bytes"}),
    "audit": Table(  # who changed what
        ("id",),
        {
            "id": "long",
            "hour": "int",
            "key": "text?",
            "key_name": "text?",
            "action": "text",
            "experiment": "text?",
            "config_version": "int?",
            "detail": "text",
        },
        has_short_rows=False,
    ),
    "idempotency": Table(  # replies to requests that clients may repeat
        ("key",),
        {"key": "text", "digest": "bytes", "status": "int", "body": "text", "expires": "int"},
        has_short_rows=False,
    ),
}

# Old events and ids are deleted all the time. By default PostgreSQL lets them fill a fifth of the table.
REUSE_SHARE = 0.01
REUSE = f"autovacuum_vacuum_scale_factor = {REUSE_SHARE}"
FULL = " WITH (fillfactor = 100)"  # of an index that only grows at its end: leave no room in its pages

# What version 4 has beside the tables of version 3.
NEW_TABLES = ("report_id", "audit", "idempotency")
NEW_COLUMNS = {"experiment": ("first_seq",), "api_key": ("name", "experiments")}
NEW_INDEXES = (
    "CREATE INDEX report_id_seq ON report_id (experiment, seq, expires)",  # readers of new events need no more
    "CREATE INDEX report_id_expires ON report_id (expires)",
    "CREATE INDEX idempotency_expires ON idempotency (expires)",
)
INDEXES = (
    "CREATE UNIQUE INDEX experiment_name ON experiment (name)",
    "CREATE UNIQUE INDEX arm_name ON arm (experiment, name)",
    "CREATE INDEX visitor_expires ON visitor (expires)",
    *NEW_INDEXES,
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

# The statements that lead from the first versions to the next, by database.
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


class Kind(NamedTuple):
    """The parsed type of a column; the default is empty if rows must give a value."""

    kind: str
    may_be_null: bool
    default: str


def parse_kind(word: str) -> Kind:
    """Return the parts of the type of a column."""
    kind, _, default = word.partition("=")
    return Kind(kind.rstrip("?"), kind.endswith("?"), default)


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
    return tuple(TYPES[parse_kind(word).kind][dialect] for word in TABLES[table].columns.values())


def format_type_check(table: str) -> str:
    """Return the condition for rows of SQLite that have a value of another type than its column."""
    kinds = {"text": "'text'", "bytes": "'blob'"}
    conditions = []
    for column, word in TABLES[table].columns.items():
        kind, may_be_null, _ = parse_kind(word)
        allowed = kinds.get(kind, "'integer'") + ", 'null'" * may_be_null
        conditions.append(f"typeof({column}) NOT IN ({allowed})")
    return " OR ".join(conditions)


def list_columns(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns, in order."""
    return tuple(TABLES[table].columns)


def list_upgrade_steps(version: int, dialect: str) -> list[str]:
    """Return the statements that lead from an older version to version 3; ``upgrade.py`` leads on from there."""
    return [statement for older in range(version, 3) for statement in STEPS[older][dialect]]


def list_additions(dialect: str) -> list[str]:
    """Return the statements that add what version 4 has beside the tables of version 3, which stay usable."""
    tables = [_format_create(name, TABLES[name], dialect) for name in NEW_TABLES]
    columns = [
        f"ALTER TABLE {table} ADD COLUMN {_format_column(column, TABLES[table].columns[column], dialect)}"
        for table, added in NEW_COLUMNS.items()
        for column in added
    ]
    settings = []
    if dialect == "postgresql":
        settings = [f"ALTER TABLE event SET ({REUSE})", "ALTER INDEX event_pkey SET (fillfactor = 100)"]
    return [*tables, *columns, *settings, *NEW_INDEXES]


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


def _format_column(column: str, word: str, dialect: str) -> str:
    kind, may_be_null, default = parse_kind(word)
    return f"{column} {TYPES[kind][dialect]}{'' if may_be_null else ' NOT NULL'}{default and f' DEFAULT {default}'}"


def _format_create(name: str, table: Table, dialect: str) -> str:
    parts = [_format_column(column, word, dialect) for column, word in table.columns.items()]
    is_full = dialect == "postgresql" and name == "event"
    parts.append(f"PRIMARY KEY ({', '.join(table.key)}){FULL if is_full else ''}")
    end = ""
    if dialect == "sqlite" and table.has_short_rows:
        end = " WITHOUT ROWID"
    if dialect == "postgresql" and table.is_busy:
        end = " WITH (fillfactor = 50)"
    if dialect == "postgresql" and table.loses_rows:
        end = f" WITH ({REUSE})"
    return f"CREATE TABLE {name} ({', '.join(parts)}){end}"
