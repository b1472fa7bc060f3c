"""What late reports cost each policy: regret with a delay against regret without, on random problems.

The bar, of every policy that draws no lots: with a delay of D at most 1.5 times the regret without, plus D times the
mean gap, which is what D decisions cost that know nothing. Problems: K in {2, 5, 20}, eps in {1, inf}, T = 10,000,
means that are drawn once and stay.

    make bench-delays                # or: python -m bench.delays [--json] [--out DIR]
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.policies import KINDS
from maskedbandits.problems import random_segments

HORIZON, RUNS, DELAY = 10_000, 32, 500
ARMS, EPSILONS = (2, 5, 20), (1.0, math.inf)
NEEDED: dict[str, Any] = {"window": 2_000, "gamma": 0.9995, "horizon": HORIZON, "variation": 0.1, "epsilon": 1.0}


@dataclass(frozen=True)
class Row:
    """One policy: its mean regret, without delay and with, and how far below the bar it stays at the worst."""

    policy: str
    draws: bool
    now: float
    late: float
    of_bar: float  # regret with the delay over the bar, on the worst problem


def problems() -> Iterator[Problem]:
    """Yield the problems; their seeds depend on their places alone."""
    for i, arms in enumerate(ARMS):
        for j, epsilon in enumerate(EPSILONS):
            mask = RandomizedResponse.from_epsilon(epsilon)
            yield random_segments(arms, HORIZON, corruption=mask, segments=1, seed=50 + 10 * i + j)


def regret(problem: Problem, name: str, delay: int) -> float:
    """Return the mean regret at the horizon."""
    told = {"restarts": problem.starts.tolist(), "best": problem.means.argmax(axis=1).tolist(), **NEEDED}
    needed = {key: told[key] for key, what in KINDS[name].parameters.items() if what.required}
    policy = make_policy(name, arms=problem.arms, corruption=problem.corruption, **needed)
    result = simulate(problem, policy, runs=RUNS, seed=0, checkpoints=1, progress=False, delay=delay)
    return float(result.regret.mean())


def measured(name: str) -> Row:
    """Return a policy's row."""
    now, late, shares = [], [], []
    for problem in problems():
        now.append(regret(problem, name, 0))
        late.append(regret(problem, name, DELAY))
        shares.append(late[-1] / (1.5 * now[-1] + DELAY * float(problem.gaps.mean())))
    return Row(name, bool(KINDS[name].draws_from), float(np.mean(now)), float(np.mean(late)), max(shares))


def as_table(rows: list[Row]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"| policy | draws lots | regret | with a delay of {DELAY} | of the bar, at the worst |",
        "|---|---|--:|--:|--:|",
    ]
    for row in rows:
        draws = "yes" if row.draws else ""
        lines.append(f"| `{row.policy}` | {draws} | {row.now:,.0f} | {row.late:,.0f} | {100 * row.of_bar:.0f} % |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write a JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--policies", nargs="+", choices=sorted(KINDS), metavar="NAME", help="only these")
    parser.add_argument("--out", type=Path, default=Path("results/delays"), help="folder for the JSON document")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.policies or sorted(KINDS):
        rows.append(measured(name))
        print(f"{name} ...", file=sys.stderr, flush=True)
    document = json.dumps([asdict(row) for row in rows], indent=1)
    (options.out / "delays.json").write_text(document, encoding="utf-8")
    print(document if options.json else as_table(rows))


if __name__ == "__main__":
    main()
