"""Sample rows and helpers of the tests of stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from maskedbandits.errors import UserError
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import ExperimentRow, NewArmRow, NewReport

ARMS = [NewArmRow("red", '{"colour": "#f00"}'), NewArmRow("blue"), NewArmRow("green", "[1, 2]")]
CONFIG = '{"epsilon": 1.0}'
HOUR, LATER = 480_000, 30_000_000  # an hour, and a minute in which nothing has expired yet


def create_sample(store: Store, name: str = "headlines") -> ExperimentRow:
    return store.create_experiment(name, CONFIG, ARMS, 0, HOUR)


def report(experiment: int = 1, decision: bytes | None = None, expires: int = LATER, tag: int = 1_000_000) -> NewReport:
    """Return a report; its epsilon marks it in the log."""
    return NewReport(experiment, 1, 1, tag, 65_536, 0, decision or os.urandom(11), expires, HOUR)


def to_id(decision: int) -> bytes:
    return decision.to_bytes(11, "big")


@contextmanager
def refused(*words: str, kind: type[Exception] = UserError) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of one line with these words."""
    with pytest.raises(kind) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
