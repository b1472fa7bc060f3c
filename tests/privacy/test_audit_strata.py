"""Devices that mask less for some queries or after some inputs are refuted; strata match naive ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from audits import judge_group_mutant

from maskedbandits.privacy.audit import groups, text
from maskedbandits.privacy.audit.inputs import (
    INTERVALS,
    MAX_SIGN_PATTERNS,
    MILLION,
    GroupInputs,
    concatenate,
    divide_above,
    draw_group_inputs,
    draw_sign_pool,
    format_lines,
)
from maskedbandits.privacy.exact import MAX_EPSILON

BIT, MANY, PARTS = "bit", "one of many", "one of parts"


# Planted leaks. A stratum counts all inputs together. The smallest is that of a pattern of signs: 260 of 20,000 lines
# on average, of which 1.8 % are turned at epsilon 4. Summed over binomial counts, its bound is below 1 with probability
# 7e-10. All others have more lines, and miss less often still.


@pytest.mark.parametrize(
    ("name", "answers", "where", "trials"),
    [
        pytest.param("believes_up_to_ten", BIT, "is asked for", 1500, marks=pytest.mark.slow),
        pytest.param("believes_up_to_ten", MANY, "is asked for", 1500, marks=pytest.mark.slow),
        pytest.param("believes_up_to_ten", PARTS, "is asked for", 1500, marks=pytest.mark.slow),
        pytest.param("refuses_above_ten", BIT, "is asked for", 1500, marks=pytest.mark.slow),
        # an interval has one in 21 lines, 714 of 15,000 on average, and an eighth of one 238 of 40,000
        pytest.param(
            "believes_between_5_and_8",
            BIT,
            "where epsilon above 4.75 up to 8.5 is asked for",
            1500,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "believes_between_9_and_16",
            MANY,
            "where epsilon above 8.5 up to 15.999999 is asked for",
            1500,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "believes_between_6_and_7",
            BIT,
            "where epsilon above 6.15625 up to 6.625 is asked for",
            4000,
            marks=pytest.mark.slow,
        ),
        ("weaker_just_above_the_claim", BIT, "where epsilon above 1 up to 1.46875 is asked for", 1500),
        pytest.param("weaker_for_two_arms", BIT, "where tables have 2 arms", 1500, marks=pytest.mark.slow),
        pytest.param("weaker_for_two_arms", MANY, "where tables have 2 arms", 1500, marks=pytest.mark.slow),
        ("weaker_for_one_sign_pattern", BIT, "where signs are 01101", 2000),
        ("weaker_where_group_1_has_arm_2", MANY, "where group 1 has arm 2", 1500),
        ("weaker_after_a_reward_two_lines_before", MANY, "after reward 1 2 back", 1500),
        ("weaker_by_the_parity_of_six_rewards", MANY, "after rewards 1, 2, 3, 4, 5, 6 back with an odd sum", 1500),
    ],
)
def test_device_that_masks_less_sometimes_is_refuted(name: str, answers: str, where: str, trials: int) -> None:
    found = judge_group_mutant(name, answers, trials, groups=5, arms=5)
    assert found.outcome == "refuted", text.format_verdict(found)
    telling = [one for one in found.strata if one.epsilon > 1.05]
    assert any(where in one.name for one in telling), telling
    printed = "\n".join(text.format_findings(found))
    assert f"answers{text.sort_strata(found.strata)[0].name}" in printed


@pytest.mark.parametrize("answers", [BIT, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (MANY, PARTS))])
def test_sound_device_is_private_in_all_strata(answers: str) -> None:
    found = judge_group_mutant("sound", answers, 1000, groups=4, arms=3)
    assert found.outcome == "not refuted"
    assert len(found.strata) > 500
    assert all(one.epsilon <= 1 for one in found.strata)
    assert found.strata[0].epsilon > 0.5  # it sees what is there
    assert "believed only within less than a quarter of an interval" in "\n".join(text.format_findings(found))


def test_non_answers_have_no_strata() -> None:
    found = judge_group_mutant("sound_with_padding", BIT, 300, groups=2, arms=2)
    assert found.strata == ()
    assert "strata                not checked: what is written is no answer" in "\n".join(text.format_findings(found))


# What is asked, and strata


@pytest.mark.parametrize("claimed", ["0", "1", "1/3", "15.9", "15.9999999", "16"])
def test_intervals_cover_epsilons_above_claim(claimed: str) -> None:
    above = divide_above(Fraction(claimed))
    covered = [value for one in above for value in (one.high, one.low)]
    assert covered == sorted(covered, reverse=True)
    assert covered[1:-1:2] == covered[2::2]  # one begins where the other ends
    assert not above if claimed == "16" else covered[0] == MAX_EPSILON * MILLION
    assert all(Fraction(one.low + 1, MILLION) > Fraction(claimed) for one in above)
    if claimed in ("0", "1", "1/3"):
        assert len(above) == INTERVALS + 1
        assert covered[-1] == int(Fraction(claimed) * MILLION)


def test_epsilons_above_claim_are_drawn_per_query() -> None:
    every = concatenate(draw_group_inputs(3, 3, BIT, 4000, 40, Fraction(1)))
    above = divide_above(Fraction(1))
    for rung, one in enumerate(above, 1):
        requested = every.millionths[every.interval_numbers == rung]
        assert requested.min() > one.low
        assert requested.max() <= one.high
        # 1,143 lines on average: all eighths are met, and hardly any value comes twice
        assert one.width == 1 or len(set((8 * (requested - one.low - 1) // one.width).tolist())) == 8
        assert one.width == 1 or len(set(requested.tolist())) > 0.98 * requested.size
    assert not every.millionths[every.interval_numbers == 0].any()


def test_epsilons_are_plain_decimals() -> None:
    for run in draw_group_inputs(2, 2, MANY, 300, 0, Fraction(0)):
        words = [line.split()[2] for line in format_lines(run, Fraction(0)).decode().splitlines()]
        assert all(word.replace(".", "", 1).isdigit() and len(word) <= 9 for word in words)
        assert [Fraction(word) * MILLION for word in words] == run.millionths.tolist()


@pytest.mark.parametrize("groups", [1, 3, 8, 9, 64])
def test_all_sign_patterns_are_used_if_few(groups: int) -> None:
    pool = draw_sign_pool(groups)
    assert pool.shape == (min(2**groups, MAX_SIGN_PATTERNS), groups)
    assert set(np.unique(pool)) <= {0, 1}
    if groups <= 8:
        assert len(np.unique(pool, axis=0)) == 2**groups
    assert any(row.sum() == 1 for row in pool)


def test_strata_count_the_right_lines() -> None:
    runs = draw_group_inputs(3, 3, BIT, 300, 20, Fraction(1))
    rng = np.random.default_rng(1)
    readings = rng.integers(-1, 2, sum(run.inputs.size for run in runs))
    found = {one.name: one for one in groups.judge_strata(runs, readings, Fraction(1), 0.01)}
    rows = [
        (line, run, index)
        for index, (run, line) in enumerate((run, line) for run in runs for line in range(run.inputs.size))
    ]
    rewards = {id(run): (run.inputs & 1).tolist() for run in runs}
    truths = np.concatenate([run.true_answers for run in runs]).tolist()

    def count(condition: Callable[[int, GroupInputs], bool]) -> tuple[tuple[int, int], int]:
        inside = [(line, run, index) for line, run, index in rows if condition(line, run)]
        true = [readings[index] == truths[index] for _, _, index in inside]
        turned = [readings[index] == 1 - truths[index] for _, _, index in inside]
        return (sum(true), sum(turned)), len(inside)

    for name, condition in {
        "": lambda line, run: run.interval_numbers[line] == 0,
        " where tables have 2 arms": lambda line, run: (
            run.interval_numbers[line] == 0 and len(set(run.tables[line].tolist())) == 2
        ),
        " where signs are 011": lambda line, run: (
            run.interval_numbers[line] == 0 and run.signs[line].tolist() == [0, 1, 1]
        ),
        " where epsilon 16 is asked for": lambda line, run: run.millionths[line] == 16_000_000,
        " where epsilon above 4.75 up to 8.5 is asked for": lambda line, run: (
            4_750_000 < run.millionths[line] <= 8_500_000
        ),
        " where epsilon above 2.875 up to 3.8125 is asked for": lambda line, run: (
            2_875_000 < run.millionths[line] <= 3_812_500
        ),
        " where epsilon above the claim up to 4.75 is asked for": lambda line, run: (
            0 < run.millionths[line] <= 4_750_000
        ),
        " after rewards 1, 3 back with an odd sum": lambda line, run: (
            run.interval_numbers[line] == 0
            and line >= 8
            and (rewards[id(run)][line - 1] + rewards[id(run)][line - 3]) % 2 == 1
        ),
        " after group 2 1 back": lambda line, run: (
            run.interval_numbers[line] == 0 and line >= 1 and run.inputs[line - 1] // 2 == 2
        ),
    }.items():
        hits, size = count(condition)
        assert (found[name].hits, found[name].trials) == (hits, (size, size)), name
    assert {one.level for one in found.values()} == {0.01 / (4 * len(found))}
