"""Compare policies at several values of epsilon; write each run's regret to a CSV file, and a figure."""

import argparse
import csv
from pathlib import Path

import maskedbandits as mb

POLICIES = {
    "auto": "auto",
    "KL-UCB, no change": "klucb-cf",
    "corrected window": ("sw-klucb-cf", {"window": "corrected"}),
}


def compare(epsilon, horizon, runs, seed):
    """Play all policies on a problem in which the best arm changes half-way."""
    means = [[0.5, 0.3, 0.3], [0.3, 0.3, 0.6]]
    mask = mb.RandomizedResponse.from_epsilon(epsilon)
    return mb.compare(mb.Problem(means, [0, horizon // 2], horizon, mask), POLICIES, runs=runs, seed=seed)


def main():
    """Read the arguments, play, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2])
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/compare"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "regret.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epsilon", "policy", "run", "regret"])
        for epsilon in options.epsilons:
            compared = compare(epsilon, options.horizon, options.runs, options.seed)
            print(f"epsilon = {epsilon:g}\n{compared}\n")
            for name in compared:
                for run, regret in enumerate(compared[name].regret[:, -1]):
                    table.writerow([epsilon, name, run, regret])
            figure = compared.plot().figure
            figure.savefig(options.out / f"regret_{epsilon:g}.png")
    print("Written to", options.out)


if __name__ == "__main__":
    main()
