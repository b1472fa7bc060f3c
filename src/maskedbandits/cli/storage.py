"""Which store a verb works with: the one that a service with the same flags would use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maskedbandits.cli.verb import Failure

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store


class Given(NamedTuple):
    """What the command line says of the store."""

    url: str | None
    config: Path | None


def storage(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb be told the store, by a URL or by the file of a service's settings, and hand it what was given."""

    @click.option(
        "--storage", metavar="URL", help="The service's; MASKEDBANDITS_STORAGE or sqlite:///bandits.db unless given."
    )
    @click.option("--config", type=click.Path(path_type=Path), help="The service's TOML file, which names the storage.")
    @functools.wraps(verb)
    def called(*arguments: Any, storage: str | None, config: Path | None, **others: Any) -> None:
        verb(*arguments, storage=Given(storage, config), **others)

    return called


@contextmanager
def storage_of(given: Given) -> Iterator[str]:
    """Lend the URL of the store; one that is gone is told of in a line."""
    from maskedbandits.service.server.settings import gathered
    from maskedbandits.service.storage import StoreUnavailable

    try:
        yield gathered({"storage": given.url}, config=given.config).storage
    except StoreUnavailable as gone:
        raise Failure(f"{gone.reason.removesuffix(': try again')}: try again") from gone


@contextmanager
def opened(given: Given, verb: str, *, create: bool = False) -> Iterator[Store]:
    """Open the store for a verb."""
    from maskedbandits._util import extras

    extras.need(verb, extras.SERVICE, "service")
    from maskedbandits.service.storage import open_store

    with storage_of(given) as url, open_store(url, create=create) as store:
        yield store
