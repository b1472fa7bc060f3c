"""Writes the measurements of docs/speed.md: `python -m docs.speed [results/speed.txt]`.

They are what `make bench` has left in that file, and `make bench-sweep` in results/sweep.md. Without such a file, the
page keeps the figures that it has.
"""

import sys
from pathlib import Path

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")
RESULTS = PAGE.parent.parent / "results"


def main() -> None:
    """Write what was measured into the page."""
    speed = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "speed.txt"
    sweep = RESULTS / "sweep.md"
    if speed.exists():
        blocks.fill(PAGE, {"": f"```text\n{read(speed)}\n```"})
    if sweep.exists():
        blocks.fill(PAGE, {"sweep": read(sweep)})


def read(file: Path) -> str:
    """Return what a benchmark has left."""
    return file.read_text(encoding="utf-8").strip("\n")


if __name__ == "__main__":
    main()
