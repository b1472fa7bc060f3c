"""Play a policy and its naive twin side by side, and draw what they play with."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from helpers.private import live_state
from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits.math import beta
from maskedbandits.policies import auto
from naive import Twin
from naive.auto import Model, Switching
from naive.standalone import Policy as Alone
from trials import generator

NUMBERS = {**vars(beta), **vars(auto)}
MODEL = Model(**{name: NUMBERS[name.upper()] for name in Model._fields})  # of auto

TIE = 1e-7  # two indices this close are a tie, where the slow and the fast way may round differently


def responses() -> st.SearchStrategy[RandomizedResponse]:
    probability = st.floats(0, 1).map(lambda p: round(p, 3))
    pairs = st.tuples(probability, probability).filter(lambda p: abs(p[0] + p[1] - 1) > 0.05)
    return pairs.map(lambda p: RandomizedResponse(*p))


def feedbacks(most: int) -> st.SearchStrategy[list[float]]:
    """Mostly bits, sometimes fractions."""
    bits = st.lists(st.sampled_from([0.0, 1.0]), max_size=most)
    return st.one_of(bits, bits, st.lists(st.floats(0, 1), max_size=most))


@contextlib.contextmanager
def lending(policy: Policy, rng: np.random.Generator) -> Iterator[None]:
    """Let a policy draw from numpy's generator."""
    state: Any = rng.bit_generator.state
    live_state(policy).rng[:] = state["state"]["state"]
    yield
    state["state"]["state"] = live_state(policy).rng.copy()
    rng.bit_generator.state = state


def choose(policy: Policy, rng: np.random.Generator) -> int:
    with lending(policy, rng):
        return policy.choose()


def observe(policy: Policy, arm: int, feedback: float, rng: np.random.Generator) -> None:
    with lending(policy, rng):
        policy.observe(arm, feedback)


def same(one: np.random.Generator, other: np.random.Generator) -> bool:
    """Tell whether two generators will draw the same."""
    states: list[Any] = [rng.bit_generator.state["state"]["state"] for rng in (one, other)]
    return bool(np.array_equal(*states))


def play_both(
    fast: Policy,
    slow: Twin,
    feedbacks: Sequence[float],
    own: Sequence[RandomizedResponse | None] = (),
    seed: int = 0,
) -> None:
    """Both see the same; at every step the fast one's choice is the slow one's, or ties with it.

    Randomised policies get two generators of one seed, and must draw the same from them.
    """
    rngs = generator(seed), generator(seed)
    for step, feedback in enumerate(feedbacks):
        slow.look = planned_look(fast)
        expected = np.array(slow.indices())
        got = fast.indices()
        assert np.array_equal(np.isinf(got), np.isinf(expected))
        finite = np.isfinite(expected)
        assert np.allclose(got[finite], expected[finite], rtol=1e-8, atol=TIE)
        if slow.index == "ts":
            arm = choose(fast, rngs[0])
            assert arm == slow.choose(rngs[1])
            assert same(*rngs)
        else:
            arm = fast.choose()
            check_choice(arm, expected, slow.look)
        corruption = own[step] if step < len(own) else None
        fast.observe(arm, feedback, corruption=corruption)
        slow.observe(arm, feedback, corruption)
    assert fast.alarms == slow.alarms


def planned_look(policy: Policy) -> int | None:
    """Return the arm that the plan looks at now, whatever its index; test_restarts_detected.py checks the plan."""
    scalars = live_state(policy).scalars[0]
    if "explore_at" not in scalars.dtype.names:
        return None
    return int(scalars.explore_arm) if scalars.exploration > 0 and scalars.time >= scalars.explore_at else None


def check_choice(arm: int, expected: np.ndarray[tuple[int, ...], np.dtype[np.float64]], forced: int | None) -> None:
    if forced is not None:
        assert arm == forced
        return
    best = expected.max()
    assert expected[arm] == best or expected[arm] > best - TIE
    if np.isinf(best):
        assert arm == int(np.argmax(expected))


def play_alike(
    fast: Policy, slow: Alone, means: list[list[float]], steps: int, seed: int, *, fractions: bool = False
) -> list[int]:
    """Both draw from generators of the same seed, and choose alike at every step; means take turns."""
    one, other = generator(seed), generator(seed)
    world = np.random.default_rng(seed + 1)
    chosen = []
    for step in range(steps):
        arm = choose(fast, one)
        assert slow.choose(other) == arm, step
        mean = means[step * len(means) // steps][arm]
        feedback = mean * float(world.random()) if fractions else float(world.random() < mean)
        observe(fast, arm, feedback, one)
        slow.observe(arm, feedback, other)
        assert same(one, other)
        chosen.append(arm)
    return chosen


def bits(seed: int, length: int) -> list[float]:
    """Bits of a mean that changes every 20 steps."""
    rng = np.random.default_rng(seed)
    means = rng.choice([0.2, 0.5, 0.8], length // 20 + 1).repeat(20)[:length]
    return [float(draw < mean) for draw, mean in zip(rng.random(length), means, strict=True)]


def changing(seed: int, length: int) -> list[float]:
    """Bits of a mean that jumps between near 0 and near 1."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, 70, length)
    means = np.resize(rng.permutation([0.05, 0.95, 0.5, 0.9, 0.1]), length).repeat(lengths)[:length]
    return [float(draw < mean) for draw, mean in zip(rng.random(length), means, strict=True)]


def stream(policy: Policy, draws: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """Play with feedback that depends on the arm and the draw alone."""
    chosen = []
    for draw in draws:
        arm = policy.choose()
        policy.observe(arm, float(draw < 0.3 + 0.4 * arm / policy.arms))
        chosen.append(arm)
    return chosen


def observe_masked_alike(contamination: float) -> tuple[Policy, Switching]:
    """Return `auto` and its twin after the same 300 reports, most of which have masks of their own."""
    own = [RandomizedResponse.from_epsilon(epsilon) for epsilon in (0.5, 1.0, 4.0)]
    arms = [RandomizedResponse.from_epsilon(1.0), RandomizedResponse(0.9, 0.8)]
    fast = make_policy("auto", arms=2, corruption=arms, contamination=contamination)
    slow, rng, world = Switching(list(arms), MODEL, contamination), generator(5), np.random.default_rng(5)
    for step in range(300):
        arm, mask = step % 2, own[step % 3] if step % 5 else None
        bit = float(world.random() < (mask or arms[arm])((0.8, 0.3)[(arm + step // 150) % 2]))
        fast.observe(arm, bit, corruption=mask)
        slow.observe(arm, bit, rng, mask)
    return fast, slow
