"""Personal data in the store: no time finer than an hour, and no link from a visitor to a report."""

from __future__ import annotations

import base64
import binascii
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from registries import build_registry
from web import SMALL, Served

from helpers.private import signing_keys
from maskedbandits.service.clock import Clock
from maskedbandits.service.secret import load_secrets
from maskedbandits.service.storage import Store, schema
from maskedbandits.service.storage.backup import backup

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"
START = 1_800_000_000.0 + 17 * 60 + 1  # not at a full hour
PAGE = Path(__file__).parents[2] / "docs" / "secure.md"
VISITORS = 40


@pytest.fixture(params=[{}, {"groups": ["young", "old"]}], ids=["alone", "groups"])
def visited(request: pytest.FixtureRequest, storage: str, tmp_path: Path, restless: None) -> Iterator[dict[str, str]]:
    """The tokens of visitors, all of whom have reported, by their names; one report was refused."""
    tokens = {}
    with Served(build_registry(storage, Clock(wall=lambda: START, steady=lambda: 0.0))) as served:
        assert served.post("/v1/experiments", {**SMALL, **request.param}).status == 201
        for number in range(VISITORS):
            name = f"visitor {number} of many"
            tokens[name] = served.post(DECISIONS, {"visitor": name}).json["token"]
            values = {"token": tokens[name], "answer" if request.param else "bit": 1}
            assert served.post(REPORTS, values).json == {"status": "accepted"}
            assert served.post(REPORTS, values).json == {"status": "duplicate"}
            assert served.post(DECISIONS, {"visitor": name}).json["token"] == tokens[name]
        served.close()
        yield tokens


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def readings(value: bytes) -> list[bytes]:
    """Return a value, and its decoding as a token."""
    try:
        return [value, base64.urlsafe_b64decode(value)]
    except binascii.Error:
        return [value]


def test_visitor_cannot_be_joined_to_report(visited: dict[str, str], tmp_path: Path) -> None:
    """The id of a decision was in the visitor's token, at one place: 40 of 40 were joined."""
    path = tmp_path / "bandits.db"
    events = {bit for (bit,) in rows(path, "SELECT decision FROM report_id")}
    kept = [row[0] for row in rows(path, "SELECT token FROM visitor")]
    assert len(events) == len(kept) == VISITORS
    joined = [token for token in kept if any(identity in reading for reading in readings(token) for identity in events)]
    assert len(joined) == 0


def test_tokens_do_not_join_visitors_and_reports(visited: dict[str, str], store: Store, tmp_path: Path) -> None:
    """Tokens may leak from a seized device or a proxy's log; names are never stored."""
    raw = b"".join(each.read_bytes() for each in tmp_path.glob("bandits.db*"))
    ring = load_secrets(store).ring
    for name, token in visited.items():
        assert token.encode() not in raw
        assert ring.read(token).id not in raw
        assert name.encode() not in raw


def test_stored_times_are_whole_hours(visited: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "bandits.db"
    for table, column in (
        ("report_id", "expires"),
        ("issued", "expires"),
        ("visitor", "expires"),
        ("refused", "minute"),
    ):
        found = [each for (each,) in rows(path, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")]  # noqa: S608
        assert found
        assert all(minute % 60 == 0 for minute in found), table


def test_store_and_backup_hold_no_secret(visited: dict[str, str], store: Store, tmp_path: Path) -> None:
    backup(store, tmp_path / "saved")
    raw = b"".join(each.read_bytes() for each in (*tmp_path.glob("bandits.db*"), tmp_path / "saved"))
    secrets = load_secrets(store)
    hidden = [*signing_keys(secrets.ring).values(), secrets.visitor, secrets.decision]
    assert len(hidden) == 3
    for secret in hidden:
        assert secret not in raw
        assert secret.hex().encode() not in raw


def test_documentation_lists_every_column() -> None:
    text = PAGE.read_text()
    section = text[text.index("## Stored data") :]
    listed = {
        (table, column)
        for table, columns in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
        for column in re.findall(r"`(\w+)`", columns)
    }
    assert listed == {(table, column) for table in schema.TABLES for column in schema.list_columns(table)}
