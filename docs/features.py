"""Writes the table of docs/features.md: `python -m docs.features`."""

from pathlib import Path

from bench import features

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")


def main() -> None:
    """Write the table into the page."""
    words = features.told(features.PROBLEMS, features.RUNS)
    blocks.fill(PAGE, {"": f"{words}\n\n{features.table(features.PROBLEMS, features.RUNS)}"})


if __name__ == "__main__":
    main()
