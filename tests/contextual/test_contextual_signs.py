"""Signs of questions: each is drawn fairly and independently; otherwise answers could not separate groups."""

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import load_contextual, make_contextual
from maskedbandits.contextual.policy import Contextual
from maskedbandits.privacy import Partition

MANY = 8000


def draw_signs(policy: Contextual, level: int, many: int = MANY) -> np.ndarray[Any, Any]:
    """The signs of questions at a level, a row for each."""
    return np.array([policy.signs(level) for _ in range(many)])


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_signs_are_fair_and_independent(seed: int | None, level: int) -> None:
    """Of each part, of pairs of parts, and of a question and the next ones, by 8,000 questions.

    A share of 1/2 is off by 0.04, seven deviations, less than once in 10^11 times; some 60 are looked at.
    """
    tree = Partition.tree(axes=1, depth=2)
    policy = make_contextual("klucb-cf", partition=tree, arms=2, epsilon=1, answers="bit", seed=seed)
    found = draw_signs(policy, level)
    assert set(np.unique(found)) == {0, 1}
    parts = range(found.shape[1])
    looked = [found[:, part] for part in parts]
    looked += [found[:, one] ^ found[:, other] for one, other in itertools.combinations(parts, 2)]
    for later in (1, 2, 3):
        looked += [found[later:, one] ^ found[:-later, other] for one, other in itertools.product(parts, repeat=2)]
    assert all(abs(each.mean() - 0.5) < 0.04 for each in looked)
    patterns, counts = np.unique(found, axis=0, return_counts=True)
    assert len(patterns) == 2 ** len(parts)
    assert abs(counts / MANY - 0.5 ** len(parts)).max() < 0.04


@pytest.mark.plain
def test_signs_do_not_depend_on_table() -> None:
    """Of two policies with one seed, one learns: tables differ, and signs of questions at one level do not."""
    one, other = (
        make_contextual("klucb-cf", groups=3, arms=3, epsilon=2, pool=False, answers="bit", seed=5) for _ in "12"
    )
    tables: list[set[tuple[int, ...]]] = [set(), set()]
    for _ in range(300):
        learning, idle = one.ask(), other.ask()
        one.observe(learning, learning.signs[1] if learning.signs is not None else 0)
        other.expire(idle)
        assert learning.signs == idle.signs
        tables[0].add(learning.table)
        tables[1].add(idle.table)
    assert len(tables[0]) > len(tables[1]) == 1


def test_pooled_questions_draw_one_sign_each() -> None:
    policy = make_contextual("klucb-cf", groups=4, arms=2, epsilon=1, seed=2)
    signs = []
    for _ in range(200):
        question = policy.ask()
        policy.expire(question)
        assert question.signs is not None
        if question.level == 0:
            assert len(set(question.signs)) == 1
            signs.append(question.signs[0])
    assert len(signs) > 100
    assert 0.25 < np.mean(signs) < 0.75
    assert 0.25 < np.mean(np.diff(signs) != 0) < 0.75


def test_signs_without_seed_come_from_system() -> None:
    """Copies, and policies loaded from one file, draw other signs: 200 that agree come once in 2^200 times."""
    policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=1, pool=False)
    assert not np.array_equal(draw_signs(copy.copy(policy), 0, 100), draw_signs(policy, 0, 100))


@pytest.mark.parametrize("name", ["auto", "klucb-cf"])
@pytest.mark.parametrize("answers", ["bit", "one of many"])
def test_exact_load_continues_signs(name: str, answers: str, tmp_path: Path) -> None:
    policy = make_contextual(name, groups=3, arms=3, epsilon=2, answers=answers, pool=True, seed=7)
    _go_on(policy, 40)
    policy.save(tmp_path / "policy")
    copied, exact = copy.copy(policy), load_contextual(tmp_path / "policy", exact=True)
    other = load_contextual(tmp_path / "policy")
    assert other.fold_digest() == policy.fold_digest()
    expected = _go_on(policy, 60)
    assert _go_on(exact, 60) == _go_on(copied, 60) == expected
    assert exact.fold_digest() == policy.fold_digest()
    if answers == "bit":
        assert _go_on(other, 60) != expected  # some 100 signs at least are others


def test_exact_load_keeps_system_signs(tmp_path: Path) -> None:
    policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=1, pool=False)
    policy.save(tmp_path / "policy")
    exact = [load_contextual(tmp_path / "policy", exact=True) for _ in range(2)]
    assert not np.array_equal(draw_signs(exact[0], 0, 100), draw_signs(exact[1], 0, 100))


def _go_on(policy: Contextual, questions: int) -> list[Any]:
    """Ask and answer, always alike; the questions."""
    found = []
    for number in range(questions):
        question = policy.ask()
        policy.observe(question, number * 7 % question.answers)
        found.append(question)
    return found
