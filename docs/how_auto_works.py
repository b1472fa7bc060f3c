"""Writes the table of docs/how_auto_works.md: `python -m docs.how_auto_works`, about four minutes of one core."""

import math
from collections.abc import Iterator
from pathlib import Path

from bench.regret import scale_of

from docs import blocks
from maskedbandits import Problem, RandomizedResponse, make_policy, simulate

PAGE = Path(__file__).with_suffix(".md")
CALM = [0.6, 0.4, 0.3, 0.2, 0.1]
RISEN = [0.6, 0.4, 0.9, 0.2, 0.1]  # a better arm appears, while the best so far stays as it was
EPSILONS = (1.0, math.inf)
RUNS = {10_000: 100, 100_000: 100, 1_000_000: 20}  # by horizon


def lose(problem: Problem, expected_changes: float | None = None) -> float:
    """Return the mean regret of `auto` at the horizon."""
    policy = make_policy("auto", arms=problem.arms, corruption=problem.corruption, expected_changes=expected_changes)
    result = simulate(problem, policy, runs=RUNS[problem.horizon], seed=5, checkpoints=1, progress=False)
    return float(result.regret[:, -1].mean())


def rows() -> Iterator[list[str]]:
    """Yield the rows of the table."""
    for horizon in RUNS:
        for epsilon in EPSILONS:
            mask = RandomizedResponse.from_epsilon(epsilon)
            calm = Problem([CALM], [0], horizon, mask)
            risen = Problem([CALM, RISEN], [0, horizon // 2], horizon, mask)
            without, insured = lose(calm, 0.0), lose(calm)
            regrets = without, insured, lose(risen, 0.0), lose(risen)
            premium = f"{(insured - without) / scale_of(calm):.2f}"
            shown = "∞" if math.isinf(epsilon) else f"{epsilon:g}"
            yield [f"{horizon:,}", shown, *(f"{each:,.0f}" for each in regrets), premium]


def table() -> str:
    """Return the table in Markdown."""
    head = ["T", "ε", "calm, no insurance", "calm, `auto`", "a rise, no insurance", "a rise, `auto`", "premium"]
    lines = [head, ["--:"] * len(head), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    blocks.fill(PAGE, {"": table()})
