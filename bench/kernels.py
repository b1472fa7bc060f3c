"""Compares the speed of the simulator's kernels in two source trees.

Times on shared machines vary, so one child process for each tree plays the same rows in turn. Each row is played many
times, and the least CPU time counts: every disturbance makes a run slower, and none makes it faster.

    python -m bench.kernels --against PATH [--rounds N] [--rows NAME ...]

PATH is the root of the other tree, such as a clone at an older commit. Both use the libraries of this environment. The
last lines give the slowest row and the geometric mean of the ratios.
"""

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 400_000
MEANS = [0.9] + 9 * [0.8]
WINDOW = 2_000
EPSILON = 1.0
# Policies and their parameters: every memory, index and detector occurs.
ROWS: dict[str, dict[str, Any]] = {
    "klucb-cf": {},
    "sw-klucb-cf": {"window": WINDOW},
    "d-klucb-cf": {"gamma": 1 - 1 / WINDOW},
    "ucb-cf": {},
    "sw-ucb-cf": {"window": WINDOW},
    "d-ucb-cf": {"gamma": 1 - 1 / WINDOW},
    "ts-cf": {},
    "sw-ts-cf": {"window": WINDOW},
    "d-ts-cf": {"gamma": 1 - 1 / WINDOW},
    "klucb-plus-cf": {"horizon": STEPS},
    "oracle-klucb-cf": {"restarts": [STEPS // 2]},
    "glr-klucb-cf": {},
    "cusum-ts-cf": {},
    "ph-ucb-cf": {},
    "m-klucb-cf": {},
    "auto": {},
    "exp3s": {"horizon": STEPS},
}
ROOT = Path(__file__).parents[1]


class Tree:
    """A child process that plays rows with the code of a source tree."""

    def __init__(self, root: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--play"],
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, row: str) -> float:
        """Return the nanoseconds of a step."""
        assert self._child.stdin is not None  # noqa: S101 -- for the type checker
        assert self._child.stdout is not None  # noqa: S101 -- likewise
        self._child.stdin.write(f"{row}\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the process that plays {row} has failed; its error is above")
        return float(line)

    def close(self) -> None:
        """End the child process."""
        assert self._child.stdin is not None  # noqa: S101 -- for the type checker
        self._child.stdin.close()
        self._child.wait()


def play_rows() -> None:
    """Play each row that is named on standard input, and print the nanoseconds of a step."""
    import maskedbandits as mb

    mask = mb.RandomizedResponse.from_epsilon(EPSILON)
    problem = mb.Problem([MEANS], [0], STEPS, mask)
    for line in sys.stdin:
        name = line.strip()
        policy = mb.make_policy(name, arms=len(MEANS), corruption=mask, **ROWS[name])
        result = mb.simulate(problem, policy, runs=1, seed=1, checkpoints=1, progress=False)
        print(result.kernel_seconds / STEPS * 1e9, flush=True)


def compare(here: Callable[[str], float], there: Callable[[str], float], row: str, rounds: int) -> tuple[float, float]:
    """Return the least times of a row in both trees, measured in turn."""
    here(row), there(row)  # compiles, or loads machine code
    pairs = [(here(row), there(row)) for _ in range(rounds)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def main() -> None:
    """Print the nanoseconds of a step in both trees, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, help="the root of the other source tree")
    parser.add_argument("--rounds", type=int, default=25, help="how often each row is played")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="the policies to play")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play_rows()
        return
    if options.against is None:
        parser.error("--against PATH is required")
    this, other = Tree(ROOT), Tree(options.against)
    print(f"{'ns a step, K = 10':20} {'against':>9} {'here':>9} {'ratio':>7}")
    ratios = {}
    for row in options.rows:
        here, there = compare(this.measure, other.measure, row, options.rounds)
        ratios[row] = here / there
        print(f"{row:20} {there:9.1f} {here:9.1f} {ratios[row]:7.3f}", flush=True)
    slowest = max(ratios, key=lambda row: ratios[row])
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"slowest: {slowest}, {ratios[slowest]:.3f} times the time (goal: at most 1.12)")
    print(f"geometric mean: {mean:.3f} times the time (goal: at most 1.05)")
    this.close()
    other.close()


if __name__ == "__main__":
    main()
