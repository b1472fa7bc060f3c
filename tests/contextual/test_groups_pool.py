"""Groups that are asked as one until they are seen to differ."""

import json
from pathlib import Path

import numpy as np
import pytest

from group_runs import answer_of, lived, same_rng
from helpers.private import live_levels, live_state, part_policies
from maskedbandits import ContextualProblem, load_contextual, make_contextual, simulate
from maskedbandits.contextual import masks
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.privacy import Question
from naive import Twin
from naive.groups import Pooled

DIFFERENT = [[0.95, 0.05], [0.05, 0.95]]
ALIKE = [[0.9, 0.3]] * 5


@pytest.mark.parametrize("kind", masks.KINDS)
def test_pooled_policy_equals_twin(kind: str) -> None:
    """Compare every question, with random answers."""
    policy = make_contextual(
        "klucb-cf", groups=3, arms=2, epsilon=2, shares=[0.2, 0.3, 0.5], answers=kind, pool=True, seed=7
    )
    grouping = policy.grouping
    slopes = [mask.slope for mask in grouping.masks]
    twin = Pooled(
        [[0, 0, 0], [0, 1, 2]],
        [0.2, 0.3, 0.5],
        [slopes[:1], slopes[1:]],
        lambda slope: Twin([RandomizedResponse(0.5 + slope / 2, 0.5 + slope / 2)] * 2, "klucb"),
        2,
    )
    policy_rng, answers = same_rng(live_state(policy).rng[:4]), np.random.default_rng(1)
    for _ in range(150):
        question, level = policy.ask(), twin.drawn(policy_rng)
        table = [own.choose() for own in twin.policies[level]]
        assert (question.level, question.table) == (level, tuple(table[part] for part in twin.parts[level]))
        answer = int(answers.integers(question.answers))
        policy.observe(question, answer)
        if question.signs is None:
            twin.take_in_one(level, answer >> 1, table[answer >> 1], float(answer & 1))
        else:
            signs = [question.signs[twin.parts[level].index(part)] for part in range(len(table))]
            feedbacks = [float(answer ^ sign) for sign in signs]
            twin.take_in_bit(level, masks.slope(masks.BIT, 2.0, 3), table, feedbacks)
        assert live_levels(policy).weights == pytest.approx(twin.weights, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1.5, 6])
def test_differing_groups_are_separated_for_good(epsilon: float) -> None:
    policy = make_contextual("auto", groups=2, arms=2, epsilon=epsilon, pool=True, seed=1)
    assert 0 < policy.pooled < 0.5
    first = policy.ask()
    assert len(set(first.table)) == 1  # the first questions are to all
    assert first.signs is not None
    assert len(set(first.signs)) == 1
    policy.expire(first)
    lived(policy, DIFFERENT, 4000)
    assert policy.pooled == 0
    estimates = policy.estimates()
    assert estimates.shape == (2, 2)
    assert estimates[0, 0] > estimates[0, 1]
    assert estimates[1, 1] > estimates[1, 0]


def test_similar_groups_are_asked_as_one() -> None:
    pooled, as_one = [], []
    for seed in range(1, 6):
        policy = make_contextual("auto", groups=5, arms=2, epsilon=1.5, seed=seed)
        questions = lived(policy, ALIKE, 6000)
        pooled.append(policy.pooled)
        as_one.append(sum(question.level == 0 for question in questions[-1000:]))
    assert np.median(pooled) > 0.8
    assert 800 < np.median(as_one) < 1000  # the others see whether groups differ by now


@pytest.mark.plain
def test_pooled_estimates_are_of_all_groups() -> None:
    """Intervals are by what a group alone was asked, so that they hold for one that differs."""
    policy = make_contextual("klucb-cf", groups=5, arms=2, epsilon=2, shares=[0.2] * 5, pool=True, seed=1)
    lived(policy, ALIKE, 300)
    everybody, each = part_policies(policy)[0], policy.by_group
    for weights, telling in (([0.0, -3.0], [everybody] * 5), ([-3.0, 0.0], each)):
        live_levels(policy).weights[:] = weights
        assert np.array_equal(policy.estimates(), [own.estimates() for own in telling], equal_nan=True)
        assert np.array_equal(policy.suspects(), [own.suspects() for own in telling])
        assert np.array_equal(policy.intervals(), [own.intervals() for own in each])
    assert not np.array_equal(everybody.estimates(), each[0].estimates())


@pytest.mark.plain
def test_intervals_hold_for_slightly_differing_groups() -> None:
    means = [[0.9, 0.3]] * 4 + [[0.8, 0.4]]
    policy = make_contextual("klucb-cf", groups=5, arms=2, epsilon=2, shares=[0.2] * 5, pool=True, seed=1)
    lived(policy, means, 3000)
    assert policy.pooled > 0.5
    low, high = np.moveaxis(policy.intervals(), 2, 0)
    assert np.all((low <= means) & (high >= means))
    low, high = part_policies(policy)[0].intervals().T
    assert low[0] > 0.8  # of everybody, and not of the last group


def test_pooling_lowers_regret_of_similar_groups() -> None:
    problem = ContextualProblem(np.tile([0.2, 0.5, 0.8], (4, 1)), [0], 20_000)
    lost = [
        simulate(
            problem,
            make_contextual("auto", groups=4, arms=3, epsilon=1, pool=pool),
            runs=40,
            seed=2,
            checkpoints=1,
        ).regret
        for pool in (True, False)
    ]
    assert lost[0].mean() < 0.9 * lost[1].mean()


def test_saved_policy_remembers_pooling(tmp_path: Path) -> None:
    policy = make_contextual("klucb-cf", groups=5, arms=2, epsilon=1.5, seed=1)
    lived(policy, ALIKE, 200)
    policy.save(tmp_path / "policy")
    again = load_contextual(tmp_path / "policy")
    assert 0 < again.pooled == policy.pooled
    assert again.fold_digest() == policy.fold_digest()
    assert np.array_equal(again.estimates(), policy.estimates(), equal_nan=True)
    assert make_contextual("klucb-cf", groups=2, arms=2, epsilon=6, pool=False).pooled == 0


def test_bits_are_pooled_by_default() -> None:
    assert make_contextual("klucb-cf", groups=5, arms=2, epsilon=1).pooled > 0
    assert make_contextual("klucb-cf", groups=5, arms=2, epsilon=4).pooled == 0


def test_question_that_fits_no_level_is_refused() -> None:
    policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=1)
    for odd in (Question([0, 1], [0, 0], policy.epsilon, level=0), Question([0, 0], [0, 1], policy.epsilon, level=0)):
        with pytest.raises(UserError, match="question"):
            policy.observe(odd, 0)
    with pytest.raises(UserError, match="question"):
        policy.observe(Question([0, 0], [0, 0], policy.epsilon, level=2), 0)


def test_question_can_be_rebuilt() -> None:
    """Groups that are alike, and answers to questions that came back as JSON: as if they had never left."""
    policies = [make_contextual("auto", groups=5, arms=2, epsilon=1, seed=1) for _ in range(2)]
    rng = np.random.default_rng(4)
    for _ in range(400):
        kept, sent = (policy.ask() for policy in policies)
        again = Question(**json.loads(json.dumps(sent.as_dict())))
        assert again == kept
        answer = answer_of(kept, int(rng.integers(5)), ALIKE, rng)
        policies[0].observe(kept, answer)
        policies[1].observe(again, answer)
    assert policies[0].fold_digest() == policies[1].fold_digest()
    assert all(policy.pending.sum() == 0 for policy in policies)


def test_question_without_level() -> None:
    """It is taken if it can have been asked at one alone, and else refused: a guess would teach the wrong policies."""
    policy = make_contextual("klucb-cf", groups=3, arms=2, epsilon=1, seed=1)
    question = policy.ask()
    assert question.level == 0
    with pytest.raises(UserError, match="level"):
        policy.observe(Question(question.table, question.signs, question.epsilon), 1)
    with pytest.raises(UserError, match="level"):
        policy.expire(Question(question.table, question.signs, question.epsilon))
    assert policy.observations == 0
    policy.observe(Question([0, 1, 0], [0, 0, 0], 1), 1)
    policy.observe(Question([0, 0, 0], [0, 1, 0], 1), 1)
    assert [own.observations for own in part_policies(policy)] == [0, 2, 2, 2]
    many = make_contextual("klucb-cf", groups=3, arms=2, epsilon=4, pool=True, seed=1)
    first = many.ask()
    many.observe(Question(first.table, first.signs, 4), 1)  # a bit, which single groups are never asked for
    many.observe(Question([0, 0, 0], None, 4), 1)
    assert [own.observations for own in part_policies(many)] == [1, 1, 0, 0]
    alone = make_contextual("klucb-cf", groups=3, arms=2, epsilon=1, pool=False)
    alone.observe(Question([0, 0, 0], [0, 0, 0], 1), 1)
    assert alone.observations == 1
