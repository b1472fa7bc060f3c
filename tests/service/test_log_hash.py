"""The running hash of a log."""

from __future__ import annotations

from typing import Any

import pytest
from fold_log import build_group_log, build_log, change, report
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.log_hash import LogHash
from naive.log_hash import running_hash

optional = st.one_of(st.none(), st.integers(0, 2**31 - 1))
small = st.one_of(st.none(), st.integers(0, 2**15 - 1))
details = st.dictionaries(
    st.text(max_size=3).map("x{}".format), st.one_of(st.integers(), st.text(), st.floats(allow_nan=False))
)


@st.composite
def logs(draw: Any) -> list[Any]:
    """Logs of any values, in which some hours have many events and some have one."""
    events, hour = [], 0
    for seq in range(1, draw(st.integers(1, 40)) + 1):
        hour += draw(st.sampled_from([0, 0, 0, 1]))
        if draw(st.integers(0, 5)) == 0:
            events.append(change(seq, draw(st.sampled_from(["arm", "config", "new kind"])), **draw(details)))
        else:
            others = {name: draw(optional) for name in ("arm", "probability", "config")}
            others |= {name: draw(small) for name in ("bit", "flags")} | {"epsilon": draw(st.integers(0, 2**62))}
            others["question"] = draw(st.one_of(st.none(), st.binary(max_size=9)))
            events.append(report(seq, **{"arm": None, "bit": 0, **others}))
        events[-1] = events[-1]._replace(hour=hour)
    return events


def hash_in_parts(events: list[Any], cuts: list[int]) -> LogHash:
    found, rest = LogHash(), events
    for size in [*cuts, len(events)]:
        found.add(EventColumns.from_rows(rest[:size]))
        rest = rest[size:]
    return found


@settings(max_examples=60)
@given(logs(), st.lists(st.integers(0, 9)))
def test_hash_is_that_of_its_definition(events: list[Any], cuts: list[int]) -> None:
    """However the events are grouped when they are read."""
    assert hash_in_parts(events, cuts).value == running_hash(events)


@pytest.mark.parametrize("log", [build_log("klucb-cf"), build_group_log("klucb-cf")], ids=["arms", "groups"])
def test_hash_of_long_log_is_that_of_its_definition(log: list[Any]) -> None:
    for same_hour in (False, True):
        events = [event._replace(hour=7) for event in log] if same_hour else log
        assert hash_in_parts(events, [1, 254, 2, 300]).value == running_hash(events)


def test_every_change_of_an_event_changes_the_hash() -> None:
    log = build_log("klucb-cf", 320)
    right = hash_in_parts(log, []).value
    for place in (0, 1, 199, 255, 256, 299, 319):
        event = log[place]
        altered = [event._replace(hour=event.hour + 1), event._replace(arm=7), event._replace(kind="status")]
        altered += [event._replace(config=9), event._replace(flags=(event.flags or 0) + 2)]
        for one in altered:
            assert hash_in_parts([*log[:place], one, *log[place + 1 :]], []).value != right, (place, one)


def test_payloads_are_no_part_of_the_hash() -> None:
    log = build_log("klucb-cf", 10)
    edited = log[0]._replace(detail=(log[0].detail or "").replace("/1", "/other"))
    assert edited != log[0]
    assert hash_in_parts([edited, *log[1:]], []).value == hash_in_parts(log, []).value


def test_log_is_cut_between_two_hours() -> None:
    """Nothing is left of the events before but their hash."""
    log = build_log("klucb-cf", 400)
    cut = next(place for place in range(100, 300) if log[place].hour != log[place - 1].hour)
    before = hash_in_parts(log[:cut], [])
    before.end_block()
    assert before.tail == b""
    after = LogHash(0, before.seq, before.chain)
    after.add(EventColumns.from_rows(log[cut:]))
    assert after.value == hash_in_parts(log, []).value


def test_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="too large"):
        hash_in_parts([report(1, 2**40, 1)], [])
