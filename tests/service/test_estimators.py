"""Estimates of arms: equal to the naive twin's, unbiased, covered by intervals, and never without support."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from log_samples import change, create_event, draw_log, report, settings, simulate_log, to_naive, with_probabilities

from maskedbandits.errors import UserError
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation import ReportLog, evaluate, read_log
from maskedbandits.service.evaluation.estimators import (
    ChoiceEstimate,
    FixedChoice,
    MeanEstimate,
    ReportsByArm,
    estimate_arms,
)
from maskedbandits.service.evaluation.intervals import EmpiricalBernstein, NormalApproximation
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import get_mask
from maskedbandits.service.storage.models import EventRow
from maskedbandits.service.tokens import FLAG_HELD_BACK
from naive import evaluation as naive

WAYS = ("ips", "normalised", "robust")
HALF, QUARTER = WHOLE // 2, WHOLE // 4


@pytest.mark.parametrize("seed", range(40))
def test_estimates_match_naive_twin(seed: int) -> None:
    events = draw_log(seed)
    log, terms = read_log("log", events), naive.terms(to_naive(events))
    assert log.size == len(terms)
    assert log.count_open_arms().tolist() == [len(term.open) for term in terms]
    ever = [arm for arm in log.arms if any(arm.index in term.open for term in terms)]
    judged = estimate_arms(log)
    assert [each.name for each in judged] == [*(arm.name for arm in ever), "uniform"]
    for found, place in zip(judged, [*(arm.index for arm in ever), None], strict=True):
        wanted = naive.judge(terms, place)
        assert (found.ips is not None) == (wanted["sure"] and found.reports > 0)
        for way in WAYS if found.ips is not None else ():
            assert getattr(found, way).value == pytest.approx(wanted[way], abs=1e-9), way


@pytest.mark.parametrize("seed", range(10))
def test_held_back_reports_are_left_out(seed: int) -> None:
    rng = random.Random(seed)
    events = [
        event._replace(flags=event.flags | FLAG_HELD_BACK) if event.flags is not None and rng.random() < 0.3 else event
        for event in draw_log(seed)
    ]
    log, terms = read_log("log", events), naive.terms(to_naive(events))
    assert log.held_back == sum((event.flags or 0) & FLAG_HELD_BACK > 0 for event in events) > 0
    assert log.size == len(terms)
    assert [arm.name for arm in log.arms] == [arm.name for arm in read_log("log", draw_log(seed)).arms]
    for found in estimate_arms(log):
        place = next((arm.index for arm in log.arms if arm.name == found.name), None)
        wanted = naive.judge(terms, place)
        for way in WAYS if found.ips is not None else ():
            assert getattr(found, way).value == pytest.approx(wanted[way], abs=1e-9), way


def test_log_of_held_back_reports_is_rejected() -> None:
    events = [create_event(2, settings(MILLION, 0.1, 0.0)), report(2, 0, 0, 1, HALF, flags=FLAG_HELD_BACK)]
    with pytest.raises(UserError, match=r"1.*held back"):
        read_log("log", events)


@pytest.mark.parametrize(("most", "rho", "squares"), [(1.0, 3.0, 50.0), (20.0, 400.0, 90.0), (7.0, 20.0, 300.0)])
def test_bernstein_radius_matches_naive_twin(most: float, rho: float, squares: float) -> None:
    method = EmpiricalBernstein(most, rho, 0.05)
    assert method.radius(squares) == pytest.approx(naive.radius(squares, most, rho, 0.05), rel=1e-6)
    for deviation in (0.5, 3.0, 40.0):
        wanted = naive.evidence(deviation, squares, most, rho)
        assert method.excess(deviation, squares) == pytest.approx(math.log(wanted) - math.log(40.0), abs=1e-6)


def test_intervals_follow_from_radius() -> None:
    events = simulate_log([0.3, 0.6], 400, seed=5, floor=0.2)
    log, terms = read_log("log", events), naive.terms(to_naive(events))
    wanted, found = naive.judge(terms, 1), estimate_arms(log)[1]
    method = FixedChoice(log, slice(None), np.ones(log.size)).method
    assert found.ips is not None
    assert found.robust is not None
    assert found.normalised is not None
    reach = method.radius(wanted["squares"]) / wanted["whole"]
    assert found.ips.interval == pytest.approx((wanted["ips"] - reach, min(1.0, wanted["ips"] + reach)))
    reach = NormalApproximation().radius(wanted["robust_squares"]) / wanted["whole"]
    assert found.robust.approximate == pytest.approx((wanted["robust"] - reach, wanted["robust"] + reach))
    for end in found.normalised.interval:  # there the sum of h w (r - end) is as large as is believed
        own = [term.event for term in terms if term.event.arm == 1]
        parts = [event.worth * (event.reward - end) / event.probability for event in own]
        assert abs(sum(parts)) == pytest.approx(method.radius(sum(part**2 for part in parts)), rel=1e-6)


# All outcomes of three decisions, whose probabilities depend on what came before, in a world that changes
MEANS = [(Fraction(1, 5), Fraction(4, 5)), (Fraction(1, 2), Fraction(1, 10)), (Fraction(9, 10), Fraction(3, 10))]
EPSILONS = (MILLION, MILLION // 2, MILLION)
Outcome = tuple[Fraction, list[EventRow]]


def outcomes() -> list[Outcome]:
    found: list[Outcome] = []
    for arms, bits in itertools.product(itertools.product((0, 1), repeat=3), itertools.product((0, 1), repeat=3)):
        chance, events = Fraction(1), [create_event(2, settings(MILLION, 0.25, 0.0))]
        for step in range(3):
            for_first = 3 * QUARTER if step and bits[step - 1] == arms[step - 1] else QUARTER + QUARTER * (step % 2)
            probability = for_first if arms[step] == 0 else WHOLE - for_first
            truth = Fraction(get_mask(EPSILONS[step]).p00)
            one = 1 - truth + (2 * truth - 1) * MEANS[step][arms[step]]
            chance *= Fraction(probability, WHOLE) * (one if bits[step] else 1 - one)
            events.append(report(step + 2, 0, arms[step], bits[step], probability, EPSILONS[step]))
        found.append((chance, events))
    assert sum(chance for chance, _ in found) == 1
    return found


def truth_of(events: list[EventRow], arm: int | None) -> Fraction:
    worth = [each.worth for each in to_naive(events, Fraction)[1:]]
    each = [means[arm] if arm is not None else sum(means) / 2 for means in MEANS]
    return Fraction(sum(h * v for h, v in zip(worth, each, strict=True)) / sum(worth))


@pytest.mark.parametrize("arm", [0, 1, None])
def test_estimates_are_exactly_unbiased(arm: int | None) -> None:
    mean = {"ips": Fraction(0), "robust": Fraction(0), "weight": Fraction(0)}
    whole = Fraction(0)
    for chance, events in outcomes():
        exact = naive.judge(naive.terms(to_naive(events, Fraction)), arm)
        for way in mean:
            mean[way] += chance * exact[way]
        whole = exact["whole"]
        log = read_log("log", events)
        shares = np.full(log.size, 1.0 if arm is not None else 0.5)
        choice, by_arm = FixedChoice(log, slice(None), shares), ReportsByArm(log)
        sums = [by_arm.sum_arm(each, choice) for each in log.arms if arm in (None, each.index)]
        assert sum(each.rewards for each in sums) / choice.worth == pytest.approx(float(exact["ips"]), abs=1e-12)
        assert sum(each.robust for each in sums) / choice.worth == pytest.approx(float(exact["robust"]), abs=1e-12)
    truth = truth_of(outcomes()[0][1], arm)
    assert mean == {"ips": truth, "robust": truth, "weight": whole}


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("arm", [0, 1])
def test_expected_evidence_is_at_most_one(arm: int, side: int) -> None:
    """The proof that a sure interval rests on, and that it would not hold with other probabilities."""
    parts = np.linspace(0.05, 0.95, 19)
    mean, mistaken = np.zeros((3, parts.size)), np.zeros(parts.size)
    for chance, events in outcomes():
        log, truth = read_log("log", events), float(truth_of(events, arm))
        choice = FixedChoice(log, slice(None), np.ones(log.size))
        sums, most = ReportsByArm(log).sum_arm(log.arms[arm], choice), choice.method.reach

        def evidence(deviation: float, squares: float, most: float = most) -> Any:
            return np.array([naive.process(side * deviation, squares, most, part / most) for part in parts])

        chances = float(chance)
        mean[0] += chances * evidence(sums.rewards - truth * choice.worth, sums.squares)
        mean[1] += chances * evidence(sums.robust - truth * choice.worth, sums.robust_squares)
        mean[2] += chances * evidence(sums.rewards - truth * sums.weight, sums.squares_about(truth))
        mistaken += chances * evidence((1 + side) * sums.rewards - truth * choice.worth, sums.squares)
    assert np.all(mean <= 1.0)
    assert np.any(mistaken > 1.0)


# Intervals hold


def misses(logs: list[list[EventRow]], truths: list[float]) -> tuple[float, float, float]:
    """How often intervals miss the truth, sure ones and approximate ones, and how wide the first are to the second."""
    missed, widths = np.zeros((2, 2)), np.zeros(2)
    for events in logs:
        for judged, truth in zip(estimate_arms(read_log("log", events)), truths, strict=True):
            assert judged.show_ratio is None or judged.show_ratio.fits
            for way in WAYS:
                estimate: MeanEstimate = getattr(judged, way)
                for kind, interval in enumerate((estimate.interval, estimate.approximate)):
                    if interval is not None:
                        missed[kind] += 1, not interval.low <= truth <= interval.high
                if estimate.approximate is not None:
                    widths += estimate.interval.high - estimate.interval.low, np.ptp(estimate.approximate)
    return missed[0, 1] / missed[0, 0], missed[1, 1] / missed[1, 0], widths[0] / widths[1]


def turned(decision: int) -> list[float]:
    return [0.8, 0.3] if decision < 400 else [0.2, 0.5]


SCENES: dict[str, tuple[Any, list[float], dict[str, Any]]] = {
    "an index with a floor": ([0.5, 0.5, 0.4], [0.5, 0.5, 0.4, 1.4 / 3], {}),
    "draws from a posterior": ([0.2, 0.7], [0.2, 0.7, 0.45], {"draws_from": "posterior", "holdout": 0.1}),
    "a world that changes": (turned, [0.5, 0.4, 0.45], {"epsilon": 2 * MILLION, "floor": 0.1}),
    "reports that are late and overtake others": (
        [0.6, 0.4],
        [0.6, 0.4, 0.5],
        {"delay": lambda rng: 30 + 30 * rng.random()},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_intervals_cover_truth(scene: str) -> None:
    means, truths, given = SCENES[scene]
    sure, approximate, ratio = misses([simulate_log(means, 800, seed=seed, **given) for seed in range(60)], truths)
    assert sure <= 0.01
    assert approximate <= 0.08
    assert ratio < 2.8


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_intervals_cover_truth_in_many_logs(scene: str) -> None:
    means, truths, given = SCENES[scene]
    sure, approximate, _ = misses([simulate_log(means, 800, seed=seed, **given) for seed in range(1500)], truths)
    assert sure <= 0.01
    assert 0.03 <= approximate <= 0.06


def test_reports_of_tiny_epsilon_have_no_weight() -> None:
    events = simulate_log([0.3, 0.6], 2000, seed=3, floor=0.2)
    noisy = [
        event._replace(epsilon=100) if event.seq % 10 == 0 and event.bit is not None else event for event in events
    ]
    plain, found = estimate_arms(read_log("log", events)), estimate_arms(read_log("log", noisy))
    for before, after in zip(plain, found, strict=True):
        assert before.robust is not None
        assert after.robust is not None
        assert abs(after.robust.value - before.robust.value) < 0.05
        assert np.ptp(after.robust.interval) < 1.2 * np.ptp(before.robust.interval)


# Probabilities that are wrong, and reports that get lost


def unfit(events: list[EventRow]) -> list[str]:
    return [
        each.name
        for each in estimate_arms(read_log("log", events))
        if each.show_ratio is not None and not each.show_ratio.fits
    ]


def test_wrong_probabilities_are_detected() -> None:
    events = simulate_log([0.2, 0.9, 0.3], 6000, seed=7)
    certain = with_probabilities(events, lambda event: WHOLE if event.flags == 0 else event.probability or 0)
    halved = with_probabilities(events, lambda event: max(3328, (event.probability or 0) / 2))
    lost = [event for event in events if event.arm != 1 or event.bit is None or event.seq % 4]
    lost = [event._replace(seq=seq) for seq, event in enumerate(lost, 1)]
    assert unfit(events) == []
    assert "arm 1" in unfit(certain)
    assert "arm 1" in unfit(halved)
    assert unfit(lost)  # all others seem to be shown too often


def test_ips_is_wrong_with_wrong_probabilities() -> None:
    """What the check is for: the interval of a log with a planted mistake misses the truth."""
    events = simulate_log([0.3, 0.9], 6000, seed=8)
    halved = with_probabilities(events, lambda event: max(3328, (event.probability or 0) / 2))
    found = estimate_arms(read_log("log", halved))[1]
    assert found.ips is not None
    assert found.ips.interval.low > 0.9
    assert found.show_ratio is not None
    assert not found.show_ratio.fits


# Arms that could not be shown


@pytest.mark.parametrize("draws_from", ["", "posterior"])
def test_unsupported_arms_have_limits_only(draws_from: str) -> None:
    means = [0.3, 0.6, 0.5]
    events = simulate_log(means, 4000, seed=2, floor=0.0, draws_from=draws_from)
    judged = estimate_arms(read_log("log", events))
    assert all(each.ips is None and each.limits is not None for each in judged)
    for each, mean in zip(judged, [*means, sum(means) / 3], strict=True):
        assert each.limits is not None
        assert each.limits.low <= mean <= each.limits.high
    if not draws_from:  # an index policy is deterministic
        reports = np.bincount([event.arm for event in events[1:] if event.arm is not None])
        assert [each.unseen for each in judged[:3]] == pytest.approx(1 - reports / 4000)
        assert all(found.estimate is None for found in evaluate(read_log("log", events), ["klucb-cf"]).whole.policies)


def test_holdout_supports_default_arm_only() -> None:
    judged = estimate_arms(read_log("log", simulate_log([0.3, 0.6], 3000, seed=2, floor=0.0, holdout=0.1)))
    assert [each.ips is not None for each in judged] == [True, False, False]


def estimates(found: ChoiceEstimate) -> list[float]:
    return [getattr(found, way).value for way in WAYS]


def test_arm_is_estimated_while_open() -> None:
    """Added after the first hour and retired in the last, with others' reports and late ones around it."""
    config = settings(MILLION, 0.25, 0.0)
    rows = [(hour, arm, bit) for hour in range(4) for arm, bit in ((0, 1), (1, 0), (1, 1), (0, 0))]
    events: list[EventRow] = [create_event(2, config)]
    for hour, arm, bit in rows:
        events.append(report(len(events) + 1, hour, arm, bit, HALF))
        if len(events) == 3:
            events.append(change(4, hour, "arm", 2, name="late"))
    events += [report(19, 3, 2, 1, HALF), change(20, 3, "retire", 2, name="late"), report(21, 3, 2, 1, HALF)]
    log = read_log("log", events)
    assert [(arm.start, arm.end) for arm in log.arms] == [(0, 18), (0, 18), (8, 17)]  # from the first of hour 2 on
    found = estimate_arms(log)[2]
    assert (found.reports, found.considered) == (1, 9)
    assert found.ips is not None
    assert found.ips.value == pytest.approx(log.rewards[16] * 2 / 9)
    assert log.count_open_arms().tolist() == [2] * 8 + [3] * 9 + [2]


def test_floor_counts_after_earlier_reports_are_due() -> None:
    def log_with(*later: EventRow) -> ReportLog:
        events = [create_event(2, settings(MILLION, 0.0, 0.0)), report(2, 0, 0, 1, WHOLE)]
        events.append(change(3, 5, "config", config=settings(MILLION, 0.25, 0.0), default_arm=0))
        return read_log("log", [*events, *later])

    log = log_with(
        report(4, 5, 0, 1, WHOLE), report(5, 6, 1, 1, HALF), report(6, 7, 1, 1, HALF), report(7, 7, 0, 1, HALF)
    )
    assert [log.cut(start, 5).is_supported(log.cut(start, 5).arms[1]) for start in range(5)] == [False] * 3 + [True] * 2
    gone = change(7, 9, "config", config=settings(MILLION, 0.0, 0.0), default_arm=0)
    log = log_with(*[report(4 + place, 7, 1, 1, HALF) for place in range(3)], gone, report(8, 9, 0, 1, WHOLE))
    assert [log.cut(start, start + 1).is_supported(log.arms[1]) for start in range(5)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_periods_are_parts_of_the_log() -> None:
    log = read_log("log", simulate_log(turned, 800, seed=4, floor=0.2))
    found = evaluate(log, periods=2)
    assert [part.log.size for part in found.periods] == [400, 400]
    for part, start in zip(found.periods, (0, 400), strict=True):
        again = estimate_arms(log.cut(start, start + 400))
        assert [estimates(each) for each in part.arms] == [estimates(each) for each in again[:-1]]
        assert next(base.reports for base in part.baselines) == 400
    first, second = (part.arms[0].robust for part in found.periods)
    assert first is not None
    assert second is not None
    assert first.value > 0.6 > 0.4 > second.value
