"""Play a policy and its naive twin side by side, and draw what they play with."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from maskedbandits.core.state import EXPLORATION, EXPLORE_ARM, EXPLORE_AT, TIME, views

from maskedbandits import Policy, RandomizedResponse
from naive import Twin

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
TIE = 1e-7  # two indices this close are a tie, where the slow and the fast way may round differently


def examples(count: int) -> settings:
    """So many examples, or few if few are asked for: with the compiler off."""
    return settings(max_examples=min(count, 5) if os.environ.get("HYPOTHESIS_PROFILE") == "few" else count)


def responses() -> st.SearchStrategy[RandomizedResponse]:
    probability = st.floats(0, 1).map(lambda p: round(p, 3))
    pairs = st.tuples(probability, probability).filter(lambda p: abs(p[0] + p[1] - 1) > 0.05)
    return pairs.map(lambda p: RandomizedResponse(*p))


def feedbacks(most: int) -> st.SearchStrategy[list[float]]:
    """Mostly bits, sometimes fractions."""
    bits = st.lists(st.sampled_from([0.0, 1.0]), max_size=most)
    return st.one_of(bits, bits, st.lists(st.floats(0, 1), max_size=most))


def generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """Return numpy's own generator of the kind that policies have: from the same seed both draw the same."""
    return np.random.Generator(np.random.SFC64(seed))


@contextlib.contextmanager
def lending(policy: Policy, lots: np.random.Generator) -> Iterator[None]:
    """Let a policy draw from numpy's generator."""
    state: Any = lots.bit_generator.state
    policy._words[:] = state["state"]["state"]
    yield
    state["state"]["state"] = policy._words.copy()
    lots.bit_generator.state = state


def choose(policy: Policy, lots: np.random.Generator) -> int:
    with lending(policy, lots):
        return policy.choose()


def observe(policy: Policy, arm: int, feedback: float, lots: np.random.Generator) -> None:
    with lending(policy, lots):
        policy.observe(arm, feedback)


def same(one: np.random.Generator, other: np.random.Generator) -> bool:
    """Tell whether two generators will draw the same."""
    states: list[Any] = [lots.bit_generator.state["state"]["state"] for lots in (one, other)]
    return bool(np.array_equal(*states))


def play_both(
    fast: Policy,
    slow: Twin,
    feedbacks: Sequence[float],
    own: Sequence[RandomizedResponse | None] = (),
    seed: int = 0,
) -> None:
    """Both see the same; at every step the fast one's choice is the slow one's, or ties with it.

    What draws lots is given two generators of one seed, and has to draw the same from them.
    """
    lots = generator(seed), generator(seed)
    for step, feedback in enumerate(feedbacks):
        slow.look = planned_look(fast)
        expected = np.array(slow.indices())
        got = fast.indices()
        assert np.array_equal(np.isinf(got), np.isinf(expected))
        finite = np.isfinite(expected)
        assert np.allclose(got[finite], expected[finite], rtol=1e-8, atol=TIE)
        if slow.index == "ts":
            arm = choose(fast, lots[0])
            assert arm == slow.choose(lots[1])
            assert same(*lots)
        else:
            arm = fast.choose()
            assert fast.choose() == arm
            check_choice(arm, expected, slow.look)
        corruption = own[step] if step < len(own) else None
        fast.observe(arm, feedback, corruption=corruption)
        slow.observe(arm, feedback, corruption)
    assert fast.restarts == slow.alarms


def planned_look(policy: Policy) -> int | None:
    """The arm that is to be looked at now, whatever its index: the twin is told, the plan has tests of its own."""
    state = views(policy._ints, policy._floats)
    due = state.real[EXPLORATION] > 0 and state.head[TIME] >= state.head[EXPLORE_AT]
    return int(state.head[EXPLORE_ARM]) if due else None


def check_choice(arm: int, expected: np.ndarray[tuple[int, ...], np.dtype[np.float64]], forced: int | None) -> None:
    if forced is not None:
        assert arm == forced
        return
    best = expected.max()
    assert expected[arm] == best or expected[arm] > best - TIE
    if np.isinf(best):
        assert arm == int(np.argmax(expected))
