"""What other ways lose where each group has means of its own: the naive triple, no context, Gaussian noise on features.

python -m bench.context_peers [--runs N]

The worlds are those of `python -m bench.context` whose means are uniform: 5 groups of one size, 5 arms, 100,000
visitors.

- *The triple*: group, arm and reward are masked as one of 2 G K answers. An answer that the table allows names group k
  with probability n = 2 q + (p - q) / G, and is the feedback of a corrupt bandit (docs/theory.md). So every bandit
  is played for n T steps, as many as are to be expected, and a step of it stands for 1 / n visitors.
- *Without groups*: one arm for everybody, its reward behind randomised response.
- *LDP LinUCB* of Zheng, Cai, Huang, Li and Wang (2020): with x the feature vector of what was shown, here a one for
  its group and arm, the device sends x x' and x r, both with Gaussian noise of standard deviation sigma a coordinate,
  for (epsilon, delta)-privacy, which promises less than all others here do. With V and u the sums, weights are
  (V + c I)^-1 u with c = 2 gamma, gamma = sigma sqrt(t) (4 sqrt(d) + 2 ln(2 T / alpha)), and to a score is added
  beta sqrt(x' (V + c I)^-1 x), beta = 2 sigma sqrt(d ln T) + (sqrt(3 gamma) + sigma sqrt(d t / gamma)) d ln T.

These formulas are those of two programs; they were not checked against the papers. The programs agree on c and beta.

- That of Han, Liang, Wang and Zhang (2021; repository liangzp/LDP-Bandit) plays it with
  sigma = 6 sqrt(2 ln(2.5 / delta)) / epsilon.
- That for Zheng et al. (repository huang-research-group/LDPbandit2020, and the same for MindSpore) computes
  sigma = 4 sqrt(ln(1.25 / delta)) / epsilon, while a comment beside it has 4 sqrt(2 ln(1.25 / delta)) / epsilon, and
  adds beta x' (V + c I)^-1 x, without a root.

Both are played. *Greedy* adds nothing to a score. Shares of the width were chosen on three of these worlds, and go with
the least noise of the Gaussian mechanism here, 2 sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon below 1: a
feature vector has a one at one place, so x x' and x r together are at most 2 from any others. Sums are taken in every
BATCH visitors, who get the weights of the batch before.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.context import ARMS, GROUPS, PROBLEMS, at_random, independent, mean_regret, without_groups
from maskedbandits import ContextualProblem, Problem, RandomizedResponse, simulate
from maskedbandits.contextual import masks

EPSILONS = (1.0, 2.0, 4.0)
DELTA, ALPHA, BATCH = 0.01, 0.1, 20

Floats = NDArray[np.float64]
Lost = Callable[[ContextualProblem, float, int, int], float]


def ours(problem: ContextualProblem, epsilon: float, runs: int, seed: int) -> float:
    """Return the mean regret of questions to groups, by `auto`."""
    return mean_regret("auto", None, problem, epsilon, runs, seed)


def triple(problem: ContextualProblem, epsilon: float, runs: int, seed: int) -> float:
    """Return the mean regret of masking group, arm and reward as one answer, by `auto` for each group."""
    truth, other = masks.truth_and_other(epsilon, GROUPS * ARMS)
    difference = (truth - other) / GROUPS
    named = 2.0 * other + difference
    mask = RandomizedResponse(0.5 + 0.5 * difference / named, 0.5 + 0.5 * difference / named)
    total = 0.0
    for group in range(GROUPS):
        own = Problem(problem.means[:, group], [0], round(named * problem.horizon), mask)
        total += float(simulate(own, "auto", runs=runs, seed=seed, checkpoints=1).regret.mean()) / named / GROUPS
    return total


def uniform(problem: ContextualProblem, epsilon: float, runs: int, seed: int) -> float:
    """Return the mean regret of any arm for anybody."""
    return at_random(problem)


def noise_of_han(epsilon: float) -> float:
    """Return the standard deviation of a coordinate's noise in the program of Han et al."""
    return 6.0 * math.sqrt(2.0 * math.log(2.5 / DELTA)) / epsilon


def noise_of_zheng(epsilon: float) -> float:
    """Return the same as the program for Zheng et al. computes it."""
    return 4.0 * math.sqrt(math.log(1.25 / DELTA)) / epsilon


def noise_in_comment(epsilon: float) -> float:
    """Return the same as a comment in that program has it."""
    return 4.0 * math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon


def least_noise(epsilon: float) -> float:
    """Return what the Gaussian mechanism takes for values that are at most 2 apart."""
    return 2.0 * math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon


def linucb(problem: ContextualProblem, sigma: float, seed: int, width: float, root: bool = True) -> float:
    """Return the regret of LDP LinUCB in one play, with so much of its width, and a root in it or none."""
    lots, d, horizon = np.random.default_rng(seed), GROUPS * ARMS, problem.horizon
    means, gaps = problem.means[0].ravel(), problem.gaps[0].ravel()
    gram, sums, total = np.zeros((d, d)), np.zeros(d), 0.0
    for start in range(0, horizon, BATCH):
        t = max(start, 1)
        gamma = sigma * math.sqrt(t) * (4.0 * math.sqrt(d) + 2.0 * math.log(2.0 * horizon / ALPHA))
        inverse = np.linalg.inv(gram + 2.0 * gamma * np.eye(d))
        beta = 2.0 * sigma * math.sqrt(d * math.log(horizon))
        beta += (math.sqrt(3.0 * gamma) + sigma * math.sqrt(d * t / gamma)) * d * math.log(horizon)
        forms = np.maximum(np.diag(inverse), 0.0)
        scores = inverse @ sums + width * beta * (np.sqrt(forms) if root else forms)
        scores = scores.reshape(GROUPS, ARMS) + 1e-12 * lots.random((GROUPS, ARMS))  # ties by lot
        groups = lots.integers(0, GROUPS, min(BATCH, horizon - start))
        shown = groups * ARMS + scores.argmax(axis=1)[groups]
        rewards = lots.random(shown.size) < means[shown]
        total += float(gaps[shown].sum())
        noise = np.triu(lots.normal(0.0, sigma * math.sqrt(shown.size), (d, d)))
        gram += np.diag(np.bincount(shown, minlength=d)) + noise + np.triu(noise, 1).T
        sums += np.bincount(shown, rewards, d) + lots.normal(0.0, sigma * math.sqrt(shown.size), d)
    return total


def gaussian(noise: Callable[[float], float], width: float, root: bool = True) -> Lost:
    """Return what LDP LinUCB loses, with some noise and so much of its width."""
    return lambda problem, epsilon, runs, seed: linucb(problem, noise(epsilon), seed, width, root)


WAYS: dict[str, Lost] = {
    "questions, `auto`": ours,
    "the triple, `auto`": triple,
    "without groups, `auto`": without_groups,
    "LDP LinUCB, program of Han et al., noise 19.9/ε": gaussian(noise_of_han, 1.0),
    "LDP LinUCB, program for Zheng et al., noise 8.8/ε": gaussian(noise_of_zheng, 1.0, root=False),
    "LDP LinUCB, greedy, noise 8.8/ε": gaussian(noise_of_zheng, 0.0),
    "LDP LinUCB, 0.3 % of the width, noise 6.2/ε": gaussian(least_noise, 0.003),
    "LDP LinUCB, 0.1 % of the width, noise 6.2/ε": gaussian(least_noise, 0.001),
    "at random": uniform,
}


def table(runs: int) -> str:
    """Measure, and return a table."""
    lines = [
        "| way | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---|" + "--:|" * len(EPSILONS),
    ]
    for name, way in WAYS.items():
        cells = []
        for epsilon in EPSILONS:
            found = np.array([way(independent(seed), epsilon, runs, seed) for seed in range(PROBLEMS)])
            cells.append(f"{found.mean():,.0f} ± {2.0 * found.std(ddof=1) / PROBLEMS**0.5:,.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=4, help="of each of 8 problems; of LDP LinUCB one")
    print(table(parser.parse_args().runs))


if __name__ == "__main__":
    main()
