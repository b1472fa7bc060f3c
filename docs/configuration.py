"""Writes the tables of docs/configuration.md from the settings in the code: `python -m docs.configuration`."""

from __future__ import annotations

from pathlib import Path

from docs import blocks
from maskedbandits.service.server.logging import format_events
from maskedbandits.service.server.settings import OTHER_VARIABLES, PREFIX, format_table

PAGE = Path(__file__).with_suffix(".md")


def variables() -> str:
    """Return the variables that are not settings."""
    rows = [f"| `{PREFIX}{name}` | {meaning} |" for name, meaning in OTHER_VARIABLES.items()]
    return "\n".join(["| variable | meaning |", "|---|---|", *rows])


TABLES = {"settings": format_table, "events": format_events, "variables": variables}


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, {which: table() for which, table in TABLES.items()})


if __name__ == "__main__":
    main()
