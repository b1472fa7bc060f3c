"""Older releases, and stores of older versions from SQL that their own code has written (the files in `older/`)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tarfile
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pytest

from maskedbandits.service.storage import Store
from maskedbandits.service.storage.base import Transaction
from maskedbandits.service.storage.urls import parse_url

OLDER = Path(__file__).with_name("older")
ROOT = Path(__file__).parents[3]
FIRST_HEADS = {1: 16, 2: 6}  # of the logs in each file
START = 29_900_040  # the minute up to which each file has forgotten ids


class Killed(Exception):  # noqa: N818 - what happens to a process
    """Stands for the end of a process."""


def build_older(url: str, version: int, *, empty: bool = False) -> None:
    """Build a store of version 2 or 3 at a URL where there is none; ``empty``: without experiments."""
    address = parse_url(url)
    script = (OLDER / f"version_{version}.{address.dialect}.sql").read_text()
    if empty:
        script = script[: script.index("INSERT INTO experiment ")]
    if address.dialect == "sqlite":
        with closing(sqlite3.connect(address.location)) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(address.location) as connection:
            connection.execute(script.encode())


def unpack_release(commit: str, folder: Path) -> Path:
    """Write the sources as of a commit into a folder, and return where its package is."""
    command = [shutil.which("git") or "false", "archive", commit, "src"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        # A checkout on a continuous integration server has the history, unless someone makes it shallow. Archives of
        # the sources have none, so elsewhere this is no failure.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs the history of the project up to {commit}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def interrupt_upgrade(store: Store, step: str) -> None:
    """Begin an upgrade that is killed before one of its steps."""

    def kill(*given: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), step, kill)
        with suppress(Killed):
            store.upgrade(rewrite_nothing)
            raise AssertionError(f"no upgrade came to {step}")


def rewrite_nothing(tx: Transaction, version: int) -> None:
    """Leave the rows of an older version as they are."""
