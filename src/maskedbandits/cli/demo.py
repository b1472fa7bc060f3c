"""`maskedbandits demo`: a page that shows how a service learns from masked reports."""

from __future__ import annotations

import click

from maskedbandits.cli.output import echo
from maskedbandits.cli.verb import Verb


@click.command(
    cls=Verb,
    examples=["maskedbandits demo", "maskedbandits demo --port 9000 --no-browser", "maskedbandits demo --seconds 60"],
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8081, show_default=True, help="Of the page; 0 for any.")
@click.option("--no-browser", is_flag=True, help="Print the address alone, and open no browser.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End by itself after so long.")
def demo(port: int, no_browser: bool, seconds: float | None) -> None:
    """Show the live service at work, with simulated visitors in a changing world, on one page.

    On the left a visitor's device, which turns some answers round before they leave it. On the right what the service
    sees, and how it follows a change all the same. A slider shows what privacy costs. Nothing leaves this machine.
    """
    from maskedbandits._util import extras

    extras.require("demo", extras.SERVICE, "service")
    from maskedbandits.demo.program import run

    run(port, seconds, open_browser=not no_browser, say=echo)
