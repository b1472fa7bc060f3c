"""The audit of devices of groups refutes planted leaks and passes sound devices."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audits import SURE, call, judge_group_mutant, python
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import cli
from maskedbandits.errors import UserError
from maskedbandits.privacy import KaryRandomizer, Question, Randomizer
from maskedbandits.privacy.audit import events, exhaustive, statistics, text
from maskedbandits.privacy.audit.inputs import INTERVALS, MILLION, concatenate, draw_group_inputs, format_lines
from naive import audit_statistics as naive
from naive import mechanism as naive_mechanism
from trials import examples

MUTANTS = Path(__file__).parent / "group_mutants.py"
BIT, MANY, PARTS = "bit", "one of many", "one of parts"


def audited(name: str, answers: str, trials: int = 1500, groups: int = 3, arms: int = 3) -> dict[str, Any]:
    """Return the findings about a mutant as JSON; eight runs in this process."""
    printed: dict[str, Any] = text.as_json(judge_group_mutant(name, answers, trials, groups, arms))
    return printed


# Planted leaks: each is far above the claim, and missing it is less likely than one in a million.


@pytest.mark.parametrize(
    ("name", "answers", "telling"),
    [
        ("arm_in_clear", BIT, "where each group has an arm of its own"),
        pytest.param("arm_in_clear", MANY, "where each group has an arm of its own", marks=pytest.mark.slow),
        ("silent_without_reward", BIT, "(empty)"),
        pytest.param("silent_without_reward", MANY, "(empty)", marks=pytest.mark.slow),
        ("never_names_its_neighbour", MANY, ""),
        ("trusts_the_question", BIT, "where more than the claim is asked for"),
        pytest.param("trusts_the_question", MANY, "where more than the claim is asked for", marks=pytest.mark.slow),
        ("masks_the_reward_alone", MANY, ""),
        ("weaker_where_all_groups_have_one_arm", MANY, "where all groups have one arm"),
        ("tells_the_group_before", BIT, ""),
        pytest.param("arm_in_clear", PARTS, "where each group has an arm of its own", marks=pytest.mark.slow),
        pytest.param("silent_without_reward", PARTS, "(empty)", marks=pytest.mark.slow),
        pytest.param("trusts_the_question", PARTS, "where more than the claim is asked for", marks=pytest.mark.slow),
        ("weaker_where_all_groups_are_one_part", PARTS, "where all groups are one part"),
        ("place_in_the_part_in_clear", PARTS, ""),
        ("masks_the_reward_within_the_part", PARTS, ""),
    ],
)
def test_planted_leak_is_refuted(name: str, answers: str, telling: str) -> None:
    trials = {"weaker_where_all_groups_have_one_arm": 2500, "weaker_where_all_groups_are_one_part": 2500}
    found = audited(name, answers, trials.get(name, 1500))  # of the 2500, an eighth leaks
    assert found["outcome"] == "refuted", found["verdict"]
    assert found["epsilon_at_least"] > 1.2
    shown = [one["event"] for one in found["events"] if one["epsilon_at_least"] > 1]
    assert any(telling in name for name in shown), shown
    assert found["verdict"].startswith("REFUTED: epsilon is at least")


def test_text_and_json_of_findings_agree() -> None:
    found = judge_group_mutant("arm_in_clear", BIT, 500)
    printed = json.loads(json.dumps(text.as_json(found)))
    assert text.format_findings(found)[-1] == printed["verdict"]


def test_separate_epsilons_for_group_and_reward_add_up() -> None:
    found = audited("group_and_reward_with_epsilon_each", MANY, 7000)
    assert (found["outcome"], found["epsilon_at_least"] > 1) == ("refuted", True)  # it is 2


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        pytest.param("one_sign_for_all", BIT, marks=pytest.mark.slow),
        pytest.param("signs_of_the_first_question", BIT, marks=pytest.mark.slow),
        ("no_sign", BIT),
        ("more_for_group_1", BIT),
        pytest.param("more_for_group_1", MANY, marks=pytest.mark.slow),
        pytest.param("more_for_group_1", PARTS, marks=pytest.mark.slow),
        ("takes_the_group_for_the_part", PARTS),
    ],
)
def test_private_device_with_other_g_is_refuted(name: str, answers: str) -> None:
    found = audited(name, answers, 3000 if name == "more_for_group_1" else 1200)
    assert found["outcome"] == "other g", found["verdict"]
    assert found["verdict"].startswith("REFUTED: answers of group ")
    assert found["verdict"].endswith(": a learner that believes it would be misled.")
    assert found["epsilon_at_least"] <= 1


@pytest.mark.parametrize("answers", [BIT, PARTS])
def test_fixed_seed_of_device_is_refuted(answers: str) -> None:
    found = audited("same_seed", answers, 500)
    assert (found["seed"]["fixed"], found["seed"]["same"]) == (True, 8)
    assert found["outcome"] in ("fixed seed", "refuted")  # eight times the same draws are not independent


@pytest.mark.parametrize(
    ("name", "groups", "answers"),
    [
        pytest.param("sound", 3, BIT, marks=pytest.mark.slow),  # which strata of test_audit_strata.py judge, too
        ("sound", 3, MANY),
        ("sound", 3, PARTS),
        ("refuses_what_is_too_much", 2, BIT),
        pytest.param("refuses_what_is_too_much", 2, MANY, marks=pytest.mark.slow),
        pytest.param("refuses_what_is_too_much", 2, PARTS, marks=pytest.mark.slow),
        ("sound_with_padding", 1, PARTS),
    ],
)
def test_sound_device_is_not_refuted(name: str, groups: int, answers: str) -> None:
    found = audited(name, answers, 500 if name == "sound_with_padding" else 1000, groups, arms=2)
    assert found["outcome"] == "not refuted", found["verdict"]
    assert found["seed"]["telling"]
    assert (found["g"]["frequencies"] > 0) == (name != "sound_with_padding")
    assert 0 < found["epsilon_at_least"] <= 1 or name == "sound_with_padding"


# Programs


@pytest.mark.parametrize(
    ("name", "answers", "outcome"),
    [("silent_without_reward", BIT, "refuted"), ("sound", PARTS, "not refuted")],
)
def test_group_program_is_run_and_judged(name: str, answers: str, outcome: str) -> None:
    options = ("--epsilon", 1, "--groups", 2, "--answers", answers, "--trials", 500, "--json", *SURE)
    result = call(*options, "--command", python(MUTANTS, name, 1))
    assert json.loads(result.stdout)["outcome"] == outcome
    assert result.exit_code == (0 if outcome == "not refuted" else cli.FAILED)


def test_missing_line_for_silence_is_reported() -> None:
    script = "import sys\nfor line in sys.stdin:\n    if line.split()[4] == '1': print(1)"
    result = call("--groups", 2, "--trials", 100, "--command", python("-c", script))
    assert result.exit_code == cli.UNMADE
    assert "it must write one report for each" in result.output


# Our own


@pytest.mark.parametrize("answers", [BIT, MANY, PARTS])
def test_own_answers_are_not_refuted(answers: str) -> None:
    result = call("--groups", 4, "--answers", answers, "--trials", 500, *SURE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    drawn = f"500 trials for each group and reward, answers: {answers}, joint confidence 99.99999 %"
    assert lines[0] == f"Question.answer, 4 groups, epsilon 1: {drawn}"
    assert lines[-1].startswith("Not refuted: nothing that was seen contradicts epsilon = 1 for group, arm and reward")


def test_broken_own_answers_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Question, "answer", lambda self, group, reward, max_epsilon: true_answer(self, group, reward))
    result = call("--groups", 2, "--trials", 1000, "--json", *SURE)
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (cli.FAILED, "refuted")


def test_device_refuses_epsilon_above_its_maximum() -> None:
    for signs in (None, [0, 1]):
        assert Question([0, 1], signs, "0.5").answer(1, 1, max_epsilon="0.5") in range(4)
        with pytest.raises(UserError, match=r"epsilon = 16.* 0\.5"):
            Question([0, 1], signs, 16).answer(1, 1, max_epsilon="0.5")


def test_default_kind_is_that_of_a_policy() -> None:
    for epsilon, kind in (("1", BIT), ("3", MANY)):
        found = json.loads(call("--epsilon", epsilon, "--groups", 3, "--trials", 200, "--json").stdout)
        assert (found["answers"], found["claimed_epsilon"]) == (kind, epsilon)


def test_too_few_group_trials_cannot_tell() -> None:
    found = json.loads(call("--epsilon", 8, "--groups", 2, "--trials", 500, "--json").stdout)
    assert (found["outcome"], found["trials_needed"] > 500) == ("cannot tell", True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--answers", "bit"), "require --groups"),
        (("--arms", 2), "require --groups"),
        (("--groups", 2, "--retries", 2, "--command", "true"), "excludes --groups"),
        (("--groups", 50, "--trials", 10**6), "at most 100000 for each input"),
        (("--groups", 7, "--exact"), "groups"),
        (("--groups", 3, "--answers", "one of many", "--epsilon", 0), "epsilon"),  # no word draws it: none is answered
    ],
)
def test_wrong_group_options_are_one_line(options: tuple[object, ...], complaint: str) -> None:
    result = call(*options)
    assert result.exit_code == cli.USAGE
    assert complaint in result.output


# What is asked


@pytest.mark.parametrize("kind", [BIT, MANY, PARTS])
def test_queries_are_hostile_and_independent_of_inputs(kind: str) -> None:
    runs = draw_group_inputs(3, 2, kind, 2000, 40, Fraction(1))
    every = concatenate(runs)
    assert every.inputs.size == 12_000
    assert len({run.tables[:40].tobytes() + run.inputs[:40].tobytes() for run in runs}) == 1
    assert not any(run.is_above_claim[:40].any() for run in runs)
    share = every.is_above_claim[every.inputs % 2 == 1].mean()
    assert abs(share - 1 / 3) < 0.05  # 6,000 lines: eight deviations
    assert set(every.interval_numbers.tolist()) == set(range(INTERVALS + 2))
    text = format_lines(runs[0], Fraction(1)).decode().splitlines()
    for line, row in enumerate(text):
        table, signs, epsilon, group, reward, *parts = row.split()
        question = runs[0].query(line, Fraction(1))
        assert table == ",".join(map(str, question.table))
        assert signs == ("-" if question.signs is None else ",".join(map(str, question.signs)))
        assert parts == ([] if question.parts is None else [",".join(map(str, question.parts))])
        assert runs[0].answer_counts[line] == question.answers
        assert Fraction(epsilon) * MILLION == (runs[0].millionths[line] or MILLION)
        assert question.epsilon == Fraction(epsilon)
        assert runs[0].true_answers[line] == true_answer(question, int(group), int(reward))
        if runs[0].table_kinds[line] == 1:
            assert table == "0,1,0"
        if kind == PARTS:
            assert question.parts == {0: (0, 0, 0), 1: (0, 1, 1), 2: (0, 1, 2)}.get(
                int(runs[0].part_kinds[line]), question.parts
            )
    assert len({tuple(row) for row in every.parts.tolist()}) == (13 if kind == PARTS else 1)  # all that there are


# Bounds with many inputs, and scores


@examples(8)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=5))
def test_bound_uses_the_two_extreme_inputs(cells: list[tuple[int, int]]) -> None:
    hits, trials = np.array([hit for hit, _ in cells]), np.array([hit + miss for hit, miss in cells])
    low = [naive.lowest_share(int(hit), int(n), 0.01) for hit, n in zip(hits, trials, strict=True)]
    high = [1 - naive.lowest_share(int(n - hit), int(n), 0.01) for hit, n in zip(hits, trials, strict=True)]
    ratios = [one / other for one in low for other in high if other > 0]
    expected = math.log(max([1.0, *ratios]))
    found = statistics.build_event("", hits, trials, 0.01)
    assert found.epsilon == pytest.approx(expected, abs=1e-6)
    assert low[found.apart[0]] == pytest.approx(max(low), abs=1e-9)


def test_scores_distinguish_rewards_and_groups() -> None:
    names = [one.name for one in events.list_contrasts(6)]
    assert names == ["", " for group 0", " for group 1", " for group 2"]
    assert [(one.some.tolist(), one.others.tolist()) for one in events.list_contrasts(2)] == [([1], [0])]
    assert events.list_contrasts(6)[2].some.tolist() == [2, 3]


# All words


@pytest.mark.parametrize("epsilon", ["1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("0.5", "2"))])
def test_enumeration_reveals_at_most_epsilon(epsilon: str) -> None:
    found = {(one.groups, one.answers): one for one in exhaustive.enumerate_words(epsilon, 4)}
    assert all(one.holds for one in found.values())
    each: dict[int, Fraction] = {}
    for groups in range(1, 5):
        counts = [found[groups, kind].questions for kind in (BIT, MANY, PARTS)]
        assert counts == [4**groups, 2**groups, 2**groups * [1, 2, 5, 15][groups - 1]]
        flips = naive_mechanism.threshold(Fraction(epsilon), 8, 2)
        assert found[groups, BIT].ratio == Fraction(256 - flips, flips)
        own = naive_mechanism.threshold(Fraction(epsilon), 8, 2 * groups)
        each[groups] = Fraction(256 - (2 * groups - 1) * own, own)
        assert found[groups, MANY].ratio == each[groups]
        assert found[groups, PARTS].ratio == max(each.values())


def test_enumeration_detects_a_weak_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    exhaustive.count_bit_words.cache_clear()
    monkeypatch.setattr(exhaustive, "Randomizer", lambda epsilon, bits: Randomizer(2 * epsilon, bits=bits))
    result = call("--exact", "--groups", 2)
    exhaustive.count_bit_words.cache_clear()
    assert result.exit_code == cli.FAILED
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["NO", "yes", "yes", "NO", "yes", "yes"]


def true_answer(question: Question, group: int, reward: int) -> int:
    """Return the answer before masking, as the documentation has it."""
    if question.signs is not None:
        return reward ^ question.signs[group]
    return 2 * (group if question.parts is None else question.parts[group]) + reward


def tells_the_arm(self: Question, group: int, reward: int, *ledger: Any) -> Any:
    return ANSWER(self, group, reward, *ledger), self.arm(group)


def tells_the_truth(self: Question, group: int, reward: int, *ledger: Any) -> int:
    return true_answer(self, group, reward)


def turned_round_after_masking(self: Question, group: int, reward: int, *ledger: Any) -> int:
    return ANSWER(self, group, reward, *ledger) ^ (group & 1)


def less_hidden_with_a_ledger(self: Question, group: int, reward: int, *ledger: Any) -> int:
    return true_answer(self, group, reward) if ledger else ANSWER(self, group, reward)


def answers_only_after_a_reward(self: Question, group: int, reward: int, *ledger: Any) -> int:
    if not reward:
        raise UserError("nothing to say")
    return ANSWER(self, group, reward, *ledger)


ANSWER = Question.answer


@pytest.mark.parametrize(
    ("leak", "holds"),
    [
        (tells_the_arm, "NO NO NO"),
        (tells_the_truth, "NO NO NO"),
        (less_hidden_with_a_ledger, "NO NO NO"),
        (answers_only_after_a_reward, "NO NO NO"),
        (turned_round_after_masking, "yes yes yes"),
    ],
)
def test_enumeration_covers_answers_not_only_masks(leak: Any, holds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table and ledger count, too; inverting a masked answer reveals no more."""
    monkeypatch.setattr(Question, "answer", leak)
    result = call("--exact", "--groups", 2)
    assert " ".join(line.split()[-1] for line in result.stdout.splitlines()[4:]) == holds
    assert ("infinite" in result.stdout) == ("NO" in holds)
    assert result.exit_code == (cli.FAILED if "NO" in holds else 0)


def test_exact_groups_prints_largest_ratio() -> None:
    lines = call("--exact", "--groups", 3, "--epsilon", 1).stdout.splitlines()
    assert lines[1].split() == ["1", "bit", "4", "1", "2.718282", "187/69", "=", "2.710145", "yes"]
    [*_, last] = json.loads(call("--exact", "--groups", 3, "--epsilon", "0.01", "--json").stdout)
    assert (last["largest_ratio"], last["holds"], last["word_bits"]) == (None, True, 8)
    assert "finer than such words" in call("--exact", "--groups", 3, "--epsilon", "0.01").stdout
    with pytest.raises(UserError):
        KaryRandomizer(6, "0.01", bits=8)
