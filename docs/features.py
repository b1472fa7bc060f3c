"""Writes the blocks of docs/features.md: `python -m docs.features`, or one: `python -m docs.features speed`."""

import sys
from pathlib import Path

from bench import features

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")


def describe_savings() -> str:
    """Return what knowing the mask is worth."""
    size = features.PROBLEMS, features.RUNS
    return f"{features.describe_results(*size)}\n\n{features.table(*size)}"


BLOCKS = {"saved": describe_savings, "speed": features.describe_speed}


def main() -> None:
    """Write the page's blocks, or those that are named."""
    for which in sys.argv[1:] or BLOCKS:
        blocks.fill(PAGE, {which: BLOCKS[which]()})


if __name__ == "__main__":
    main()
