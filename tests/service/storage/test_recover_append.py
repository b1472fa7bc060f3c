"""Appends whose reply was lost: their reports are found and distinguished from those of others."""

from __future__ import annotations

import pytest
from store_samples import LATER, create_sample, report, to_id

from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import DUPLICATE, LATE, UNKNOWN, Change

pytest_plugins = ["store_fixtures"]


@pytest.fixture
def store(any_store: Store) -> Store:
    create_sample(any_store)
    create_sample(any_store, "others")
    return any_store


def test_committed_append_is_recovered(store: Store) -> None:
    earlier = [report(), report()]
    store.append(earlier)
    store.append([report(experiment=2), report()])
    batch = [earlier[0], report(), report(experiment=2), report(), earlier[1], report(experiment=7), report(expires=0)]
    batch.append(batch[1])
    answered = store.append(batch)
    assert answered == [DUPLICATE, 5, 3, 6, DUPLICATE, UNKNOWN, LATE, DUPLICATE]
    assert store.recover_append(batch, {}) == answered
    store.append([report(), report(experiment=2)])  # others go on
    assert store.recover_append(batch, {}) == answered


def test_uncommitted_append_is_not_recovered(store: Store) -> None:
    batch = [report(), report()]
    assert store.recover_append(batch, {}) is None
    assert store.append(batch) == [2, 3]


def test_reports_of_others_are_duplicates(store: Store) -> None:
    batch = [report(), report(), report()]
    store.append(batch[1:2])  # the other reports are missing, so this batch was never committed
    assert store.recover_append(batch, {}) is None
    assert store.append(batch) == [3, DUPLICATE, 4]


def test_earlier_reports_are_duplicates(store: Store) -> None:
    known = report()
    assert store.append([report(), known]) == [2, 3]
    assert store.recover_append([known], {1: 3}) == [DUPLICATE]
    batch = [known, report()]
    assert store.append(batch) == [DUPLICATE, 4]
    assert store.recover_append(batch, {1: 3}) == [DUPLICATE, 4]


def test_other_bit_is_another_report(store: Store) -> None:
    ours = report()
    store.append([ours._replace(bit=0)])
    assert store.recover_append([ours], {}) == [DUPLICATE]


def test_large_append_is_recovered(store: Store) -> None:
    batch = [report(decision=to_id(place)) for place in range(2_000)]
    answered = store.append(batch)
    assert store.recover_append(batch, {}) == answered == list(range(2, 2_002))


def test_recovery_with_questions_forgotten_and_archived(store: Store) -> None:
    grouped = report()._replace(arm=None, probability=None, config=3, question=b"abc")
    assert store.recover_append([grouped], {}) is None
    assert store.append([grouped, report(expires=LATER - 5)]) == [2, 3]
    assert store.recover_append([grouped], {}) is not None
    store.forget(LATER - 5)
    assert store.recover_append([grouped, report(expires=LATER - 5)], {}) == [2, LATE]
    store.change(1, Change("status", 1, status="archived"))
    assert store.recover_append([grouped], {}) == [2]
