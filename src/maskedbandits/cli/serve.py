"""`maskedbandits serve`: the live service."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from maskedbandits._util import extras
from maskedbandits.cli.output import echo
from maskedbandits.cli.verb import Verb

HAS_SERVICE = not extras.list_missing(("msgspec",))
METAVARS = {"storage": "URL"}


def setting_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each setting that is one; the definitions of settings say which."""
    if not HAS_SERVICE:  # `serve` then says what to install
        return verb
    from maskedbandits.service.server.settings import list_fields

    for name, field in reversed(list_fields().items()):
        if field.extra.get("is_flag"):
            option = f"--{name.replace('_', '-')}"
            if isinstance(field.default, bool):
                verb = click.option(option, is_flag=True, default=None, help=field.description)(verb)
            else:
                kind, metavar = type(field.default), METAVARS.get(name)
                verb = click.option(
                    option, type=kind, metavar=metavar, help=field.description, show_default=str(field.default)
                )(verb)
    return verb


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits serve",
        "maskedbandits serve --storage sqlite:////var/lib/bandits.db --port 9000",
        "maskedbandits serve --storage postgresql://bandits@db/bandits --host 0.0.0.0 --workers 4",
        "maskedbandits serve --config service.toml",
    ],
    context_settings={} if HAS_SERVICE else {"ignore_unknown_options": True, "allow_extra_args": True},
)
@setting_options
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with these and further settings.")
def serve(config: Path | None, **flags: Any) -> None:
    """Start the live service: decisions and reports over HTTP.

    Flags override environment variables such as MASKEDBANDITS_PORT, which override the file. The service listens at
    once; /readyz answers 200 when policies are compiled and logs are read. Acknowledged reports are on disk, however it
    ends.
    """
    extras.require("serve", extras.SERVICE, "service")
    from maskedbandits.service.server import main as serving
    from maskedbandits.service.server.settings import load_settings

    code = serving.serve(load_settings(flags, config=config), echo)
    if code:
        sys.exit(code)
