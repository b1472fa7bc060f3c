"""URLs of stores: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from maskedbandits.errors import UserError
from maskedbandits.service.storage import layouts
from maskedbandits.service.storage.store import Store

EXAMPLES = "sqlite:///bandits.db or postgresql://user@host/database"


class Address(NamedTuple):
    """A parsed URL: the database, its location, and whether acknowledged reports must survive a power cut."""

    dialect: str
    location: str  # a path, or a URL for PostgreSQL's client library
    durable: bool


def open_store(url: str, *, create: bool = False, any_version: bool = False) -> Store:
    """Open the store at a URL.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/database``.
    create
        Create an empty store if there is none.
    any_version
        Accept tables of another version as they are, to upgrade them.

    Returns
    -------
    Store
        An open store. Close it, or use it as a context manager.

    Raises
    ------
    UserError
        If the URL is wrong, there is no store, or it has another version.
    Unreachable
        If the store cannot be opened now.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_store(f"sqlite:///{folder.name}/bandits.db", create=True) as store:
    ...     store.list_experiments()
    []
    >>> folder.cleanup()

    """
    store = _open_address(parse_url(url), create)
    if not any_version:
        try:
            layouts.refuse_other_version(store.read_version(), store.name)
            store.expand()
        except BaseException:
            store.close()
            raise
    return store


def parse_url(url: str) -> Address:
    """Parse a URL; errors do not repeat it, because it may hold a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("sqlite", "postgresql", "postgres") or not rest:
        raise UserError(f"storage: give a URL such as {EXAMPLES}")
    location, _, query = rest.partition("?")
    durable, others = True, []
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "durable":
            durable = _parse_durable(value)
        else:
            others.append((key, value))
    if scheme != "sqlite":
        options = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in others)
        return Address("postgresql", f"postgresql://{location}{'?' if options else ''}{options}", durable)
    if others:
        raise UserError(f"storage: sqlite has no option {others[0][0]!r}: only durable=no")
    if not location.startswith("/") or location in ("/", "/:memory:"):
        raise UserError("storage: sqlite needs a file: sqlite:///relative.db, or four slashes for an absolute path")
    return Address("sqlite", unquote(location[1:]), durable)


def _parse_durable(value: str) -> bool:
    if value not in ("yes", "no"):
        raise UserError("storage: give durable=yes, or durable=no if a power cut may lose the last reports")
    return value == "yes"


def _open_address(address: Address, create: bool) -> Store:
    """Open a store, importing its backend alone."""
    if address.dialect == "sqlite":
        from maskedbandits.service.storage.sqlite import SqliteStore

        return SqliteStore(Path(address.location), create=create, durable=address.durable)
    from maskedbandits._util.extras import require

    require("storage in PostgreSQL", ("psycopg",), "postgres")
    from maskedbandits.service.storage.postgres import PostgresStore

    return PostgresStore(address.location, create=create, durable=address.durable)
