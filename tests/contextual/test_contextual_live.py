"""What a service needs of contextual policies: answers of other epsilons, many at once, arms that come and go."""

import copy
import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.private import live_levels, part_policies
from maskedbandits import load_contextual, make_contextual, make_policy
from maskedbandits.contextual import masks, serialization
from maskedbandits.contextual import policy as contextual
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.privacy import Question
from naive.groups import Pooled

SHARES = [0.2, 0.3, 0.5]
EPSILONS = [Fraction(2), Fraction(2), Fraction(1, 2), Fraction(3, 2)]


class Alone:
    """A policy of the library that is fed by hand, each report with the mask that is said."""

    def __init__(self, name: str, slope: float, arms: int) -> None:
        self.policy = make_policy(name, arms=arms, corruption=_mask(slope))

    def observe(self, arm: int, feedback: float, slope: float | None = None) -> None:
        self.policy.observe(arm, feedback, None if slope is None else _mask(slope))


def _mask(slope: float) -> RandomizedResponse:
    return RandomizedResponse(0.5 + slope / 2, 0.5 + slope / 2)


def made(kind: str = masks.BIT, name: str = "klucb-cf", *, pool: bool = True, **others: Any) -> contextual.Contextual:
    collected = {"groups": 3, "arms": 2, "epsilon": 2, "shares": SHARES, "seed": 7, **others}
    return make_contextual(name, answers=kind, pool=pool, **collected)


def of_epsilon(question: Question, epsilon: Fraction) -> Question:
    return replace(question, epsilon=epsilon)


def answered(policy: contextual.Contextual, many: int, seed: int = 1) -> list[tuple[Question, int]]:
    """Let a policy ask, and give answers at random, of several epsilons."""
    rng, collected = np.random.default_rng(seed), []
    for _ in range(many):
        question = of_epsilon(policy.ask(), EPSILONS[int(rng.integers(4))])
        collected.append((question, int(rng.integers(question.answers))))
        policy.observe(*collected[-1])
    return collected


@pytest.mark.parametrize("name", ["klucb-cf", "auto"])
@pytest.mark.parametrize("kind", masks.KINDS)
def test_answers_of_other_epsilons_equal_twin(kind: str, name: str) -> None:
    """Beside policies that are fed by hand, and levels that are worked out from all that was seen."""
    policy = made(kind, name)
    slopes = [[mask.slope for mask in masks.masks(own, 2.0, np.array(shares))] for own, shares in _levels(kind)]
    twin = Pooled([[0, 0, 0], [0, 1, 2]], SHARES, slopes, lambda slope: Alone(name, slope, 2), 2)
    for question, answer in answered(policy, 150):
        assert question.level is not None
        own, shares = _levels(kind)[question.level]
        other = None if question.epsilon == 2 else [2 * half for half in _halves(own, question.epsilon, shares)]
        table = [question.table[0]] if question.level == 0 else list(question.table)
        if question.signs is not None:
            collected = [
                float(answer ^ sign) for sign in (question.signs[:1] if question.level == 0 else question.signs)
            ]
            twin.take_in_bit(question.level, masks.slope(own, float(question.epsilon), 3), table, collected, other)
        else:
            named = answer >> 1
            twin.take_in_one(
                question.level, named, table[named], float(answer & 1), None if other is None else other[named]
            )
    expected = [each.policy for row in twin.policies for each in row]
    for part, alone in zip(part_policies(policy), expected, strict=True):
        assert (part.observations, part.alarms) == (alone.observations, alone.alarms)
        assert part.estimates() == pytest.approx(alone.estimates(), nan_ok=True)
        assert part.indices() == pytest.approx(alone.indices())
    assert live_levels(policy).weights == pytest.approx(np.array(twin.weights), abs=1e-9)
    assert policy.observations == 150


def _levels(kind: str) -> list[tuple[str, list[float]]]:
    return [(masks.BIT, [1.0]), (kind, SHARES)]


def _halves(kind: str, epsilon: Fraction, shares: list[float]) -> list[float]:
    return [float(each) for each in masks.half_slopes(kind, float(epsilon), np.array(shares))]


@settings(max_examples=15)
@given(st.sampled_from(masks.KINDS), st.integers(1, 60), st.integers(0, 5), st.integers(1, 40))
def test_observe_many_equals_observe_in_any_batches(kind: str, many: int, seed: int, at_once: int) -> None:
    policy = made(kind)
    collected = answered(policy, many, seed)
    for pieces in (at_once, 1000):
        other = made(kind)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contextual, "MAX_ANSWERS_TIMES_GROUPS", 3 * pieces)
            other.observe_many([question for question, _ in collected], [answer for _, answer in collected])
        assert other.fold_digest() == policy.fold_digest()
        assert other.observations == many


def test_number_of_answers_must_match() -> None:
    with pytest.raises(UserError, match="1 questions"):
        made().observe_many([made().ask()], [])
    one: Any = [made().ask()]
    for questions, answers, name in (
        (iter(one), [1], "questions"),
        (one, {1}, "answers"),
        (one, None, "answers"),
    ):
        with pytest.raises(UserError, match=f"^{name} = .*a list"):
            made().observe_many(questions, answers)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", masks.KINDS)
def test_arms_change_in_every_group(kind: str, tmp_path: Path) -> None:
    policy = made(kind)
    answered(policy, 20)
    before = policy.estimates()
    assert policy.add_arm() == 2
    assert policy.arms == 3
    assert np.array_equal(policy.estimates()[:, :2], before, equal_nan=True)
    assert np.isnan(policy.estimates()[:, 2]).all()
    tables = [question.table for question, _ in answered(policy, 200, seed=2)]
    assert all({table[group] for table in tables} >= {2} for group in range(3))
    policy.retire(0)
    assert not any(0 in policy.ask().table for _ in range(30))
    answered(policy, 20, seed=3)
    late = Question([0, 0, 0], [0, 0, 0] if kind == masks.BIT else None, Fraction(2), level=1)
    policy.observe(late, 1)  # what was asked before
    copies = [copy.copy(policy), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]  # noqa: S301 -- our own
    for again in (*copies, serialization.loads(serialization.dumps(policy))):
        assert again.fold_digest() == policy.fold_digest()
        assert np.array_equal(again.estimates(), policy.estimates(), equal_nan=True)
        assert not any(0 in again.ask().table for _ in range(10))
    with pytest.raises(UserError, match="retired"):
        policy.retire(0)
    with pytest.raises(UserError, match="retired"):
        policy.ask(among=[0, 1])
    policy.save(tmp_path / "policy")
    assert load_contextual(tmp_path / "policy").fold_digest() == policy.fold_digest()


@pytest.mark.parametrize("name", ["klucb-cf", "ts-cf"])
def test_question_among_some_arms(name: str) -> None:
    policy = made(name=name, arms=4, pool=False)
    before = policy.fold_digest()
    assert {arm for _ in range(40) for arm in policy.ask(among=[1, 3]).table} == {1, 3}
    assert policy.fold_digest() == before
    assert {arm for _ in range(80) for arm in policy.ask().table} == {0, 1, 2, 3}


@pytest.mark.plain
@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy])
def test_copy_is_independent_and_asks_alike(twin_of: Any) -> None:
    policy = made(name="ts-cf")
    answered(policy, 10)
    twin, before = twin_of(policy), policy.fold_digest()
    assert [twin.ask() for _ in range(5)] == [policy.ask() for _ in range(5)]
    answered(twin, 10)
    assert policy.fold_digest() == before
    assert twin.fold_digest() != before


def test_pending_is_counted_by_part_and_arm() -> None:
    policy = made()
    level, table = policy.draw()
    assert policy.pending.sum() == 0
    policy.note(level, table, 2)
    assert policy.pending.sum() == 2 * table.size
    policy.note(level, table, -5)  # not less than nothing
    assert policy.pending.sum() == 0
    counts = np.arange(8).reshape(4, 2)
    policy.await_exactly(counts)
    assert np.array_equal(policy.pending, counts)
    state, _, _ = policy.snapshot()
    assert state.scalars["pending_total"].tolist() == counts.sum(axis=1).tolist()


def test_answers_of_all_epsilons_reveal_shares() -> None:
    """Return 6,000 seeded answers of devices, at an epsilon of 2 or 3/2."""
    policy, rng = made(masks.ONE_OF_MANY, pool=False, shares=None), np.random.default_rng(1)
    questions, collected = [], []
    for _ in range(6000):
        epsilon = [Fraction(2), Fraction(3, 2)][int(rng.integers(2))]
        group = int(rng.choice(3, p=SHARES))
        truth, other = masks.truth_and_other(float(epsilon), 3)
        chances = np.full(6, other)
        chances[2 * group] = truth
        questions.append(of_epsilon(policy.question(0, np.zeros(3, dtype=np.int64), None), epsilon))
        collected.append(int(rng.choice(6, p=chances)))
    policy.observe_many(questions, collected)
    assert policy.shares() == pytest.approx(SHARES, abs=0.04)


@pytest.mark.plain
def test_policy_without_masks_refuses_other_epsilons() -> None:
    policy = make_contextual("exp3s", groups=2, arms=2, epsilon=1, horizon=100)
    question = policy.ask()
    with pytest.raises(UserError, match="epsilon"):
        policy.observe(of_epsilon(question, Fraction(1, 2)), 0)
