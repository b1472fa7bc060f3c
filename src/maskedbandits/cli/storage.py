"""The store of a verb: the one that a service with the same flags would use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maskedbandits.cli.verb import Failure
from maskedbandits.errors import UserError, suggest_nearest

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store


class StoreOptions(NamedTuple):
    """The options of the command line about the store."""

    url: str | None
    config: Path | None


def store_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options --storage and --config to a verb, which gets them as ``storage``."""

    @click.option(
        "--storage",
        metavar="URL",
        show_default="MASKEDBANDITS_STORAGE, or sqlite:///bandits.db",
        help="Database of the service.",
    )
    @click.option(
        "--config", type=click.Path(path_type=Path), help="TOML file of the service, which names the storage."
    )
    @functools.wraps(verb)
    def call(*arguments: Any, storage: str | None, config: Path | None, **options: Any) -> None:
        verb(*arguments, storage=StoreOptions(storage, config), **options)

    return call


@contextmanager
def resolve_url(options: StoreOptions) -> Iterator[str]:
    """Yield the URL of the store; an unavailable store ends in one line."""
    from maskedbandits._util import extras

    extras.require("storage", extras.SERVICE, "service")
    from maskedbandits.service.server.settings import load_settings
    from maskedbandits.service.storage import StoreUnavailable

    try:
        yield load_settings({"storage": options.url}, config=options.config).storage
    except StoreUnavailable as error:
        raise Failure(f"{error.reason.removesuffix(': try again')}: try again") from error


@contextmanager
def open_for_verb(options: StoreOptions, verb: str, *, create: bool = False) -> Iterator[Store]:
    """Open the store for a verb."""
    from maskedbandits._util import extras

    extras.require(verb, extras.SERVICE, "service")
    from maskedbandits.service.storage import open_store

    with resolve_url(options) as url, open_store(url, create=create) as store:
        yield store


def find_experiments(store: Any, name: str | None) -> list[Any]:
    """Return the experiment called ``name``, or all of them."""
    rows = store.list_experiments()
    if name is None:
        return list(rows)
    known = [row.name for row in rows]
    if name not in known:
        raise UserError(f"no experiment is called {name!r}{suggest_nearest(name, known)}")
    return [row for row in rows if row.name == name]
