"""Visitors of groups for tests: runs as the simulator draws them, and seeded answers."""

from typing import Any

import numpy as np

from maskedbandits.contextual import masks
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.privacy import Question
from maskedbandits.problems import ContextualProblem
from naive import Twin
from naive.groups import Pooled


def naive_play(
    problem: ContextualProblem, grouping: Grouping, seed: int
) -> tuple[float, np.ndarray[Any, Any], list[float]]:
    """One run of klucb-cf, as the simulator draws it: regret, pulls by group and arm, and the weights of the levels."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0,))))
    shares, (groups, arms) = problem.shares, problem.means.shape[1:]
    spans, sizes = iter([mask.slope for mask in grouping.masks]), grouping.sizes
    twin = Pooled(
        grouping.parts.tolist(),
        shares.tolist(),
        [[next(spans) for _ in range(size)] for size in sizes],
        lambda slope: Twin([RandomizedResponse(0.5 + 0.5 * slope, 0.5 + 0.5 * slope)] * arms, "klucb"),
        arms,
        grouping.tree,
    )
    regret, pulls = 0.0, np.zeros((groups, arms))
    for step in range(problem.horizon):
        means = problem.means[np.searchsorted(problem.starts, step, side="right") - 1]
        group = int(np.searchsorted(np.cumsum(shares)[:-1], rng.random(), side="right"))
        decides = twin.drawn(rng)
        level = twin.listening(decides, rng)
        visited, kind, many = grouping.parts[level, group], grouping.kinds[level], sizes[level]
        slope = masks.slope(kind, grouping.epsilon, many)
        table = twin.decided(decides, level)
        mean = means[group, table[visited]]
        regret += means[group].max() - mean
        pulls[group, table[visited]] += 1
        if kind == masks.BIT:
            own = float(rng.random() < 0.5 + slope * (mean - 0.5))
            coins = int(rng.bit_generator.random_raw())
            bits = [own if part == visited else float(coins >> part & 1) for part in range(many)]
            twin.take_in_bit(level, slope, table, bits)
            continue
        draw = rng.random()
        if draw < slope:
            twin.take_in_one(level, visited, table[visited], float(rng.random() < mean))
        else:
            place = int((draw - slope) / (1 - slope) * 2 * many)
            twin.take_in_one(level, place >> 1, table[place >> 1], float(place & 1))
    return regret, pulls, twin.weights


def same_rng(words: np.ndarray[Any, Any]) -> np.random.Generator:
    """numpy's generator in the state of a policy's."""
    source = np.random.SFC64()
    source.state = {"bit_generator": "SFC64", "state": {"state": words.copy()}, "has_uint32": 0, "uinteger": 0}
    return np.random.Generator(source)


def answer_of(question: Question, group: int, means: Any, rng: np.random.Generator) -> int:
    """The answer of somebody, as a device gives it but from a seeded generator."""
    reward = int(rng.random() < means[group][question.arm(group)])
    part = group if question.parts is None else question.parts[group]
    truth = 2 * part + reward if question.signs is None else reward ^ question.signs[group]
    keep = masks.truth_and_other(float(question.epsilon), question.answers // 2)
    chances = np.full(question.answers, keep[1])
    chances[truth] = keep[0]
    sums = chances.cumsum()
    return int(np.searchsorted(sums / sums[-1], rng.random(), side="right"))  # as ``rng.choice``, and quicker


def lived(policy: Any, means: Any, visitors: int) -> list[Any]:
    """Let visitors answer; the questions."""
    rng, questions = np.random.default_rng(3), []
    for _ in range(visitors):
        question, group = policy.ask(), int(rng.integers(policy.groups))
        policy.observe(question, answer_of(question, group, means, rng))
        questions.append(question)
    return questions
