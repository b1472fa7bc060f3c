"""Groups that are asked as one until they are seen to differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import ContextualProblem, load_contextual, make_contextual, simulate
from maskedbandits.context import masks
from maskedbandits.context.grouping import Asked
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from naive import Twin
from naive.grains import Pooled

DIFFERENT = [[0.95, 0.05], [0.05, 0.95]]
ALIKE = [[0.9, 0.3]] * 5


def same_lots(words: np.ndarray[Any, Any]) -> np.random.Generator:
    """numpy's generator in the state of a policy's."""
    source = np.random.SFC64()
    source.state = {"bit_generator": "SFC64", "state": {"state": words.copy()}, "has_uint32": 0, "uinteger": 0}
    return np.random.Generator(source)


def lived(policy: Any, means: Any, visitors: int) -> list[Any]:
    """Let visitors answer, as devices do but with lots that repeat; the questions."""
    rng, asked = np.random.default_rng(3), []
    for _ in range(visitors):
        question, group = policy.ask(), int(rng.integers(policy.groups))
        reward = int(rng.random() < means[group][question.arm(group)])
        truth = 2 * group + reward if question.signs is None else reward ^ question.signs[group]
        keep = masks.truth_and_other(float(policy.epsilon), question.answers // 2)
        chances = np.full(question.answers, keep[1])
        chances[truth] = keep[0]
        policy.observe(question, int(rng.choice(question.answers, p=chances)))
        asked.append(question)
    return asked


@pytest.mark.parametrize("kind", masks.KINDS)
def test_a_live_policy_is_its_twin(kind: str) -> None:
    """Question for question, with answers that nobody can foresee."""
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
    lots, answers = same_lots(policy._state.lots[:4]), np.random.default_rng(1)
    for _ in range(150):
        question, grain = policy.ask(), twin.drawn(lots)
        table = [own.choose() for own in twin.policies[grain]]
        assert isinstance(question, Asked)
        assert (question.grain, question.table) == (grain, tuple(table[part] for part in twin.parts[grain]))
        answer = int(answers.integers(question.answers))
        policy.observe(question, answer)
        if question.signs is None:
            twin.take_in_one(grain, answer >> 1, table[answer >> 1], float(answer & 1))
        else:
            signs = [question.signs[twin.parts[grain].index(part)] for part in range(len(table))]
            told = [float(answer ^ sign) for sign in signs]
            twin.take_in_bit(grain, masks.slope(masks.BIT, 2.0, 3), table, told)
        assert policy._grains.weights == pytest.approx(twin.weights, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1.5, 6])
def test_groups_that_differ_are_never_asked_as_one_again(epsilon: float) -> None:
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


def test_groups_that_are_alike_are_asked_as_one() -> None:
    policy = make_contextual("auto", groups=5, arms=2, epsilon=1.5, seed=1)
    asked = lived(policy, ALIKE, 6000)
    assert policy.pooled > 0.8
    as_one = sum(question.grain == 0 for question in asked[-1000:])
    assert 800 < as_one < 1000  # the others see whether groups differ by now


def test_where_groups_are_alike_less_is_lost() -> None:
    problem = ContextualProblem(np.tile([0.2, 0.5, 0.8], (4, 1)), [0], 20_000)
    lost = [
        simulate(
            problem,
            make_contextual("auto", groups=4, arms=3, epsilon=1, pool=pool),
            runs=24,
            seed=2,
            checkpoints=1,
        ).regret
        for pool in (True, False)
    ]
    assert lost[0].mean() < 0.8 * lost[1].mean()


def test_a_saved_policy_remembers_how_far_it_pools(tmp_path: Path) -> None:
    policy = make_contextual("klucb-cf", groups=5, arms=2, epsilon=1.5, seed=1)
    lived(policy, ALIKE, 200)
    policy.save(tmp_path / "policy")
    again = load_contextual(tmp_path / "policy")
    assert 0 < again.pooled == policy.pooled
    assert np.array_equal(again._grains.weights, policy._grains.weights)
    assert np.array_equal(again.estimates(), policy.estimates(), equal_nan=True)
    assert make_contextual("klucb-cf", groups=2, arms=2, epsilon=6, pool=False).pooled == 0


def test_unasked_groups_are_pooled_where_answers_are_bits() -> None:
    assert make_contextual("klucb-cf", groups=5, arms=2, epsilon=1).pooled > 0
    assert make_contextual("klucb-cf", groups=5, arms=2, epsilon=4).pooled == 0


def test_a_question_that_fits_no_grain_is_refused() -> None:
    policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=1)
    for odd in (Asked([0, 1], [0, 0], policy.epsilon, 0), Asked([0, 0], [0, 1], policy.epsilon, 0)):
        with pytest.raises(UserError, match="not one of this policy"):
            policy.observe(odd, 0)
    with pytest.raises(UserError, match="not one of this policy"):
        policy.observe(Asked([0, 0], [0, 0], policy.epsilon, 2), 0)
