"""Opening a store by its URL: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from maskedbandits.errors import UserError
from maskedbandits.service.storage import schema
from maskedbandits.service.storage.base import Store

EXAMPLES = "sqlite:///bandits.db or postgresql://user@host/database"


class Address(NamedTuple):
    """A URL taken apart: which database, where, and whether what is acknowledged must survive a power cut."""

    dialect: str
    place: str  # a path, or the URL that PostgreSQL's own library reads
    durable: bool


def open_store(url: str, *, create: bool = False, any_version: bool = False) -> Store:
    """Open a store; ``create`` makes an empty one where there is none.

    Tables of another version are refused, unless ``any_version`` says that somebody is about to upgrade them.
    """
    store = _opened(address_of(url), create)
    if not any_version:
        try:
            schema.refuse_others(store.version(), store.name)
        except BaseException:
            store.close()
            raise
    return store


def address_of(url: str) -> Address:
    """Take a URL apart; what is wrong with it is said without repeating it, since it may hold a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("sqlite", "postgresql", "postgres") or not rest:
        raise UserError(f"storage: give a URL such as {EXAMPLES}")
    place, _, query = rest.partition("?")
    durable, others = True, []
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "durable":
            durable = _yes_or_no(value)
        else:
            others.append((key, value))
    if scheme != "sqlite":
        told = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in others)
        return Address("postgresql", f"postgresql://{place}{'?' if told else ''}{told}", durable)
    if others:
        raise UserError(f"storage: {others[0][0]!r} is no option of sqlite: there is durable=no alone")
    if not place.startswith("/") or place in ("/", "/:memory:"):
        raise UserError("storage: sqlite needs a file: sqlite:///relative.db, or four slashes for an absolute path")
    return Address("sqlite", unquote(place[1:]), durable)


def _yes_or_no(value: str) -> bool:
    if value not in ("yes", "no"):
        raise UserError("storage: durable = yes, or no where losing the last reports in a power cut does not matter")
    return value == "yes"


def _opened(address: Address, create: bool) -> Store:
    """Open either store; what the one needs is not imported for the other."""
    if address.dialect == "sqlite":
        from maskedbandits.service.storage.sqlite import SqliteStore

        return SqliteStore(Path(address.place), create=create, durable=address.durable)
    from maskedbandits._util.extras import need

    need("storage in PostgreSQL", ("psycopg",), "postgres")
    from maskedbandits.service.storage.postgres import PostgresStore

    return PostgresStore(address.place, create=create, durable=address.durable)
