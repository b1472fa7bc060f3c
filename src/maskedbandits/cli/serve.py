"""`maskedbandits serve`: the live service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from maskedbandits.cli.output import echo
from maskedbandits.cli.verb import Verb


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits serve",
        "maskedbandits serve --storage sqlite:////var/lib/bandits.db --port 9000",
        "maskedbandits serve --storage postgresql://bandits@db/bandits --host 0.0.0.0 --workers 4",
        "maskedbandits serve --config service.toml",
    ],
)
@click.option("--storage", metavar="URL", help="Where everything is kept; sqlite:///bandits.db unless given.")
@click.option("--host", help="Address to listen on; 127.0.0.1 unless given. Any other needs keys.")
@click.option("--port", type=int, help="Port to listen on; 8080 unless given, 0 for any that is free.")
@click.option("--workers", type=int, help="Processes that answer; 1 unless given.")
@click.option("--access-log", is_flag=True, default=None, help="Log a line for every request.")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with these and further settings.")
def serve(config: Path | None, **flags: Any) -> None:
    """Serve decisions and take masked reports over HTTP until interrupted.

    A flag counts more than a variable such as MASKEDBANDITS_PORT, and that more than the file. It listens at once;
    /readyz tells when machine code is loaded and logs are read. What it has acknowledged is on disk, however it ends.
    """
    from maskedbandits.service.server import main as serving
    from maskedbandits.service.server.settings import gathered

    code = serving.serve(gathered(flags, config=config), echo)
    if code:
        sys.exit(code)
