"""A few kills of services under load; `make crash` does many."""

from typing import Any

import pytest

import crash


def quietly(line: str) -> None:
    """Print no progress."""


@pytest.mark.long
def test_sqlite_service_survives_kills() -> None:
    found = crash.crash_sqlite(2, quietly)
    assert found.holds, found


@pytest.mark.slow
def test_one_of_two_postgresql_services_survives_kills() -> None:
    found = crash.crash_postgres(2, quietly)
    assert found.holds, found


@pytest.mark.slow
def test_services_survive_kill_of_postgresql() -> None:
    found = crash.crash_postgres(1, quietly, kill_database=True)
    assert found.holds, found


@pytest.mark.slow
def test_service_with_groups_survives_kills() -> None:
    found = crash.crash_sqlite(2, quietly, crash.GROUPS)
    assert found.holds, found


@pytest.mark.slow
@pytest.mark.parametrize("run", [crash.crash_sqlite, crash.crash_postgres])
def test_services_survive_kills_while_events_are_removed(run: Any) -> None:
    found = run(2, quietly, retention=True)
    assert found.holds, found
    assert found.removed
    assert found.removals_killed
