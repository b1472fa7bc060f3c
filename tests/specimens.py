"""One policy of every name, with the parameters that it must be given."""

from typing import Any

from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits.corruption import Corruption
from maskedbandits.policies import KINDS

RR = RandomizedResponse.from_epsilon(1.0)
CERTAIN = RandomizedResponse(1, 1)

# The axes: what each memory and each index is given.
MEMORIES: dict[str, dict[str, Any]] = {"": {}, "sw-": {"window": 9}, "d-": {"gamma": 0.8}}
INDICES: dict[str, dict[str, Any]] = {
    "klucb": {"c": 3.0},
    "ucb": {"c": 0.0},
    "klucb-plus": {"horizon": 50},
    "ts": {},
}

# The same for plays of some hundred steps.
LONG_MEMORIES: dict[str, dict[str, Any]] = {"": {}, "sw-": {"window": 17}, "d-": {"gamma": 0.9}}
LONG_INDICES: dict[str, dict[str, Any]] = {
    "klucb": {"c": 3.0},
    "ucb": {"c": 0.0, "xi": 2.0},
    "klucb-plus": {"horizon": 500},
    "ts": {},
}

# Those that stand alone.
ALONE: dict[str, dict[str, Any]] = {
    "uniform": {},
    "auto": {},
    "oracle": {"restarts": [0, 40, 100], "best": [2, 0, 1]},
    "exp3s": {"horizon": 300, "changes": 3},
    "rexp3": {"horizon": 300, "variation": 2.0},
    "adswitch": {"horizon": 300, "strictness": 1.0, "finest": 2.0},
    "ldp-ucb-l": {"epsilon": 2.0},
    "dp-ucb": {"epsilon": 2.0},
}


def specimen(name: str, arms: int = 3, corruption: Corruption = RR, seed: int | None = None) -> Policy:
    """Return a policy that learns an easy problem in some hundred steps."""
    values: dict[str, Any] = {
        "window": 40,
        "gamma": 0.97,
        "restarts": [0, 60],
        "horizon": 300,
        "variation": 0.1,
        "epsilon": 20.0,
        "best": [min(1, arms - 1)] * 2,
    }
    needed = {key: values[key] for key, what in KINDS[name].parameters.items() if what.required}
    if name == "adswitch":  # with the constants of the proof, it learns in millions of steps
        needed |= {"horizon": 3000, "strictness": 1.0, "finest": 2.0}
    return make_policy(name, arms=arms, corruption=corruption, seed=seed, **needed)
