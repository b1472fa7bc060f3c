"""Digests of what every policy chooses: a change of its code that is meant to change nothing must leave them alone.

There are two of each play: of its first steps, which the interpreter gets through in no time, and of all. `python
tests/digests.py` prints them as JSON, `--first` those of the first steps alone, and `--write` keeps them as what is
right from now on.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits import Monotone, Policy, Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.policies import KINDS, names

KEPT = Path(__file__).with_suffix(".json")
STEPS = 700
FIRST = 150
SEED = 20
RESPONSE = RandomizedResponse.from_epsilon(2.0)
MEANS = np.array([[0.2, 0.5, 0.8, 0.4], [0.9, 0.5, 0.1, 0.4], [0.6, 0.1, 0.2, 0.95]])
STARTS = [0, 250, 480]
REQUIRED: dict[str, Any] = {
    "window": 120,
    "gamma": 0.99,
    "restarts": STARTS,
    "best": [2, 0, 3],
    "horizon": STEPS,
    "variation": 1.5,
    "epsilon": 2.0,
}
CURVED = [
    Monotone(lambda x: 0.1 + 0.8 * x * x),
    Monotone(lambda x: 1.0 - 0.9 * math.sqrt(x)),
    RESPONSE,
    RandomizedResponse(0.2, 0.1),
]
STRAIGHT = [RESPONSE, RandomizedResponse(0.2, 0.1), RandomizedResponse(0.8, 0.95), RandomizedResponse(0.7, 0.6)]
FACE_VALUE = ("uniform", "oracle", "klucb", "ldp-ucb-l", "dp-ucb")
STRAIGHT_ONLY = ("exp3s", "rexp3", "adswitch")
ON_THEIR_OWN = ("auto", "uniform", "oracle", "exp3s", "rexp3", "adswitch", "ldp-ucb-l", "dp-ucb")


# Feedback that is no bits has other divergences, which have code of their own.
DIVERGENCES: dict[str, dict[str, Any]] = {
    "gaussian": {"divergence": "gaussian", "sigma": 0.6},
    "sub-gamma": {"divergence": "sub-gamma", "sigma": 0.6, "tail": 0.3},
}


def needed(name: str) -> dict[str, Any]:
    """Return values for the parameters that a policy must be given."""
    prefix = {"sw-": ["window"], "d-": ["gamma"], "oracle-": ["restarts"]}
    keys = [key for before, needs in prefix.items() if name.startswith(before) for key in needs]
    keys += ["horizon"] if "plus" in name or name in STRAIGHT_ONLY else []
    keys += {
        "oracle": ["restarts", "best"],
        "rexp3": ["variation"],
        "ldp-ucb-l": ["epsilon"],
        "dp-ucb": ["epsilon"],
    }.get(name, [])
    return {key: REQUIRED[key] for key in keys}


def variants(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the ways in which a policy is played."""
    given = needed(name)
    yield "plain", given
    if name.startswith(("glr-", "cusum-", "ph-", "m-")):
        settings: dict[str, dict[str, Any]] = {
            "cusum-": {"threshold": 4.0, "samples": 20},
            "ph-": {"threshold": 4.0},
            "m-": {"width": 40},
        }
        watchful: dict[str, Any] = next((s for key, s in settings.items() if name.startswith(key)), {"delta": 0.5})
        yield "local", {**watchful, "local": True, "exploration": 2.0}
        yield "watchful", {**watchful, "horizon": STEPS}
    elif name not in ON_THEIR_OWN and not name.startswith("oracle-") and "ldp" not in name and "plus" not in name:
        yield "doubling", {**given, "restarts": "doubling"}
        yield "planned", {**given, "restarts": [100, 333]}
    if name == "adswitch":
        yield "eager", {**given, "strictness": 1.0, "finest": 2.0}
    if name == "auto":
        yield "expecting", {**given, "expected_changes": 10.0}
    if name == "auto" or name not in (*ON_THEIR_OWN, "klucb"):
        yield "contaminated", {**given, "contamination": 0.1}


def chosen(policy: Policy, steps: int, fractions: bool, own: bool) -> list[int]:
    """Return what a policy chooses in a play, of bits or of fractions."""
    rng = np.random.default_rng(SEED)
    arms = []
    for step in range(steps):
        means = MEANS[sum(step >= start for start in STARTS) - 1]
        arm = policy.choose()
        draw = rng.random()
        feedback = round(0.5 * (draw + means[arm]), 3) if fractions else float(draw < means[arm])
        people = STRAIGHT[step % 3] if own and step % 5 == 0 and step > 60 else None
        policy.observe(arm, feedback, corruption=people)
        arms.append(arm)
    return arms


def seeded(name: str, corruption: Any, parameters: dict[str, Any]) -> Policy:
    return make_policy(name, arms=4, corruption=corruption, seed=SEED, **parameters)


def digest(numbers: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:16]


def live(policy: Policy, lengths: Sequence[int], *, fractions: bool = False, own: bool = False) -> str:
    arms = chosen(policy, max(lengths), fractions, own)
    return " ".join(digest(arms[:length]) for length in lengths)


def simulated(name: str, length: int) -> str:
    """Return the digest of a simulation; a short one has its changes sooner."""
    problem = Problem(MEANS, [start * length // STEPS for start in STARTS], length, STRAIGHT)
    policy = make_policy(name, arms=4, corruption=STRAIGHT, **needed(name))
    result = simulate(problem, policy, runs=2, seed=SEED, checkpoints=7)
    return digest(np.concatenate([result.pulls.ravel(), result.regret.ravel()]))


def plays(name: str, lengths: Sequence[int] = (FIRST, STEPS)) -> dict[str, str]:
    """Return the digests of one policy, by the kind of play, one for each length."""
    lines: Any = STRAIGHT if name in STRAIGHT_ONLY else RESPONSE if name in FACE_VALUE else CURVED
    found = {}
    for kind, parameters in variants(name):
        found[kind] = live(seeded(name, RESPONSE, parameters), lengths)
        found[f"{kind} fractions"] = live(seeded(name, lines, parameters), lengths, fractions=True)
        if name not in ON_THEIR_OWN:
            found[f"{kind} own"] = live(seeded(name, STRAIGHT, parameters), lengths, own=True)
    for divergence in KINDS[name].variants:
        parameters = {**needed(name), **DIVERGENCES[divergence]}
        found[divergence] = live(seeded(name, RESPONSE, parameters), lengths, fractions=True)
    found["simulated"] = " ".join(simulated(name, length) for length in lengths)
    return found


if __name__ == "__main__":
    lengths = (FIRST,) if "--first" in sys.argv else (FIRST, STEPS)
    text = json.dumps({name: plays(name, lengths) for name in names()}, indent=1) + "\n"
    if "--write" in sys.argv:
        KEPT.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
