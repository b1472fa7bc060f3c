"""Requests: decoding, and one-line errors."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.service.schemas import (
    MILLION,
    BodyDecoder,
    DecisionRequest,
    ExperimentChange,
    ExperimentConfig,
    NewArm,
    ReportRequest,
    check_experiment,
    to_millionths,
)

SMALL: dict[str, Any] = {"name": "headline", "arms": [{"name": "a"}, {"name": "b", "payload": [1]}], "epsilon": 1}
experiment = BodyDecoder(ExperimentConfig)


def read(**changes: Any) -> ExperimentConfig:
    config = experiment(msgspec.json.encode({**SMALL, **changes}))
    check_experiment(config)
    return config


def test_missing_fields_have_defaults() -> None:
    config = read()
    assert (config.policy, config.parameters, config.report_after, config.expires_after) == ("auto", {}, 120, 86_400)
    assert (config.floor, config.holdout, config.default_arm) == (0.0, 0.0, None)
    assert config.arms[0].payload is None


def test_duplicate_arm_check_is_linear() -> None:
    """Each name is looked at a few times, however many there are."""

    class Name(str):
        looked = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.looked += 1
            return str.__eq__(self, other)

    arms = [NewArm(Name(f"arm {place}")) for place in range(2000)]
    with pytest.raises(UserError, match="arm 1999"):
        check_experiment(ExperimentConfig("a", [*arms, NewArm(Name("arm 1999"))], 1.0))
    assert Name.looked < 10 * len(arms)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "Headline"}, "`$.name` is to be of letters a to z"),
        ({"name": "a" * 65}, "`$.name`"),
        ({"name": "-a"}, "`$.name`"),
        ({"arms": []}, "length >= 1"),
        ({"arms": [{"name": "a"}, {"name": "a"}]}, "two arms are called 'a'"),
        ({"arms": [{"name": "a\nb"}]}, "a text on one line"),
        ({"arms": [{"name": "a" * 201}]}, "length <= 200"),
        ({"epsilon": 0}, "`float` > 0.0"),
        ({"epsilon": 17}, "`float` <= 16.0"),
        ({"epsilon": 0.1234567}, "epsilon = 0.1234567"),
        ({"epsilon": "1"}, "Expected `float`, got `str`"),
        ({"default_arm": "c"}, "default_arm = 'c' is not one of the arms; known are a, b"),
        ({"report_after": 86_400}, "expires_after = 86400"),
        ({"floor": 1.5}, "`float` <= 1.0"),
        ({"holdout": -0.5}, "`float` >= 0.0"),
        ({"polcy": "auto"}, "no field is called 'polcy'; did you mean 'policy'?"),
        ({"arms": [{"name": "a"}, {"nmae": "b"}]}, "no field of arms[1] is called 'nmae'; did you mean 'name'?"),
        ({"arms": [{"name": "a", "x`y\n": 1}]}, r"no field of arms[0] is called 'x`y\n'; known are name, payload"),
    ],
)
def test_invalid_experiment_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        read(**changes)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"visitor":' + b"[" * 100_000,
        b"[]",
        b"null",
        b'{"\xff":1}',
        b'{"n":1e999}',
    ],
)
def test_invalid_body_is_one_line(body: bytes) -> None:
    with pytest.raises(UserError) as refused:
        BodyDecoder(DecisionRequest)(body)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the body is not JSON: it is empty; send a JSON object"),
        (b" \n", "the body is not JSON: it is empty; send a JSON object"),
        (rb'{"status":"\ud800"}', "the body is not JSON: half a character is in it"),
        (rb'{"status":"\ud800', "the body is not JSON: half a character is in it"),
        (b'{"status":', "the body is not JSON: Input data was truncated; send"),
        (b'{"status":"runing"}', "Invalid enum value 'runing' - at `$.status`; did you mean 'running'?"),
        (b'{"status":"off"}', "`$.status`; known are archived, paused, running"),
        (b'{"status":"\'"}', "`$.status`; known are archived, paused, running"),
    ],
)
def test_error_says_what_to_change(body: bytes, complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        BodyDecoder(ExperimentChange)(body)
    assert complaint in str(refused.value)


@given(st.binary())
def test_any_body_raises_user_error_only(body: bytes) -> None:
    for wanted in (DecisionRequest, ReportRequest, ExperimentConfig):
        with contextlib.suppress(UserError):
            BodyDecoder(wanted)(body)


def test_change_keeps_missing_fields() -> None:
    change = BodyDecoder(ExperimentChange)(b'{"status":"paused","floor":0.0}')
    assert change.to_dict() == {"status": "paused", "floor": 0.0}


@given(st.integers(1, 16 * MILLION))
def test_epsilon_survives_json(count: int) -> None:
    epsilon = msgspec.json.decode(msgspec.json.encode(count / MILLION), type=float)
    assert to_millionths("epsilon", epsilon) == count


@given(st.floats(allow_nan=True))
def test_epsilon_is_exact_or_refused(epsilon: float) -> None:
    try:
        found = to_millionths("epsilon", epsilon)
    except UserError:
        return
    assert found / MILLION == epsilon
    assert 0 < epsilon <= 16
