"""What knowing the mask is worth to a policy over features: the known link beside feedback at face value.

make bench-features              # or: python -m bench.features [--problems N] [--runs N]
"""

import argparse
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits import Featured, FeaturedProblem, RandomizedResponse, make_featured, simulate

ARMS, FEATURES, HORIZON = 5, 6, 100_000
EPSILONS = (0.5, 1.0, 2.0, 4.0, 16.0)
SIZES = (1.0, 0.5)  # standard deviation of the weights of the worlds; the policy's prior is 1
PROBLEMS, RUNS = 40, 2
FACE_VALUE = RandomizedResponse(1.0, 1.0)

Floats = NDArray[np.float64]


class Row(NamedTuple):
    """Mean regret of each problem, of several policies on the same random numbers."""

    size: float
    epsilon: float
    known: Floats
    face_value: Floats
    linear: Floats

    @property
    def saved(self) -> tuple[float, float]:
        """How much less the known link loses, in percent, and half of a 95 % interval."""
        ratio = self.known.sum() / self.face_value.sum()
        off = (self.known - ratio * self.face_value) / self.face_value.mean()  # a ratio of means, linearised
        return 100.0 * (1.0 - ratio), 196.0 * float(off.std(ddof=1)) / math.sqrt(off.size)


def measure_regret(policy: Featured, size: float, epsilon: float, problems: int, runs: int) -> Floats:
    """Return the mean regret in worlds with normal weights, problem by problem."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    found = []
    for seed in range(problems):
        weights = size * np.random.default_rng(seed).normal(size=(ARMS, FEATURES))
        problem = FeaturedProblem(weights, [0], HORIZON, mask)
        found.append(float(simulate(problem, policy, runs=runs, seed=seed, checkpoints=1).regret.mean()))
    return np.array(found)


def measure(size: float, epsilon: float, problems: int, runs: int) -> Row:
    """Play all policies."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    policies = [
        make_featured("logistic-ts-cf", arms=ARMS, features=FEATURES, corruption=mask),
        make_featured("logistic-ts-cf", arms=ARMS, features=FEATURES, corruption=FACE_VALUE),
        make_featured("d-linucb-cf", arms=ARMS, features=FEATURES, corruption=mask, gamma=1.0),
    ]
    return Row(size, epsilon, *(measure_regret(policy, size, epsilon, problems, runs) for policy in policies))


def cell(regrets: Floats) -> str:
    """Return a mean with half of its 95 % interval over problems."""
    return f"{regrets.mean():,.1f} ± {1.96 * regrets.std(ddof=1) / math.sqrt(regrets.size):,.1f}"


def step(policy: Featured, steps: int = 1_000_000) -> float:
    """Return how many microseconds of one processor a step takes, in a simulation, whose features are drawn in it."""
    weights = np.random.default_rng(0).normal(size=(ARMS, FEATURES))
    problem = FeaturedProblem(weights, [0], steps, RandomizedResponse.from_epsilon(1.0))
    simulate(problem, policy, runs=1, seed=1, checkpoints=1)  # what is compiled for it is not counted
    return 1e6 * simulate(problem, policy, runs=1, seed=1, checkpoints=1).kernel_seconds / steps


def describe_speed() -> str:
    """Return in words how long a step takes."""
    mask = RandomizedResponse.from_epsilon(1.0)
    known = make_featured("logistic-ts-cf", arms=ARMS, features=FEATURES, corruption=mask)
    linear = make_featured("d-linucb-cf", arms=ARMS, features=FEATURES, corruption=mask, gamma=0.999)
    return (
        f"With {ARMS} arms and {FEATURES} features a step of `logistic-ts-cf` takes {step(known):.2f} us of one "
        f"processor, of `d-linucb-cf` with gamma = 0.999 {step(linear):.2f} us; drawing the features is part of it."
    )


def describe_results(problems: int, runs: int) -> str:
    """Return in words what is measured."""
    return (
        f"Mean regret after {HORIZON:,} steps, {ARMS} arms, {FEATURES} features; {problems} problems, {runs} runs of "
        "each, all policies on the same random numbers; ± is a 95 % interval over problems."
    )


def table(problems: int, runs: int) -> str:
    """Measure, and return a table."""
    rows = [measure(size, epsilon, problems, runs) for size in SIZES for epsilon in EPSILONS]
    lines = ["| weights | ε | known link | face value | saved, % | d-linucb-cf |", "|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        saved, error = row.saved
        cells = f"{cell(row.known)} | {cell(row.face_value)} | {saved:.1f} ± {error:.1f} | {cell(row.linear)}"
        lines.append(f"| {row.size:g} | {row.epsilon:g} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="worlds with weights of their own, at least 2")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each problem")
    asked = parser.parse_args()
    print(describe_results(asked.problems, asked.runs), "\n")
    print(table(asked.problems, asked.runs), "\n")
    print(describe_speed())


if __name__ == "__main__":
    main()
