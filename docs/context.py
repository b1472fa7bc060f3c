"""Writes the tables of docs/context.md: `python -m docs.context`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from docs import blocks
from docs.privacy import markdown
from maskedbandits.context import masks

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
GROUPS = (2, 5, 10, 20, 50)


def visitors() -> str:
    """Return how many times as many visitors each number of groups takes, and the kind of answers."""
    rows = []
    for groups in GROUPS:
        equal = np.full(groups, 1.0 / groups)
        cells = []
        for epsilon in EPSILONS:
            kind = masks.better_kind(epsilon, equal)
            times = 1.0 / masks.worth(kind, epsilon, equal)[0]
            cells.append(f"{times:,.{0 if times >= 10 else 1}f}, {kind}")
        rows.append([str(groups), *cells])
    return markdown(["groups", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], rows)


def regret() -> str:
    """Return what contextual policies lose, as the benchmark prints it."""
    command = [sys.executable, "-m", "bench.context"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip()  # noqa: S603


def main() -> None:
    """Write the page's blocks anew."""
    blocks.fill(PAGE, {"visitors": visitors(), "regret": regret()})


if __name__ == "__main__":
    main()
