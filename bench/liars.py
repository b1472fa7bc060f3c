"""From which share of liars on each policy is turned: plays the worse of two arms more often than the better.

Two arms with means 0.65 and 0.35. A share of the reports are lies: zeros for the better arm, ones for the worse. Both
look alike from ``theory.turning_share(gap, slope)`` on: alpha* = s gap / (1 + s gap), s = tanh(eps / 2) for randomised
response. Measured: the share, found by bisection, at which the better arm gets half of the pulls in the second half of
the play.

    make bench-liars                 # or: python -m bench.liars [--json]
"""

import argparse
import json
import math
import sys
from typing import Any

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory

MEANS = [0.65, 0.35]
GAP = MEANS[0] - MEANS[1]
HORIZON, RUNS = 50_000, 32
EPSILONS = (0.5, 1.0, 2.0, math.inf)
POLICIES: dict[str, dict[str, Any]] = {
    "klucb-cf": {},
    "ucb-cf": {},
    "ts-cf": {},
    "sw-klucb-cf": {"window": 10_000},
    "d-klucb-cf": {"gamma": 0.9999},
    "glr-klucb-cf": {},
    "exp3s": {"horizon": HORIZON},
    "auto": {},
}


def better_pulls(name: str, epsilon: float, share: float) -> float:
    """Return the share of pulls that the better arm gets in the second half."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    problem = Problem([MEANS], [0], HORIZON, mask, liars=share)
    policy = make_policy(name, arms=2, corruption=mask, **POLICIES[name])
    result = simulate(problem, policy, runs=RUNS, seed=0, checkpoints=2, progress=False)
    lost = (result.regret[:, 1] - result.regret[:, 0]).mean()
    return 1.0 - float(lost) / (GAP * int(result.times[1] - result.times[0]))


def turned_at(name: str, epsilon: float) -> float:
    """Return the share of liars at which a policy is turned, within a thousandth."""
    low, high = 0.0, 0.5
    while high - low > 0.001:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if better_pulls(name, epsilon, middle) > 0.5 else (low, middle)
    return 0.5 * (low + high)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args()
    predicted = [theory.turning_share(GAP, RandomizedResponse.from_epsilon(epsilon).slope) for epsilon in EPSILONS]
    rows = {}
    for name in POLICIES:
        rows[name] = [turned_at(name, epsilon) for epsilon in EPSILONS]
        print(f"{name} ...", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"epsilons": EPSILONS, "predicted": predicted, "turned_at": rows}, indent=1))
        return
    print("| share of liars | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |")
    print("|---" + "|--:" * len(EPSILONS) + "|")
    table = {"α\\* = s gap / (1 + s gap)": predicted, **{f"`{name}`": row for name, row in rows.items()}}
    for name, shares in table.items():
        print(f"| {name} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")


if __name__ == "__main__":
    main()
