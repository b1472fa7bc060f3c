import numpy as np
import pytest

from maskedbandits import RandomizedResponse, make_policy
from naive import Twin
from specimens import LONG_INDICES as INDICES
from specimens import LONG_MEMORIES as MEMORIES
from specimens import RR
from trials import generator
from twins import bits, choose, play_both


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("before", MEMORIES)
def test_planned_restarts_equal_twin(before: str, kind: str) -> None:
    restarts = [0, 5, 6, 41, 60]
    each = [RandomizedResponse(0.8, 0.9), RandomizedResponse(0.2, 0.3), RR]
    given = {**MEMORIES[before], **INDICES[kind]}
    fast = make_policy(f"{before}{kind}-cf", arms=3, corruption=each, restarts=restarts, **given)
    play_both(fast, Twin(list(each), kind, restarts=restarts, **given), bits(1, 100))


@pytest.mark.parametrize("kind", ["ucb", "ts"])
def test_oracle_restarts_at_given_times(kind: str) -> None:
    fast = make_policy(f"oracle-{kind}-cf", arms=3, corruption=RR, restarts=[0, 30], **INDICES[kind])
    play_both(fast, Twin([RR] * 3, kind, restarts=[30], **INDICES[kind]), bits(2, 70))


@pytest.mark.parametrize("kind", INDICES)
def test_doubling_restarts_at_powers_of_two(kind: str) -> None:
    """A restart leaves no trace but the time, so a fresh policy goes on as a restarted one does.

    One that needs the horizon takes the length of the phase for it.
    """
    feedbacks = bits(6, 4100)
    rng = generator(1)
    given = {key: value for key, value in INDICES[kind].items() if key != "horizon"}
    policy = make_policy(f"{kind}-cf", arms=3, corruption=RR, restarts="doubling", **given)
    fresh = [policy]
    for length in (1000, 1000, 2000, 4000):
        options = {"horizon": length} if "horizon" in INDICES[kind] else {}
        fresh.append(make_policy(f"{kind}-cf", arms=3, corruption=RR, **given, **options))
    for step, feedback in enumerate(feedbacks):
        phase = sum(step >= start for start in (0, 1000, 2000, 4000))
        before = rng.bit_generator.state
        arm = choose(policy, rng)
        rng.bit_generator.state = before
        assert choose(fresh[phase], rng) == arm
        policy.observe(arm, feedback)
        fresh[phase].observe(arm, feedback)
        if step % 100 == 0:
            assert np.array_equal(policy.indices(), fresh[phase].indices())


def test_doubling_is_for_an_unknown_horizon() -> None:
    with pytest.raises(ValueError, match="horizon"):
        make_policy("klucb-plus-cf", arms=2, corruption=RR, restarts="doubling", horizon=500)


def test_doubling_equals_twin_at_1000() -> None:
    """The twin is shown the steps before the first restart, and plays around it."""
    fast = make_policy("ucb-cf", arms=2, corruption=RR, restarts="doubling")
    slow = Twin([RR] * 2, "ucb", c=0.0, restarts=[1000, 2000, 4000])
    for bit in bits(7, 990):
        arm = fast.choose()
        fast.observe(arm, bit)
        slow.observe(arm, bit)
    play_both(fast, slow, bits(8, 40))
