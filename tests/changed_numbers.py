"""Change numbers of saved policies, one place after the other, and play on with what is not refused.

`python tests/changed_numbers.py ATTEMPTS NAME ...` prints how many were refused and how many were harmless. It is
called so because it may bring the process down. Interpreted, an index that is too large raises an error, where compiled
code would read whatever is there.
"""

import copy
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.private import live_state
from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits._numba.state import layout_of
from maskedbandits.policies import serialization
from specimens import ALONE, RR
from twins import stream

# One of every kind of state but for a detector or a memory with another index, which share nothing but their parts.
CHANGED: dict[str, dict[str, Any]] = {
    **ALONE,
    "sw-klucb-cf": {"window": 10},
    "sw-ts-cf": {"window": 10},
    "d-ucb-cf": {"gamma": 0.9},
    "oracle-klucb-cf": {"restarts": [0, 15, 50]},
    "klucb-plus-cf": {"restarts": "doubling"},
    "glr-klucb-cf": {},
    "cusum-klucb-cf": {"samples": 3, "local": True},
    "ph-klucb-cf": {},
    "m-ts-cf": {"width": 10},
}
MIXED = ("sw-ts-cf", "d-ucb-cf", "m-ts-cf")  # which have seen a report with a corruption of its own
OTHER_ARMS = ("auto", "sw-ts-cf", "d-ucb-cf", "glr-klucb-cf", "cusum-klucb-cf")  # to which one came, and one went
WHOLE = [-1, 0, 1, 2, 7, 300, 2**40, 2**62, -(2**63), 2**63 - 1]
OTHERS = [-1.0, 0.0, 0.3, 1.0, 7.0, 1e9, 1e300, np.inf, -np.inf, np.nan, -5e-324, 5e-324]


def played(name: str) -> Policy:
    policy = make_policy(name, arms=3, corruption=RR, seed=1, **CHANGED[name])
    stream(policy, np.random.default_rng(0).random(25))
    if name in MIXED:
        policy.observe(0, 1, corruption=RandomizedResponse(0.9, 0.9))
    if name in OTHER_ARMS:
        policy.add_arm()
        policy.retire(1)
    return policy


def survives(policy: Policy) -> bool:
    """Save and load it, and play on: tell whether that was not refused."""
    try:
        with warnings.catch_warnings(action="error"):
            loaded = serialization.loads(serialization.dumps(policy))
    except ValueError:
        return False
    for bit in [0, 1] * 20:
        arm = loaded.choose()
        assert 0 <= arm < policy.arms
        assert not loaded.retired[arm]
        loaded.observe(arm, bit)
    loaded.indices()
    loaded.estimates()
    if not loaded.kind.sees_rewards:
        loaded.intervals()
        loaded.suspects()
    return True


def places(state: Any, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield all saved numbers of the record, and the ends and some others of every section."""
    layout = layout_of(state)
    for key in layout.saved_dtype.names or ():
        yield "own", key
    for key in layout.arrays:
        size = getattr(state, key).size
        if size:
            yield from ((key, place) for place in sorted({0, size - 1, *rng.integers(0, size, 2).tolist()}))


def change(state: Any, section: str, place: Any, rng: np.random.Generator) -> Any:
    """Change one number, and return what it is now."""
    array = state.scalars[place] if section == "own" else getattr(state, section)
    value = rng.choice(OTHERS) if array.dtype == np.float64 else WHOLE[rng.integers(len(WHOLE))]
    if array.dtype == np.uint64:
        value = abs(int(value))
    array[0 if section == "own" else place] = value
    return value


def main(attempts: int, names: list[str]) -> None:
    rng = np.random.default_rng(1)
    refused = harmless = 0
    for name in names:
        policy = played(name)
        for section, place in places(live_state(policy), rng):
            for _ in range(attempts):
                other = copy.copy(policy)
                value = change(live_state(other), section, place, rng)
                try:
                    fine = survives(other)
                except Exception as error:
                    raise SystemExit(f"{name}: {section}[{place!r}] = {value!r} raises {error!r}") from error
                refused += not fine
                harmless += fine
    sys.stdout.write(f"{refused} {harmless}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(CHANGED))
