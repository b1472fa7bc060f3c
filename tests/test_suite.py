"""The test suite itself: its processes share the work as the marks of the tests say."""

import os

import pytest


@pytest.mark.xdist_group("suite")
def test_one_process_runs_all_tests_of_a_group(request: pytest.FixtureRequest) -> None:
    """Without groups (`--dist loadgroup`), each process starts its own browser and compiles the same policies."""
    is_shared = "PYTEST_XDIST_WORKER" in os.environ
    assert request.node.nodeid.endswith("@suite") == is_shared
