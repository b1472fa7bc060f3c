"""Lookups of experiments on each backend, against the plain ones."""

from __future__ import annotations

import random

from store_samples import ARMS, LATER, create_sample

from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import OPEN, ArmRow, Change

pytest_plugins = ["store_fixtures"]


def test_experiment_is_found_by_id_and_name(any_store: Store) -> None:
    first, second = create_sample(any_store), create_sample(any_store, "layouts")
    assert [any_store.find_experiment(each) for each in (1, 2, 3)] == [first, second, None]
    assert [any_store.find_experiment(each) for each in ("layouts", "none")] == [second, None]
    arms = [ArmRow(place, *arm, OPEN) for place, arm in enumerate(ARMS)]
    assert any_store.find_described("headlines") == (first, arms)
    assert any_store.find_described("none") is None
    assert any_store.read_last_id() == 2


def test_pages_are_those_of_the_whole_list(any_store: Store) -> None:
    for number in range(7):
        create_sample(any_store, f"{'even' if number % 2 == 0 else 'odd'}-{number}")
    any_store.change(3, Change("status", 1, status="archived"))
    any_store.change(5, Change("retire", 1, place=1))
    rows = any_store.list_experiments()
    for after in (0, 1, 6, 7):
        for limit in (1, 3, 9):
            for status in ("", "running", "archived"):
                for search in ("", "even", "ODD", "-", "%", "_", "!"):
                    found = any_store.list_page(after, limit, status, search)
                    wanted = [
                        row
                        for row in rows
                        if row.id > after and status in ("", row.status) and search.lower() in row.name
                    ]
                    assert [each.row for each in found] == wanted[:limit]
    assert {each.row.id: each.open_arms for each in any_store.list_page(0, 9)} == {
        **dict.fromkeys(range(1, 8), 3),
        5: 2,
    }


def test_issued_of_many_is_that_of_each(any_store: Store) -> None:
    rng, experiments = random.Random(5), range(1, 8)
    for number in experiments:
        create_sample(any_store, f"e{number}")
    for process in ("here", "there", "else"):
        rows = [
            (number, rng.randrange(3), LATER + 60 * rng.randrange(3), rng.randrange(1, 9))
            for number in experiments
            for _ in range(4)
        ]
        any_store.set_issued(process, rows)
    since = {number: LATER + 60 * rng.randrange(3) for number in experiments if number != 4}
    found = any_store.list_issued_since(since, "here")
    for number, minute in since.items():
        assert sorted(found.get(number, [])) == sorted(any_store.list_issued(number, minute, "here"))
    assert 4 not in found
    assert any_store.list_issued_since({}, "here") == {}


def test_hundreds_of_experiments_are_asked_for_in_pieces(any_store: Store) -> None:
    create_sample(any_store)
    any_store.set_issued("there", [(1, 0, LATER, 3)])
    assert any_store.list_issued_since(dict.fromkeys(range(1, 1000), 1), "here") == {1: [(0, "there", LATER, 3)]}


def test_all_sums_are_of_experiments_that_go_on(any_store: Store) -> None:
    for name in ("a", "b", "c"):
        create_sample(any_store, name)
    any_store.set_issued("one", [(1, 0, LATER, 2), (1, 0, LATER + 60, 3), (2, 1, LATER, 4), (3, 0, LATER, 5)])
    any_store.change(3, Change("status", 1, status="archived"))
    assert any_store.sum_all_issued() == {1: any_store.sum_issued(1), 2: any_store.sum_issued(2)}
    assert any_store.read_status().heads == {1: 1, 2: 1}
    assert any_store.read_heads() == {1: 1, 2: 1, 3: 2}
