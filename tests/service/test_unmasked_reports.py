"""The test for reports without a mask: it matches a naive twin, finds liars, and hardly ever accuses the honest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from web import SMALL, Served

from maskedbandits.service import unmasked_reports
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.shared_table import SharedTable
from maskedbandits.service.state import get_mask
from maskedbandits.service.unmasked_reports import DAY_S, DELTA, MAX_PAIRS, UnmaskedAlarms, UnmaskedTest

pytest_plugins = ["service_fixtures"]

ONE = 1_000_000  # epsilon in millionths


def naive_alarm(bits: list[int], rarest: Fraction, number: int, delta: Fraction) -> int | None:
    """Return after which bit the first alarm comes; wealth is a product of fractions, one for each bet."""
    bets = [(side, share) for side in (0, 1) for share in (Fraction(1, 2), Fraction(1, 10))]
    wealth = dict.fromkeys(bets, Fraction(1))
    for place, bit in enumerate(bits):
        for side, share in bets:
            is_rare = bit == side
            wealth[side, share] *= share if is_rare else (1 - share * rarest) / (1 - rarest)
        if sum(wealth.values()) / len(bets) * delta >= number * (number + 1):
            return place
    return None


def find_alarm(bits: list[int], epsilon: int, test: UnmaskedTest) -> int | None:
    return next((place for place, bit in enumerate(bits) if test.observe("block", 0, bit, epsilon, 0.0)), None)


@given(
    st.sampled_from([250_000, 500_000, ONE, 2_000_000]), st.integers(0, 20), st.lists(st.integers(0, 9), max_size=150)
)
def test_alarm_matches_naive_twin(epsilon: int, others: int, draws: list[int]) -> None:
    bits = [int(draw > 0) for draw in draws]  # mostly ones
    test = UnmaskedTest()
    for other in range(others):
        test.observe(f"other {other}", 0, 1, epsilon, 0.0)
    mask = get_mask(epsilon)
    assert mask.p11 == mask.p00
    wanted = naive_alarm(bits, Fraction(1 - mask.p11), others + 1, Fraction(DELTA))
    assert find_alarm(bits, epsilon, test) == wanted


@pytest.mark.parametrize("bit", [0, 1])
def test_plain_bits_raise_alarm_soon(bit: int) -> None:
    found = find_alarm([bit] * 200, ONE, UnmaskedTest())
    assert found is not None
    assert found < 50


def test_liars_on_two_arms_are_found_one_by_one() -> None:
    """Ones for one arm and zeros for the other look balanced together."""
    test = UnmaskedTest()
    assert any(test.observe("block", place % 2, place % 2, ONE, 0.0) for place in range(120))


def test_blocks_and_days_are_counted_apart() -> None:
    test = UnmaskedTest()
    assert not any(test.observe(f"block {place}", 0, 1, ONE, 0.0) for place in range(2000))
    assert not any(test.observe("block", 0, 1, ONE, day * DAY_S) for day in range(2000))


def test_memory_is_bounded_and_busy_block_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmasked_reports, "MAX_PAIRS", 10)
    test = UnmaskedTest()
    alarms = []
    for place in range(400):
        test.observe(f"other {place}", 0, 1, ONE, 0.0)
        alarms.append(test.observe("liar", 0, 1, ONE, 0.0))
    assert any(alarms)
    assert MAX_PAIRS > 1000


def test_alarm_is_seen_by_all_workers_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    table = SharedTable()
    first, second = UnmaskedAlarms(table), UnmaskedAlarms(table)
    assert [first.raise_alarm(7), first.raise_alarm(7), second.raise_alarm(7)] == [True, False, False]
    assert (second.is_raised(7), second.is_raised(8)) == (True, False)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + DAY_S + 60)
    assert not second.is_raised(7)


@pytest.mark.slow  # 1.6 million reports
@pytest.mark.parametrize("epsilon", [500_000, ONE, 4_000_000])
def test_honest_crowds_hardly_ever_raise_alarm(epsilon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst honest crowd, all of whom had a reward, on 300 days with 40 blocks.

    With an alarm on one day in ten allowed, so that some come: their number is within what that allows.
    """
    delta, days, blocks, reports = 0.1, 300, 40, 45
    monkeypatch.setattr(unmasked_reports, "DELTA", delta)
    rng = np.random.default_rng(epsilon)
    test, alarms = UnmaskedTest(), 0
    for day in range(days):
        bits = (rng.random((reports, blocks)) < get_mask(epsilon).p11).tolist()
        answers = [
            test.observe(str(block), 0, int(bit), epsilon, DAY_S * day) for row in bits for block, bit in enumerate(row)
        ]
        alarms += any(answers)
    assert alarms <= binom.ppf(0.999, days, delta)


def test_fake_reports_show_in_state(served: Served, registry: ExperimentRegistry) -> None:
    here = "/v1/experiments/headline"
    decisions = [served.post(f"{here}/decisions", {"n": 150}).json["decisions"] for _ in range(2)]
    reports = [{"token": each["token"], "bit": int(each["arm"] == "long")} for some in decisions for each in some]
    assert served.get(f"{here}/state").json["poisoning"] == []
    assert served.post("/v1/reports", {"reports": reports}).status == 200
    assert served.get(f"{here}/state").json["poisoning"] == ["unmasked"]
    live = registry.get("headline")
    assert live is not None
    feed = served.run(served.app.broadcaster.refresh(live))
    assert "unmasked" in [each["kind"] for each in feed.alerts]


def test_flood_that_suspects_miss_is_found(served: Served) -> None:
    """1.3 fakes for each honest report, from one address: the masked means stay near what honest crowds give."""
    here, rng, honest = "/v1/experiments/headline", np.random.default_rng(3), 300
    mask, means = get_mask(ONE), {"short": 0.65, "long": 0.35}

    def report(count: int, client: str, draw: Callable[[str], int]) -> None:
        decisions = served.post(f"{here}/decisions", {"n": count}, client=client).json["decisions"]
        reports = [{"token": each["token"], "bit": draw(each["arm"])} for each in decisions]
        assert served.post("/v1/reports", {"reports": reports}, client=client).status == 200

    for person in range(honest // 10):
        report(10, f"198.51.{person}.7", lambda arm: int(rng.random() < mask(means[arm])))
    assert served.get(f"{here}/state").json["poisoning"] == []
    for person in range(honest // 10):
        report(13, "203.0.113.9", lambda arm: int(arm == "long"))
        report(10, f"192.0.{person}.7", lambda arm: int(rng.random() < mask(means[arm])))
    state = served.get(f"{here}/state").json
    assert (state["suspects"], state["poisoning"]) == ([False, False], ["unmasked"])


def test_honest_reports_show_no_sign(served: Served) -> None:
    here = "/v1/experiments/headline"
    decisions = served.post(f"{here}/decisions", {"n": 300}).json["decisions"]
    rng = np.random.default_rng(0)
    masked = (rng.random(300) < 1 / (1 + math.exp(-1))).tolist()  # all had a reward
    reports = [{"token": each["token"], "bit": int(bit)} for each, bit in zip(decisions, masked, strict=True)]
    assert served.post("/v1/reports", {"reports": reports}).status == 200
    assert served.get(f"{here}/state").json["poisoning"] == []


def test_groups_show_no_sign(served: Served) -> None:
    about = {**SMALL, "name": "grouped", "groups": ["young", "old"]}
    assert served.post("/v1/experiments", about).status == 201
    assert served.get("/v1/experiments/grouped/state").json["poisoning"] == []
