"""The cost of late and lost reports for each policy: regret beside regret without, on random problems.

Problems have K in {2, 5, 20} arms and eps in {1, inf}. The bars, for every policy that is not randomised:

* a constant delay of D = 500, T = 10,000, means that stay: at most 1.5 times the regret without delay, plus D times the
  mean gap, which is what D decisions cost that know nothing;
* delays drawn from [0, 1000] and from [0, 2000], on the same problems and with three changes in 20,000 steps: at most
  1.3 times the regret of the same policy when it ignores pending reports (``expire_after=0``);
* 1 % and 10 % of reports lost, on the same problems: at most 1.2 and 1.5 times the regret without losses, plus 100.

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
SEED = 50  # of the first problem
MIXED = ([0, 1000], [0, 2000])
LOSSES = ((0.01, 1.2), (0.1, 1.5))  # the share that is lost, and how many times the regret without it may cost
SLACK = 100  # which losses may cost beside
ARMS, EPSILONS = (2, 5, 20), (1.0, math.inf)
NEEDED: dict[str, Any] = {"window": 2_000, "gamma": 0.9995, "variation": 0.1, "epsilon": 1.0}


@dataclass(frozen=True)
class Row:
    """One policy: mean regret, and on its worst problem how much of each bar it takes, 1 being the bar itself."""

    policy: str
    draws: bool
    now: float  # regret without delay
    late: float  # with the constant delay
    of_bar: float
    mixed: float  # with mixed delays
    lost: list[float]  # with losses, in the order of LOSSES


def problems(segments: int = 1, seed: int = SEED) -> Iterator[Problem]:
    """Yield the problems, twice as long with changes; their seeds depend on the first and on their places."""
    horizon = HORIZON if segments == 1 else 2 * HORIZON
    for i, arms in enumerate(ARMS):
        for j, epsilon in enumerate(EPSILONS):
            mask = RandomizedResponse.from_epsilon(epsilon)
            yield random_segments(arms, horizon, corruption=mask, segments=segments, seed=seed + 10 * i + j)


def regret(problem: Problem, name: str, **arriving: Any) -> float:
    """Return the mean regret at the horizon, with reports that arrive so."""
    known = {"restarts": problem.starts.tolist(), "best": problem.means.argmax(axis=1).tolist(), **NEEDED}
    known["horizon"] = problem.horizon
    needed = {key: known[key] for key, what in KINDS[name].parameters.items() if what.required}
    policy = make_policy(name, arms=problem.arms, corruption=problem.corruption, **needed)
    result = simulate(problem, policy, runs=RUNS, seed=0, checkpoints=1, progress=False, **arriving)
    return float(result.regret.mean())


def _share(regret: float, bar: float) -> float:
    return regret / bar if bar > 0.0 else float(regret > 0.0)


def measure(name: str, seed: int = SEED) -> Row:
    """Return a policy's row."""
    now, late, constant, mixed = [], [], [], []
    lost: list[list[float]] = [[] for _ in LOSSES]
    for problem in (*problems(1, seed), *problems(4, seed)):
        at_once = regret(problem, name, delay=0)
        if problem.segments == 1:
            now.append(at_once)
            late.append(regret(problem, name, delay=DELAY))
            constant.append(_share(late[-1], 1.5 * at_once + DELAY * float(problem.gaps.mean())))
        for delays in MIXED:
            ignoring = regret(problem, name, delay=delays, expire_after=0)
            mixed.append(_share(regret(problem, name, delay=delays), 1.3 * ignoring))
        for shares, (share, times) in zip(lost, LOSSES, strict=True):
            shares.append(_share(regret(problem, name, lost=share), times * at_once + SLACK))
    draws = bool(KINDS[name].draws_from)
    return Row(
        name, draws, float(np.mean(now)), float(np.mean(late)), max(constant), max(mixed), [max(one) for one in lost]
    )


def format_table(rows: list[Row]) -> str:
    """Return the table in Markdown."""
    losses = "".join(f" {share:.0%} lost |".replace("%", " %") for share, _ in LOSSES)
    lines = [
        f"| policy | randomised | regret | with a delay of {DELAY} | delay of {DELAY} | mixed delays |{losses}",
        f"|---|---|--:|--:|--:|--:|{'--:|' * len(LOSSES)}",
    ]
    for row in rows:
        draws = "yes" if row.draws else ""
        shares = " | ".join(f"{100 * share:.0f} %" for share in (row.of_bar, row.mixed, *row.lost))
        lines.append(f"| `{row.policy}` | {draws} | {row.now:,.0f} | {row.late:,.0f} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write a JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--policies", nargs="+", choices=sorted(KINDS), metavar="NAME", help="only these")
    parser.add_argument("--seed", type=int, default=SEED, help="of the first problem: try others")
    parser.add_argument("--out", type=Path, default=Path("results/delays"), help="folder for the JSON document")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.policies or sorted(KINDS):
        rows.append(measure(name, options.seed))
        print(f"{name} ...", file=sys.stderr, flush=True)
        document = json.dumps([asdict(row) for row in rows], indent=1)
        (options.out / "delays.json").write_text(document, encoding="utf-8")  # as far as it is: it takes long
    print(document if options.json else format_table(rows))


if __name__ == "__main__":
    main()
