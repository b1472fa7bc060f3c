"""The test for surges: its scores match a naive twin, it needs growth and a jump, and false alarms are rare."""

from __future__ import annotations

import math

import pytest
from bench.alarms import Site, count_false_alarms, find_surges, share_found
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from maskedbandits.service import report_surges
from maskedbandits.service.report_surges import (
    BASE_BINS,
    BIN_S,
    BINS_PER_FALSE_ALARM,
    HISTORY_BINS,
    SHOWN_S,
    SurgeTest,
)

Bin = dict[tuple[int, int], int]


def naive_scores(bins: list[Bin]) -> tuple[float, float]:
    """Return growth and jump of the last bin, relative to the bins before it."""
    *base, last = bins
    usual = sum(sum(each.values()) for each in base) / len(base)
    jumps = [0.0]
    for arm in {arm for arm, _ in last}:
        zeros, ones = (last.get((arm, bit), 0) for bit in (0, 1))
        zeros_before, ones_before = (sum(each.get((arm, bit), 0) for each in base) for bit in (0, 1))
        now, before = zeros + ones, zeros_before + ones_before
        if min(now, before) >= 10:
            share = (ones + ones_before + 1) / (now + before + 2)
            error = math.sqrt(share * (1 - share) * (1 / now + 1 / before))
            jumps.append(abs(ones / now - ones_before / before) / error)
    return math.log((sum(last.values()) + 10) / (usual + 10)), max(jumps)


def naive_alarms(bins: list[Bin], allowed: int, history: int) -> list[int]:
    """Return the bins whose scores both rank so high that chance hardly ever does it."""
    scores: list[tuple[float, float]] = []
    alarms = []
    for place in range(BASE_BINS, len(bins)):
        pair = naive_scores(bins[place - BASE_BINS : place + 1])
        known = [*scores[-history:], pair]
        shares = [sum(each[kind] >= pair[kind] for each in known) / len(known) for kind in (0, 1)]
        if all(share <= 1 / math.sqrt(allowed) for share in shares):
            alarms.append(place)
        scores.append(pair)
    return alarms


reports = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 1)), st.integers(0, 40), max_size=6)


@given(st.lists(reports, min_size=BASE_BINS, max_size=60))
def test_alarms_match_naive_twin(bins: list[Bin]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_surges, "BINS_PER_FALSE_ALARM", 9)
        test = SurgeTest()
        assert [place for place, each in enumerate(bins) if test.add_bin(each)] == naive_alarms(bins, 9, HISTORY_BINS)


QUIET: Bin = {(0, 0): 30, (0, 1): 30, (1, 0): 30, (1, 1): 30}


def wobble(place: int) -> Bin:
    """A bin of a quiet time, in which no two scores tie."""
    return {pair: count + place * (3 + 2 * pair[0] + pair[1]) % 7 for pair, count in QUIET.items()}


@pytest.mark.parametrize(
    ("last", "is_alarm"),
    [
        ({(0, 0): 300, (0, 1): 30, (1, 0): 30, (1, 1): 300}, True),
        ({(0, 0): 300, (0, 1): 300, (1, 0): 300, (1, 1): 300}, False),  # a campaign
        ({(0, 0): 59, (0, 1): 1, (1, 0): 1, (1, 1): 59}, False),  # another world
    ],
)
def test_alarm_needs_growth_and_jump(last: Bin, is_alarm: bool) -> None:
    test = SurgeTest()
    assert not any(test.add_bin(wobble(place)) for place in range(500))
    assert test.add_bin(last) == is_alarm


def test_new_process_raises_no_alarm_for_a_day() -> None:
    test = SurgeTest()
    fewest = math.ceil(math.sqrt(BINS_PER_FALSE_ALARM)) + BASE_BINS - 1
    for place in range(fewest - 1):
        assert not test.add_bin({(0, place % 2): 10 + place * place})  # each stranger than all before
    assert fewest * BIN_S > 24 * 3600


def test_reports_are_counted_by_time_of_arrival() -> None:
    test, now = SurgeTest(), 1_000_000_000.0
    for place in range(500):
        pairs = [pair for pair, count in wobble(place).items() for _ in range(count)]
        assert not test.observe(pairs, now + BIN_S * place)
    attack = [(0, 0)] * 300 + [(1, 1)] * 300
    assert not test.observe(attack, now + BIN_S * 500)  # this bin is still open
    end = now + BIN_S * 501
    assert test.observe([], end)
    assert not test.observe(attack, end)  # it is raised already
    assert test.is_raised(end + SHOWN_S - 1)
    assert not test.is_raised(end + SHOWN_S)


def test_clock_that_jumps_ahead_takes_little_work() -> None:
    test = SurgeTest()
    test.observe([(0, 1)], 0.0)
    assert not test.observe([(0, 1)], 1e12)


def test_hour_of_fakes_is_found() -> None:
    assert share_found(10_000.0, 3.0, attacks=2) == 1.0


def test_honest_month_raises_no_alarm() -> None:
    assert find_surges(Site(7, 1000.0).draw_bins(4000)) == []


@pytest.mark.slow  # six years of five minutes
@pytest.mark.parametrize("volume", [40.0, 1000.0])
def test_false_alarms_are_rare(volume: float) -> None:
    """About one in a year: chance alone exceeds the bound of three years once in a thousand times."""
    assert count_false_alarms(volume, years=3, seed=11) <= poisson.ppf(0.999, 3)
