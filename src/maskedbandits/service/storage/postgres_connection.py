"""Servers of PostgreSQL: how a connection to a store is made and checked, and what it ran into, told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from maskedbandits.errors import UserError
from maskedbandits.service.storage import errors, schema
from maskedbandits.service.storage.errors import StoreUnavailable, Unreachable, one_line

Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST = 13  # the major version; older ones get no mends any more
CREATING = 0x4D425356  # the number of a lock: two that create a store at once take turns
# Unless the URL says otherwise: a server that has vanished without a word is noticed in half a minute.
DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "maskedbandits",
}
# Not for this connection, but perhaps for the next one: read-only after a failover, plans or statements that are gone.
STALE = {"25006", "26000", "0A000"}
PASSING = {  # what the database says may be put right while callers try again
    "42501": "not permitted: grant this user all rights on the tables",
    "42P01": "its tables are gone: restore a backup",
    "55P03": f"another process has been writing for more than {errors.WAIT:g} s: try again",
    "53100": "the server's disk is full: make room",
}


def shown(url: str) -> str:
    """Return where a store is, fit to be shown: without user and password."""
    told = _taken_apart(url)
    return f"postgresql://{told.get('host') or 'localhost'}/{told.get('dbname') or ''}"


def opened(url: str, name: str, *, create: bool, durable: bool) -> Connection:
    """Connect to a store; make its tables where there are none, if that is asked for."""
    try:
        with told(name):
            connection = connected(url, name, durable=durable)
            try:
                if create:
                    _make_tables(connection, name)
                version(connection, name)
            except BaseException:
                connection.close()
                raise
    except StoreUnavailable as gone:
        raise Unreachable(gone.reason) from gone
    return connection


def connected(url: str, name: str, *, durable: bool) -> Connection:
    """Connect to a server that keeps what it is told."""
    given = _taken_apart(url)
    others = {key: value for key, value in DEFAULTS.items() if key not in given}
    connection = psycopg.connect(url, autocommit=True, client_encoding="utf8", **others)  # type: ignore[arg-type]
    try:
        _check_server(connection, name, durable)
    except BaseException:
        connection.close()
        raise
    return connection


def local_settings(connection: Connection, durable: bool) -> str:
    """Return an expression that makes settings for one transaction: nothing stays behind for others at a pooler."""
    # A table that is empty when a statement is planned may be large when it is executed: no plan reads it through.
    settings = {
        "lock_timeout": f"{errors.WAIT:g}s",
        "idle_in_transaction_session_timeout": f"{errors.WAIT:g}s",  # whoever hangs keeps no lock
        "enable_seqscan": "off",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    if durable and _setting(connection, "synchronous_commit") == "off":
        settings["synchronous_commit"] = "on"
    return ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


@contextmanager
def told(name: str, *, unknown: bool = False) -> Iterator[None]:
    """Tell in one line what the database did not do."""
    try:
        yield
    except psycopg.Error as error:
        if not passing(error):
            raise  # a fault of ours
        raise gone(name, error, unknown=unknown) from error


def gone(name: str, error: psycopg.Error, *, unknown: bool) -> StoreUnavailable:
    """Return what an error means to whoever asked."""
    return StoreUnavailable(f"{name}: {PASSING.get(error.sqlstate or '', one_line(error))}", unknown=unknown)


def passing(error: psycopg.Error) -> bool:
    """Tell whether the next try may do better."""
    known = isinstance(error, (psycopg.OperationalError, psycopg.InternalError))
    return known or error.sqlstate in STALE or error.sqlstate in PASSING


def _taken_apart(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its message quotes the URL, which may hold a password
        raise UserError(
            "storage: PostgreSQL cannot read this URL: percent-encode what is special in names and passwords"
        ) from None


def _setting(connection: Connection, name: str) -> str:
    found = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return str(found[0]) if found else ""


def _check_server(connection: Connection, name: str, durable: bool) -> None:
    """Refuse a server that would lose what is acknowledged, or could not keep every text."""
    major = connection.info.server_version // 10_000
    if major < OLDEST:
        raise UserError(f"{name}: PostgreSQL {major} is too old: install {OLDEST} or newer")
    if _setting(connection, "server_encoding") != "UTF8":
        raise UserError(f"{name}: its encoding is {_setting(connection, 'server_encoding')}: create it with UTF8")
    if durable and _setting(connection, "fsync") == "off":
        raise UserError(
            f"{name}: its server runs with fsync = off, so that a power cut would lose what is acknowledged: turn it "
            "on, or add durable=no to the URL"
        )
    if _setting(connection, "default_transaction_isolation") != "read committed":
        connection.execute("SET default_transaction_isolation = 'read committed'")


def _make_tables(connection: Connection, name: str) -> None:
    """Make all tables, unless they are there."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATING,))
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(%s)",
                (list(schema.TABLES),),
            ).fetchall()
            if not found:
                for statement in schema.statements("postgresql"):
                    connection.execute(statement.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName) as error:
        raise UserError(f"{name}: {one_line(error)}: give this user a schema, and the right to create in it") from error


def version(connection: Connection, name: str) -> int:
    """Return the version of a store's tables; refuse a database that holds none."""
    try:
        found = connection.execute("SELECT value FROM meta WHERE key = %s", (schema.VERSION_KEY,)).fetchall()
    except psycopg.errors.UndefinedTable:
        raise UserError(f"{name}: there are no tables of ours: create the store first") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(f"{name}: {one_line(error)}: grant this user all rights on the tables") from None
    except (psycopg.ProgrammingError, psycopg.DataError):  # other columns, or of other types
        found = []
    if not (found and str(found[0][0]).isdigit()):
        raise UserError(f"{name}: it has tables of another program: give a database or a schema of its own")
    return int(found[0][0])
