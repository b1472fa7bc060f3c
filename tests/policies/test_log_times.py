"""What a log makes of the parameters of every policy."""

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from maskedbandits._numba.state import DECAY, DURATION, POSITION
from maskedbandits.errors import UserError
from maskedbandits.policies import KINDS, check_policy, log_times, oracle, registry
from specimens import RR

TIMES = {"window": DURATION, "horizon": DURATION, "gamma": DECAY, "restarts": POSITION}
# Not times of the world: counts of observations, of arms and of changes, sizes, shares and levels of evidence.
OTHERS = {
    *(
        "best",
        "c",
        "changes",
        "contamination",
        "delta",
        "divergence",
        "drift",
        "epsilon",
        "expected_changes",
        "expire_after",
        "exploration",
    ),
    *(
        "finest",
        "follow_up",
        "local",
        "prior_changes",
        "samples",
        "sigma",
        "strictness",
        "tail",
        "threshold",
        "variation",
    ),
    *("width", "xi"),
}


def test_every_parameter_declares_its_time() -> None:
    """A new parameter belongs in one of the lists above, and a time says so where it is declared."""
    for kind in registry.list_all(KINDS):
        for key, what in kind.parameters.items():
            assert (key in TIMES) != (key in OTHERS), f"{kind.name}: is {key} a time?"
            assert what.time == TIMES.get(key, ""), f"{kind.name}: {key} must be declared with its kind of time"
            speaks_of_time = re.search(r"\b(steps?|rows?|rounds?|times|when)\b", what.hint)
            assert not speaks_of_time or key in TIMES, f"{kind.name}: is {key} a time?"


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()])
def test_only_times_are_converted(kind: registry.Kind) -> None:
    values: dict[str, Any] = {
        "window": 3000,
        "horizon": 70_001,
        "gamma": 0.999,
        "restarts": [0, 500, 900],
        "best": [1, 0, 2],
        "variation": 2.0,
        "epsilon": 1.0,
        "samples": 30,
        "width": 40,
        "changes": 3,
    }
    given = {key: value for key, value in values.items() if key in kind.parameters}
    found = log_times.in_plays(kind, given, 3, 10.0)
    same = {key: value for key, value in given.items() if key not in TIMES}
    assert same.items() <= found.items()
    assert set(found) == set(given)
    expected = {"window": 300, "horizon": 7000, "gamma": 0.999**10}
    for key in set(given) & set(expected):
        assert found[key] == expected[key]
    if "restarts" in given:
        assert found["restarts"][0] == 0
        assert min(found["restarts"][1:]) > 1 << 60  # which no play reaches: the loop says when
        assert log_times.rows_of(kind, given) == [500, 900]
    assert given.get("restarts") in (None, [0, 500, 900])


def test_schedules_and_unknown_times_stay() -> None:
    doubling = log_times.in_plays(KINDS["klucb-plus-cf"], {"restarts": "doubling"}, 3, 3.0)
    assert doubling == {"restarts": "doubling"}
    assert log_times.rows_of(KINDS["klucb-plus-cf"], doubling) == []
    assert log_times.in_plays(KINDS["glr-klucb-cf"], {}, 3, 3.0) == {}
    assert log_times.in_plays(KINDS["sw-ts-cf"], {"window": math.inf}, 3, 3.0) == {"window": math.inf}
    assert log_times.in_plays(KINDS["exp3s"], {"horizon": 1}, 3, 3.0) == {"horizon": 1}


def test_check_policy_converts_times_for_log() -> None:
    given: dict[str, Any] = {"arms": 3, "corruption": RR, "window": 30}
    assert check_policy("sw-klucb-cf", **given)["window"] == 30
    assert check_policy("sw-klucb-cf", **given, pace=3.0)["window"] == 10
    with pytest.raises(UserError, match="window = 30"):
        check_policy("sw-klucb-cf", **given, pace=20.0)
    with pytest.raises(UserError, match="windw"):
        check_policy("sw-klucb-cf", **{**given, "windw": 3}, pace=3.0)


def test_policy_without_begin_segment_is_refused() -> None:
    module = SimpleNamespace(**{key: value for key, value in vars(oracle).items() if key != "begin_segment"})
    module.__name__ = "deaf"
    kind = registry.alone("deaf", module)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="begin_segment"):
        log_times.rows_of(kind, {"restarts": [0, 5], "best": [0, 1]})
