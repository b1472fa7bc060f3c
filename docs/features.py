"""Writes the blocks of docs/features.md: `python -m docs.features`, or one: `python -m docs.features speed`."""

import sys
from pathlib import Path

from bench import features

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")


def saved() -> str:
    """Return what knowing the mask is worth."""
    return f"{features.told(features.PROBLEMS, features.RUNS)}\n\n{features.table(features.PROBLEMS, features.RUNS)}"


BLOCKS = {"saved": saved, "speed": features.speed}


def main() -> None:
    """Write the page's blocks anew, or those that are named."""
    for which in sys.argv[1:] or BLOCKS:
        blocks.fill(PAGE, {which: BLOCKS[which]()})


if __name__ == "__main__":
    main()
