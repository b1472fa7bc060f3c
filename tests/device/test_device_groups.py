"""A device in an experiment with groups shows its own arm, and reveals its group by nothing it sends."""

import random
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from device_fakes import START, Clock, Service, direct, opened, pass_time

from helpers.boundaries import set_delays
from helpers.private import next_due
from maskedbandits.device import device, outbox
from maskedbandits.device.protocol import find_membership
from maskedbandits.errors import UserError
from maskedbandits.privacy import Ledger

pytest_plugins = ["device_fixtures"]

GROUPS = ["young", "old", "other"]
PAYLOADS = {"plain": 1, "bold": {"size": 2}, "loud": None}
TABLE = ["plain", "bold", "bold"]
SURE = (
    16.0  # with which an answer is another than the truth once in nine million times, or in one of many 3 in a million
)


def group_offer(signs: list[int] | None = None, **others: Any) -> dict[str, Any]:
    return {"arms": TABLE, "signs": signs, "payloads": PAYLOADS, "epsilon": SURE, **others}


def of(url: str, group: str, **options: Any) -> device.Device:
    return opened(url, groups=GROUPS, group=group, **{"max_epsilon": SURE, **options})


@pytest.mark.parametrize("group", GROUPS)
def test_arm_of_group_is_shown_and_group_stays_secret(url: str, service: Service, group: str) -> None:
    service.decision = group_offer()
    with of(url, group) as own:
        decision = own.decide()
        arm = TABLE[GROUPS.index(group)]
        assert (decision.arm, decision.payload, decision.payloads) == (arm, PAYLOADS[arm], PAYLOADS)
        assert (decision.participate, decision.epsilon) == (True, Fraction(16))
        assert group not in repr(own) + repr(find_membership("headline", GROUPS, group))
        assert arm not in repr(decision)
    assert service.questions == [{}]


@pytest.mark.parametrize("signs", [None, [0, 1, 1], [1, 1, 0]])
@pytest.mark.parametrize("reward", [None, 0.0, 1.0])
def test_answer_has_group_and_reward(
    url: str, service: Service, clock: Clock, signs: list[int] | None, reward: float | None
) -> None:
    service.decision = group_offer(signs)
    for index, group in enumerate(GROUPS):
        with of(url, group) as own:
            decision = own.decide()
            assert reward is None or decision.report(reward)
            pass_time(own, clock, 200)
        truth = int(reward or 0)
        expected = 2 * index + truth if signs is None else truth ^ signs[index]
        assert list(service.taken.values())[-1] == expected


def test_smaller_device_epsilon_is_sent(url: str, service: Service, clock: Clock) -> None:
    service.decision = group_offer([0, 0, 0])
    with of(url, "old", max_epsilon=0.5, cap=1) as own:
        assert own.decide().epsilon == Fraction(1, 2)
        pass_time(own, clock, 200)
        assert own.ledger is not None
        assert own.ledger.spent == Fraction(1, 2)
    assert [arrival.epsilon for arrival in service.arrivals] == [0.5]


def test_retry_after_crash_sends_the_same_answer(url: str, service: Service, clock: Clock, folder: Path) -> None:
    service.decision = group_offer(epsilon=0.5)
    service.fails = lambda count: "before" if count < 12 else ""
    path = folder / "ledger"
    with of(url, "other", path=path) as own:
        decision = own.decide(visitor="me")
        assert decision.report(1)
        assert not decision.report(0)
        pass_time(own, clock, 300)
    while not service.taken:
        with of(url, "other", path=path) as own:
            assert own.decide(visitor="me").participate
            assert not own.decide(visitor="me").report(0)
            pass_time(own, clock, 4000)
    assert len(service.arrivals) == 12
    assert len({arrival.bit for arrival in service.arrivals}) == 1  # by chance once in 6^11 times
    with of(url, "other", path=path) as own:
        assert own.decide(visitor="me").why == "this decision was already reported"


def test_device_without_group_leaves_its_reports(url: str, service: Service, clock: Clock, folder: Path) -> None:
    service.decision = group_offer()
    path = folder / "ledger"
    with of(url, "old", path=path) as own:
        own.decide()
    others: list[dict[str, Any]] = [{}, {"groups": ["young", "old"], "group": "old"}]
    for options in others:
        with opened(url, path=path, **options) as other:
            due = next_due(other)
            assert due is not None
            assert due > clock.at + 80_000  # long after it has expired
            pass_time(other, clock, 300)
    assert not service.arrivals
    with of(url, "old", path=path) as own:
        pass_time(own, clock, 300)
    assert list(service.taken.values()) == [2]
    with of(url, "old", path=path) as own:
        own.decide()
    with opened(url, path=path) as other:
        pass_time(other, clock, 369 * 86_400)  # a year after it has expired
        assert next_due(other) is None
    assert len(service.taken) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"arms": ["plain", "bold"]},
        {"arms": [*TABLE, "plain"]},
        {"arms": ["plain", "bold", 3]},
        {"arms": ["plain", "bold", "never heard of"]},
        {"arms": "plain"},
        {"arms": None},
        {"payloads": {"plain": 1}},
        {"payloads": None},
        {"signs": [0, 1]},
        {"signs": [0, 1, 2]},
        {"signs": [0, 1, True]},
        {"signs": 1},
    ],
)
def test_invalid_query_is_refused_by_all_groups(url: str, service: Service, wrong: dict[str, Any]) -> None:
    """Otherwise participation would reveal the group: a hostile server chooses whom it asks wrongly."""
    service.decision = group_offer(**wrong) if "signs" not in wrong else {**group_offer(), **wrong}
    said = set()
    for group in GROUPS:
        with of(url, group) as own:
            decision = own.decide(fallback="plain", eligible_arms=["plain", "bold", "loud"])
            assert (decision.arm, decision.participate) == ("plain", False)
            said.add(decision.why)
    assert len(said) == 1
    assert said.pop().startswith("the server")


def test_ineligible_arm_of_any_group_is_refused(url: str, service: Service) -> None:
    service.decision = group_offer()
    for group in GROUPS:
        with of(url, group) as own:
            assert not own.decide(eligible_arms=["plain"]).participate


def test_groups_of_server_and_device_must_match(url: str, service: Service) -> None:
    service.decision = {**group_offer(), "arm": None}
    with opened(url) as own:
        assert own.decide().why == "the server's reply has no arm"
    service.decision = {}
    with of(url, "old") as own:
        assert own.decide().why == "the server's reply does not name one arm for each group"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"groups": GROUPS}, "require each other"),
        ({"group": "secret"}, "require each other"),
        ({"groups": GROUPS, "group": "secret"}, "group is not in groups"),
        ({"groups": "young", "group": "young"}, "two or more different names"),
        ({"groups": ["young"], "group": "young"}, "two or more different names"),
        ({"groups": ["young", "young"], "group": "young"}, "two or more different names"),
    ],
)
def test_invalid_groups_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        opened("http://127.0.0.1:9", **options)
    assert "secret" not in str(caught.value)


def test_neither_group_nor_arm_is_stored(url: str, service: Service, folder: Path) -> None:
    """The files of two people in two groups differ in random values alone."""
    service.decision = group_offer([0, 1, 0])
    rows = []
    for group in GROUPS:
        path = folder / f"of {GROUPS.index(group)}"
        path.mkdir()
        with of(url, group, path=path / "ledger") as own:
            own.decide()
        texts = [each.read_bytes() for each in path.iterdir()]
        assert not any(word.encode() in text for text in texts for word in (*GROUPS, "bold"))
        with sqlite3.connect(path / "ledger.outbox") as connection:
            rows += connection.execute("SELECT url, state, due, expires, experiment, asked FROM reports").fetchall()
        connection.close()
    assert len(set(rows)) == 1


def lived(clock: Clock, group: int, clicks: float) -> list[tuple[float, int]]:
    """Return when reports of 80 visits left, and their lengths, with repeated chances and 128 answers."""
    names = list(map(str, range(64)))
    service, rng = Service(clock.time), random.Random(3)
    service.decision = {"arms": ["plain"] * 64, "payloads": {"plain": 0}, "signs": None, "epsilon": 1.0}
    service.fails = lambda count: random.Random(count).choice(("before", "after", "", ""))
    clock.at = START
    with direct(service) as address, pytest.MonkeyPatch.context() as patch:
        set_delays(patch, random.Random(5).random)
        with opened(address, cap=10**6, groups=names, group=names[group]) as own:
            for _ in range(80):
                decision = own.decide()
                if rng.random() < clicks:
                    decision.report(1)
                pass_time(own, clock, 3)
            pass_time(own, clock, 90_000)
    assert len(service.taken) == 80
    return [(arrival.at, arrival.size) for arrival in service.arrivals]


def test_timing_and_length_reveal_neither_group_nor_reward(clock: Clock) -> None:
    first = lived(clock, 0, 0.0)
    assert lived(clock, 63, 0.0) == first
    assert lived(clock, 7, 1.0) == first
    assert len({size for _, size in first}) == 1


def test_older_outbox_without_groups_is_upgraded(url: str, service: Service, clock: Clock, folder: Path) -> None:
    path = folder / "ledger"
    with opened(url, path=path) as own:
        own.decide()
    with sqlite3.connect(f"{path}.outbox") as connection:
        connection.execute("ALTER TABLE device DROP COLUMN back")
        for name in ("asked", "experiment", "late", "visitor"):
            connection.execute(f"ALTER TABLE reports DROP COLUMN {name}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with opened(url, path=path) as own:
        pass_time(own, clock, 200)
    assert len(service.taken) == 1
    assert outbox.VERSION == 4


def test_damaged_query_is_reported_and_not_answered(url: str, service: Service, clock: Clock, folder: Path) -> None:
    service.decision = group_offer()
    path = folder / "ledger"
    with of(url, "old", path=path) as own:
        own.decide()
    with sqlite3.connect(f"{path}.outbox") as connection:
        connection.execute("UPDATE reports SET asked = '[3, 7'")
    connection.close()
    with of(url, "old", path=path) as own:
        pass_time(own, clock, 300)
    assert not service.arrivals


def test_ledger_counts_drawn_answers() -> None:
    ledger = Ledger(cap=3)
    for name, draw in (("bit", lambda: ledger.report("bit", 1)), ("answer", lambda: ledger.answer("answer", 4, 6))):
        ledger.reserve(name, 1)
        assert not ledger.is_drawn(name)
        draw()
        assert ledger.is_drawn(name)
        ledger.settle(name)
        with pytest.raises(UserError, match="settled"):
            ledger.is_drawn(name)
