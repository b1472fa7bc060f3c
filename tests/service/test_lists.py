"""Lists of experiments: pages, filters and search, each against a plain selection from all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from registries import build_registry, storage_in
from web import SMALL, Served

from helpers.private import write_tables
from maskedbandits.service.storage import Store

pytest_plugins = ["service_fixtures"]

LIST = "/v1/experiments"
NAMES = ["apple", "apple-pie", "pear", "pineapple", "plum", "a-b", "quince"]
ARCHIVED = {"pear", "plum"}
PAUSED = {"quince"}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, restless: None) -> Iterator[Served]:
    with Served(build_registry(storage_in(tmp_path_factory.mktemp("lists")))) as served:
        for name in NAMES:
            assert served.post(LIST, {**SMALL, "name": name}).status == 201
        for name in (*ARCHIVED, *PAUSED):
            status = "archived" if name in ARCHIVED else "paused"
            assert served.patch(f"{LIST}/{name}", {"status": status}).status == 200
        yield served


def read_pages(served: Served, limit: int, query: str = "") -> list[dict[str, Any]]:
    """Return all entries, page by page."""
    found, cursor = [], ""
    while True:
        page = served.get(f"{LIST}?limit={limit}{query}{cursor}").json
        assert len(page["experiments"]) <= limit
        found += page["experiments"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("status", [None, "running", "paused", "archived"])
@pytest.mark.parametrize("search", [None, "apple", "p", "-", "none"])
def test_pages_together_have_each_match_once(
    several: Served, limit: int, status: str | None, search: str | None
) -> None:
    def status_of(name: str) -> str:
        return "archived" if name in ARCHIVED else "paused" if name in PAUSED else "running"

    wanted = [n for n in NAMES if status in (None, status_of(n)) and (search or "") in n]
    query = (f"&status={status}" if status else "") + (f"&search={search}" if search else "")
    found = read_pages(several, limit, query)
    assert [each["name"] for each in found] == wanted
    assert [each["status"] for each in found] == [status_of(name) for name in wanted]


def test_entry_has_what_get_shows(several: Served) -> None:
    entry = several.get(f"{LIST}?search=quince").json["experiments"][0]
    shown = several.get(f"{LIST}/quince").json
    assert entry == {**{name: shown[name] for name in entry}, "arms": 2}
    assert entry["created"] == shown["created"]
    assert entry["created"].endswith(":00:00Z")


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("limit=0", "a whole number from 1 to 1000"),
        ("limit=1001", "a whole number from 1 to 1000"),
        ("limit=x", "a whole number"),
        ("cursor=-1", "a whole number"),
        ("status=gone", "one of running, paused, archived"),
        ("search=", "1 to 64 characters"),
        ("search=%00", "NUL"),
        ("search=%ff", "not UTF-8"),
        ("statu=paused", "did you mean 'status'?"),
        ("limit=1&limit=2", "twice"),
    ],
)
def test_invalid_queries_are_refused(several: Served, query: str, complaint: str) -> None:
    reply = several.get(f"{LIST}?{query}")
    assert (reply.status, complaint in reply.error) == (400, True), reply


def test_search_ignores_case(several: Served) -> None:
    assert [each["name"] for each in read_pages(several, 9, "&search=PINE")] == ["pineapple"]


@pytest.mark.parametrize(
    "damage",
    [
        "config = '{'",
        "config = '[]'",
        'config = \'{"policy": 7, "epsilon": "x"}\'',
        "created_hour = 99999999999",
        "created_hour = -1",
    ],
)
def test_damaged_experiment_is_listed(several: Served, damage: str) -> None:
    def change(store: Store) -> tuple[Any, Any]:
        with write_tables(store) as tx:
            before = tx.query("SELECT config, created_hour FROM experiment WHERE name = 'plum'")[0]
            tx.execute(f"UPDATE experiment SET {damage} WHERE name = 'plum'")  # noqa: S608
        return before

    def repair(store: Store) -> None:
        with write_tables(store) as tx:
            tx.execute("UPDATE experiment SET config = ?, created_hour = ? WHERE name = 'plum'", before)

    before = several.run(several.registry.call_store(change))
    try:
        assert [each["name"] for each in read_pages(several, 9)] == NAMES
    finally:
        several.run(several.registry.call_store(repair))


@pytest.mark.parametrize("text", ["%25", "_", "!", "é"])
def test_search_takes_characters_literally(several: Served, text: str) -> None:
    assert several.get(f"{LIST}?search={text}").json["experiments"] == []
