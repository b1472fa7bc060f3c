"""From which share of liars on, and after how many lies in a row, policies prefer the worse of two arms.

Two arms with means 0.65 and 0.35. A share of the reports are lies, spread evenly: zeros for the better arm, ones for
the worse. Both look alike from ``theory.turning_share(gap, slope)`` on: alpha* = s gap / (1 + s gap), s = tanh(eps / 2)
for randomised response. Measured: the share, found by bisection, at which the better arm gets half of the pulls in the
second half of the play. This is the share that a policy survives. A lie is sent unmasked, so it moves an estimate as
far as (e^eps + 1) / (e^eps - 1) honest reports on average: its weight.

A second table has lies that come all at once, and a third what ``contamination`` of ``auto`` costs (``bursts.py``).
The last two are of the alarms of the service (``alarms.py``).

    make bench-liars                 # or: python -m bench.liars [--only shares bursts costs alarms] [--json]
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench import alarms, bursts
from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory

MEANS = [0.65, 0.35]
GAP = MEANS[0] - MEANS[1]
HORIZON, RUNS = 50_000, 32
EPSILONS = (0.5, 1.0, 2.0, 4.0, math.inf)
WARY = "auto, contamination=0.01"
LABELS = {
    "weight": "one lie weighs as much as honest reports: (e^ε + 1) / (e^ε - 1)",
    "predicted": "α\\* = s gap / (1 + s gap)",
}
POLICIES: dict[str, dict[str, Any]] = {
    "klucb-cf": {},
    "ucb-cf": {},
    "ts-cf": {},
    "sw-klucb-cf": {"window": 10_000},
    "d-klucb-cf": {"gamma": 0.9999},
    "glr-klucb-cf": {},
    "glr-ts-cf": {},
    "cusum-klucb-cf": {},
    "exp3s": {"horizon": HORIZON},
    "auto": {},
    WARY: {"contamination": 0.01},
}


def plain(label: str) -> str:
    """Return the name of a policy of the tables."""
    return label.split(",")[0]


def better_pulls(name: str, epsilon: float, share: float) -> float:
    """Return the share of pulls that the better arm gets in the second half."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    problem = Problem([MEANS], [0], HORIZON, mask, liars=share)
    policy = make_policy(plain(name), arms=2, corruption=mask, **POLICIES[name])
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


def shares() -> dict[str, Any]:
    """Measure shares of lies that are spread evenly, beside those that theory predicts."""
    slopes = [RandomizedResponse.from_epsilon(epsilon).slope for epsilon in EPSILONS]
    predicted = [theory.turning_share(GAP, slope) for slope in slopes]
    return {"weight": [1.0 / slope for slope in slopes], "predicted": predicted} | {
        name: [turned_at(name, each) for each in EPSILONS] for name in _report_progress(POLICIES)
    }


def share_table(rows: Mapping[str, Sequence[float]]) -> str:
    """Return a table of shares."""
    lines = [
        "| share of liars | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---" + "|--:" * len(EPSILONS) + "|",
    ]
    for name, row in rows.items():
        cells = [f"{number:.2f}" if name == "weight" else f"{100 * number:.1f} %" for number in row]
        lines.append(f"| {LABELS.get(name, f'`{name}`')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def all_bursts() -> dict[str, Any]:
    """Measure lies that come all at once."""
    return {
        name: [bursts.bursts(plain(name), POLICIES[name], epsilon) for epsilon in bursts.EPSILONS]
        for name in _report_progress(POLICIES)
    }


def all_costs() -> dict[str, Any]:
    """Measure what contamination costs."""
    problems = bursts.cost_problems()
    return {name: bursts.costs(problems[name]) for name in _report_progress(problems)}


def _report_progress(names: Iterable[str]) -> Iterator[str]:
    """Yield names, and report progress on stderr."""
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        yield name


PARTS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Any], str]]] = {
    "shares": (shares, share_table),
    "bursts": (all_bursts, bursts.burst_table),
    "costs": (all_costs, bursts.cost_table),
    "alarms": (alarms.measure, alarms.format_tables),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of the tables")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    options = parser.parse_args()
    found = {}
    for part in options.only:
        measure, table = PARTS[part]
        found[part] = measure()
        if not options.json:
            print(table(found[part]), end="\n\n", flush=True)
    if options.json:
        print(json.dumps({"epsilons": EPSILONS, "burst_epsilons": bursts.EPSILONS, **found}, indent=1))


if __name__ == "__main__":
    main()
