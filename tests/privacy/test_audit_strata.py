"""Devices of groups that mask less for some questions, or after some inputs, are found; strata are the obvious ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from audits import judge_group_mutant

from maskedbandits.privacy.audit import group_words, strata
from maskedbandits.privacy.audit.asked import PATTERNS, RUNGS, Asked, asked_of, ladder, sign_pool
from maskedbandits.privacy.exact import MOST

BIT, MANY, PARTS = "bit", "one of many", "one of parts"


# Planted leaks. A stratum counts all inputs together. The smallest is that of a pattern of signs: 260 of 20,000 lines
# on average, of which 1.8 % are turned at epsilon 4. Summed over binomial counts, its bound is below 1 with probability
# 7e-10. All others have more lines, and miss less often still.


@pytest.mark.parametrize(
    ("name", "answers", "where", "trials"),
    [
        ("believes_up_to_ten", BIT, "is asked for", 1500),
        ("believes_up_to_ten", MANY, "is asked for", 1500),
        ("believes_up_to_ten", PARTS, "is asked for", 1500),
        ("refuses_above_ten", BIT, "is asked for", 1500),
        ("weaker_for_two_arms", BIT, "where tables have 2 arms", 1500),
        ("weaker_for_two_arms", MANY, "where tables have 2 arms", 1500),
        ("weaker_for_one_sign_pattern", BIT, "where signs are 01101", 2000),
        ("weaker_where_group_1_has_arm_2", MANY, "where group 1 has arm 2", 1500),
        ("weaker_after_a_reward_two_lines_before", MANY, "after reward 1 2 back", 1500),
        ("weaker_by_the_parity_of_six_rewards", MANY, "after rewards 1, 2, 3, 4, 5, 6 back with an odd sum", 1500),
    ],
)
def test_a_device_that_masks_less_at_times_is_refuted(name: str, answers: str, where: str, trials: int) -> None:
    found = judge_group_mutant(name, answers, trials, groups=5, arms=5)
    assert found.outcome == "refuted", group_words.verdict(found)
    telling = [one for one in found.strata if one.epsilon > 1.05]
    assert any(where in one.name for one in telling), telling
    printed = "\n".join(group_words.lines(found))
    assert f"answers{group_words.most_telling(found.strata)[0].name}" in printed


@pytest.mark.parametrize("answers", [BIT, MANY, PARTS])
def test_a_sound_device_is_as_private_as_claimed_in_all_strata(answers: str) -> None:
    found = judge_group_mutant("sound", answers, 1000, groups=4, arms=3)
    assert found.outcome == "not refuted"
    assert len(found.strata) > 500
    assert all(one.epsilon <= 1 for one in found.strata)
    assert found.strata[0].epsilon > 0.5  # it sees what is there


def test_text_that_is_no_answer_has_no_strata_and_the_facts_say_so() -> None:
    found = judge_group_mutant("sound_with_padding", BIT, 300, groups=2, arms=2)
    assert found.strata == ()
    assert "strata                not checked: what is written is no answer" in "\n".join(group_words.lines(found))


# What is asked, and strata


@pytest.mark.parametrize("claimed", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(159, 10), Fraction(16)])
def test_more_is_asked_for_in_steps_that_come_close_to_the_claim(claimed: Fraction) -> None:
    first, *above = ladder(claimed)
    assert first == claimed
    assert above == sorted(set(above), reverse=True)
    assert all(claimed < value <= MOST for value in above)
    assert not above if claimed == MOST else above[0] == MOST
    if claimed <= 15:
        assert len(above) == RUNGS
        assert float(above[-1] - claimed) == pytest.approx(float(MOST - claimed) / 32, abs=0.001)


@pytest.mark.parametrize("groups", [1, 3, 8, 9, 64])
def test_all_patterns_of_signs_are_asked_if_there_are_not_too_many(groups: int) -> None:
    pool = sign_pool(groups)
    assert pool.shape == (min(2**groups, PATTERNS), groups)
    assert set(np.unique(pool)) <= {0, 1}
    if groups <= 8:
        assert len(np.unique(pool, axis=0)) == 2**groups
    assert any(row.sum() == 1 for row in pool)


def test_strata_count_the_obvious_lines() -> None:
    asked = asked_of(3, 3, BIT, 300, 20, Fraction(1))
    rng = np.random.default_rng(1)
    readings = rng.integers(-1, 2, sum(run.inputs.size for run in asked))
    found = {one.name: one for one in strata.judged_strata(asked, readings, Fraction(1), 0.01)}
    rows = [
        (line, run, place)
        for place, (run, line) in enumerate((run, line) for run in asked for line in range(run.inputs.size))
    ]
    rewards = {id(run): (run.inputs & 1).tolist() for run in asked}
    truths = np.concatenate([run.truths for run in asked]).tolist()

    def count(condition: Callable[[int, Asked], bool]) -> tuple[tuple[int, int], int]:
        inside = [(line, run, place) for line, run, place in rows if condition(line, run)]
        true = [readings[place] == truths[place] for _, _, place in inside]
        turned = [readings[place] == 1 - truths[place] for _, _, place in inside]
        return (sum(true), sum(turned)), len(inside)

    for name, condition in {
        "": lambda line, run: run.rungs[line] == 0,
        " where tables have 2 arms": lambda line, run: (
            run.rungs[line] == 0 and len(set(run.tables[line].tolist())) == 2
        ),
        " where signs are 011": lambda line, run: run.rungs[line] == 0 and run.signs[line].tolist() == [0, 1, 1],
        " where epsilon 8.5 is asked for": lambda line, run: run.rungs[line] == 2,
        " where epsilon 4.75 or less, but more than claimed, is asked for": lambda line, run: run.rungs[line] >= 3,
        " after rewards 1, 3 back with an odd sum": lambda line, run: (
            run.rungs[line] == 0 and line >= 8 and (rewards[id(run)][line - 1] + rewards[id(run)][line - 3]) % 2 == 1
        ),
        " after group 2 1 back": lambda line, run: (
            run.rungs[line] == 0 and line >= 1 and run.inputs[line - 1] // 2 == 2
        ),
    }.items():
        hits, size = count(condition)
        assert (found[name].hits, found[name].trials) == (hits, (size, size)), name
    assert {one.level for one in found.values()} == {0.01 / (4 * len(found))}
