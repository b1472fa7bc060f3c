"""One PostgreSQL for all tests of a process; a test module asks for it with ``pytest_plugins``."""

from collections.abc import Iterator

import pytest
from postgres import Cluster, cluster


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Cluster]:
    """A server that no test stops: those that do make one of their own."""
    with cluster() as server:
        yield server
