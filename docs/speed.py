"""Writes the measurements of docs/speed.md: `python -m docs.speed [results/speed.txt]`.

They are what `make bench` has left in that file; where it has left nothing, the page keeps the figures that it has.
"""

import sys
from pathlib import Path

from docs import blocks

PAGE = Path(__file__).with_suffix(".md")
MEASURED = PAGE.parent.parent / "results" / "speed.txt"


def main() -> None:
    """Write what was measured into the page."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    if file.exists():
        measured = file.read_text(encoding="utf-8").strip("\n")
        blocks.fill(PAGE, {"": f"```text\n{measured}\n```"})


if __name__ == "__main__":
    main()
