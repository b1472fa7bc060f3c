"""The crash tests in brief; `make crash` kills far more often."""

import pytest

import crash


def quietly(line: str) -> None:
    """Say nothing of how far it is."""


@pytest.mark.long
def test_a_service_with_sqlite_may_be_killed() -> None:
    found = crash.with_sqlite(2, quietly)
    assert found.holds, found


@pytest.mark.long
def test_one_of_two_services_with_postgresql_may_be_killed() -> None:
    found = crash.with_postgres(2, quietly)
    assert found.holds, found


@pytest.mark.slow
def test_postgresql_itself_may_be_killed() -> None:
    found = crash.with_postgres(1, quietly, kill_database=True)
    assert found.holds, found


@pytest.mark.slow
def test_a_service_with_private_groups_may_be_killed() -> None:
    found = crash.with_sqlite(2, quietly, crash.GROUPS)
    assert found.holds, found
