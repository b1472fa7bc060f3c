"""Stores of older versions, from SQL that their own code has written: see the first line of each file in `older/`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

OLDER = Path(__file__).with_name("older")
FIRST_HEADS = {1: 16, 2: 6}  # of the logs in each file
START = 29_900_040  # the minute up to which each file has forgotten ids


def build_older(url: str, version: int) -> None:
    """Build a store of version 2 or 3 at a URL where there is none."""
    dialect, _, location = url.partition("://")
    script = (OLDER / f"version_{version}.{dialect}.sql").read_text()
    if dialect == "sqlite":
        with closing(sqlite3.connect(location.removeprefix("/"))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(url) as connection:
            connection.execute(script.encode())
