"""The examples in docstrings of policies run."""

import doctest
import importlib

import pytest

MODULES = [
    "contextual.bounds",
    "contextual.factory",
    "contextual.policy",
    "contextual.serialization",
    "contextual.shares",
    "features.policy",
    "features.serialization",
    "policies",
    "policies.policy",
    "policies.serialization",
]


@pytest.mark.plain
@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"maskedbandits.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
