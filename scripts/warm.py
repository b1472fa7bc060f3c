"""Compile before the tests begin what most of them need, in two processes, so that neither waits for the other.

python -m scripts.warm
"""

import subprocess
import sys

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.cli.compile import compile_plain
from maskedbandits.policies import kind_of

SHARES = (["klucb-cf"], ["auto", "exp3s", "adswitch", "uniform", "oracle", "rexp3", "ldp-ucb-l", "dp-ucb"])
ON_AXES = "klucb-cf"  # stands for all policies with a memory and an index: they share their machine code


def compile_share(names: list[str]) -> None:
    """Compile policies: for live use, for simulations, and for late reports."""
    mask = RandomizedResponse.from_epsilon(1.0)
    problem = Problem([[0.2, 0.8]], [0], 10, mask)
    for name in names:
        compile_plain(kind_of(name), groups=name in (ON_AXES, "auto"))
        if name in (ON_AXES, "auto"):
            policy = make_policy(name, arms=2, corruption=mask)
            simulate(problem, policy, runs=1, delay=1, progress=False)


def main() -> None:
    """Compile one share, or start a process for each."""
    if len(sys.argv) > 1:
        compile_share(sys.argv[1:])
        return
    children = [subprocess.Popen([sys.executable, "-m", "scripts.warm", *share]) for share in SHARES]
    codes = [child.wait() for child in children]
    if any(codes):
        raise SystemExit("scripts.warm: a process that compiles has failed; what it says is above")


if __name__ == "__main__":
    main()
