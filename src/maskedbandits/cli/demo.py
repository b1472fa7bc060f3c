"""`maskedbandits demo`: a page that shows how a service learns from masked reports."""

from __future__ import annotations

import click

from maskedbandits.cli.output import echo
from maskedbandits.cli.verb import Number, Verb, WholeNumber


@click.command(
    cls=Verb,
    examples=["maskedbandits demo", "maskedbandits demo --port 9000 --no-browser", "maskedbandits demo --seconds 60"],
)
@click.option(
    "--port", type=WholeNumber(0, 65_535), default=8081, show_default=True, help="Port of the page; 0 for a free one."
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@click.option("--seconds", type=Number(min=0, min_open=True), help="Stop after this many seconds.")
def demo(port: int, no_browser: bool, seconds: float | None) -> None:
    """Open a page with a live service and simulated visitors.

    Left: a visitor's device, which flips some answers before they leave it. Right: the reports that the service
    receives, and how it follows a change. A slider shows the cost of privacy. Nothing leaves this machine.
    """
    from maskedbandits._util import extras

    extras.require("demo", extras.SERVICE, "service")
    from maskedbandits.demo.program import run

    run(port, seconds, open_browser=not no_browser, say=echo)
